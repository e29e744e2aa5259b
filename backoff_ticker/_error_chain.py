"""``__cause__`` and ``__context__``: finding a ``Permanent`` along them, and extending them."""

from __future__ import annotations

from ._errors import Permanent, RetryAfter


def find_permanent(error: BaseException) -> Permanent | None:
    """Return the first ``Permanent`` among ``error`` and its causes."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        if isinstance(link, Permanent):
            return link
        seen.add(id(link))
        link = link.__cause__
    return None


def unwrapped(marker: BaseException) -> BaseException:
    """Return the error inside ``marker``; itself if it holds none, or is no marker.

    An error that was never raised itself takes over the traceback and the chain of the marker.
    """
    error: BaseException = marker
    while isinstance(error, (Permanent, RetryAfter)) and error.error is not None:
        error = error.error
    if error is marker:
        return error
    if error.__traceback__ is None:
        error.with_traceback(marker.__traceback__)
    if error.__cause__ is None and error.__context__ is None:
        if marker.__cause__ is not None and marker.__cause__ is not error:
            set_link(error, "__cause__", marker.__cause__)
        elif marker.__context__ is not None and marker.__context__ is not error:
            set_link(error, "__context__", marker.__context__)
    return error


def set_link(error: BaseException, link: str, other: BaseException | None) -> None:
    """Set ``__cause__`` or ``__context__``, even if the exception class forbids assignment."""
    BaseException.__setattr__(error, link, other)


def _leads_to(error: BaseException, other: BaseException) -> bool:
    """Whether ``other`` is ``error``, or in its chain of causes and contexts."""
    seen: set[int] = set()
    links: list[BaseException | None] = [error]
    while links:
        link = links.pop()
        if link is other:
            return True
        if link is not None and id(link) not in seen:
            seen.add(id(link))
            links += (link.__cause__, link.__context__)
    return False


def append_cause(error: BaseException, earlier: BaseException) -> None:
    """Make ``earlier`` the cause of ``error``, or the context of the last error in its own chain.

    So a traceback shows both, and all that it would show of ``error`` alone. An ``error`` that was
    raised ``from None``, where there was nothing else to hide, hides ``earlier``. If it is in the
    chain of ``earlier`` already, nothing changes, as that would make a cycle.
    """
    if _leads_to(earlier, error):
        return
    has_context = error.__context__ is not None and not _leads_to(earlier, error.__context__)
    if error.__cause__ is None and has_context == error.__suppress_context__:
        set_link(error, "__cause__", earlier)
        if not has_context:  # both, as `raise error from earlier` has it in a handler
            set_link(error, "__context__", earlier)
        return
    seen = {id(earlier)}
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        error, link = link, link.__context__ if link.__cause__ is None else link.__cause__
    if link is None:  # else `earlier` is in the chain already, or the chain is a cycle
        set_link(error, "__context__", earlier)

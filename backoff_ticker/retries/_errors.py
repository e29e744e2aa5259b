"""What an operation raises to tell its retry more than that it failed; and a rejected result."""

from __future__ import annotations

from .._errors import BackoffTickerError
from .._validation import as_seconds, safe_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta


class Permanent(BackoffTickerError):
    """Raised by an operation: no further attempt can help; whoever retries it raises ``error``.

    It is found along ``__cause__``, too: ``raise MyError from Permanent(error)``. Where nobody
    retries, it passes as any error does.

    Source: ``Permanent`` of cenkalti/backoff v4.

    Args:
        error: What is raised at the end.

    Raises:
        TypeError: ``error`` is no exception.
    """

    def __init__(self, error: BaseException) -> None:
        if not isinstance(error, BaseException):
            raise TypeError(f"error must be an exception, not {safe_repr(error)}")
        super().__init__(error)
        self.error: BaseException = error

    def __str__(self) -> str:
        return _named(self.error)


class RetryAfter(BackoffTickerError):
    """Raised by an operation: try again in ``seconds``, whatever ``on`` and the policy would say.

    The policy is asked all the same, so its limits and those of the retry bind; and no wait is
    longer than ``max_retry_after``.

    Args:
        seconds: Seconds >= 0 or a timedelta: the next wait.
        error: What failed; what hooks are told of, and what is raised if there is no further
            attempt. None: the ``RetryAfter`` itself.

    Raises:
        TypeError, ValueError: ``seconds`` is not a finite duration of at least 0.
        TypeError: ``error`` is neither None nor an ``Exception``.
    """

    def __init__(self, seconds: float | timedelta, error: Exception | None = None) -> None:
        self.seconds: float = as_seconds("seconds", seconds)
        fits = isinstance(error, Exception) and not isinstance(error, (Permanent, RetryAfter))
        if error is not None and not fits:
            raise TypeError(
                "error must be None or an Exception that is neither Permanent nor RetryAfter, "
                f"not {safe_repr(error)}"
            )
        super().__init__(seconds, error)
        self.error: Exception | None = error

    def __str__(self) -> str:
        text = f"retry after {self.seconds} s"
        return text if self.error is None else f"{text}: {_named(self.error)}"


class RejectedResult(BackoffTickerError):
    """An operation returned what ``until`` or ``retry_if`` did not accept.

    Attributes:
        result: What it returned.
    """

    def __init__(self, result: object) -> None:
        super().__init__(result)
        self.result: object = result

    def __str__(self) -> str:
        return f"a result of type {type(self.result).__name__} was not accepted"


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def permanent_in(error: BaseException) -> Permanent | None:
    """Return the first ``Permanent`` among ``error`` and its causes."""
    if error.__cause__ is None:
        return error if isinstance(error, Permanent) else None
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        if isinstance(link, Permanent):
            return link
        seen.add(id(link))
        link = link.__cause__
    return None


def unwrapped(marker: Permanent | RetryAfter) -> BaseException:
    """Return the error inside, with what is known of where it comes from; or else itself."""
    error: BaseException = marker
    while isinstance(error, (Permanent, RetryAfter)) and error.error is not None:
        error = error.error
    if error is marker:
        return error
    if error.__traceback__ is None:
        error.with_traceback(marker.__traceback__)
    if error.__cause__ is None and error.__context__ is None:
        if marker.__cause__ is not None and marker.__cause__ is not error:
            chain(error, "__cause__", marker.__cause__)
        elif marker.__context__ is not None and marker.__context__ is not error:
            chain(error, "__context__", marker.__context__)
    return error


def chain(error: BaseException, link: str, other: BaseException | None) -> None:
    """Set ``__cause__`` or ``__context__``, also of an error that is frozen."""
    BaseException.__setattr__(error, link, other)


def hang_on(error: BaseException, earlier: BaseException) -> None:
    """Have ``error`` lead to an earlier one: from it, or from where its own causes end."""
    if error is earlier:
        return
    if error.__cause__ is None:
        chain(error, "__cause__", earlier)
        return
    seen = {id(earlier)}
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        error, link = link, link.__context__ if link.__cause__ is None else link.__cause__
    if link is None:
        chain(error, "__context__", earlier)

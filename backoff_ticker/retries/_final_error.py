"""The end of a run for its caller: the error to raise, with its note, or a fallback instead."""

from __future__ import annotations

from types import CoroutineType

from .._error_chain import append_cause, set_link
from .._operation import close_unawaited, is_awaitable
from .._validation import counted
from ._option_table import NO_FALLBACK
from ._outcome import StopReason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_WITHOUT_FALLBACK = {StopReason.CANCELLED, StopReason.FAILED, StopReason.NOT_RETRIED}


async def conclude(run: Any) -> None:
    """Set ``run.final``, the error to raise for a run without a result, or ``run.result``.

    The result is that of ``fallback``. ``run`` is a ``Run`` or a hedged call that has ended.
    """
    ending, last = run.ending, run.error
    if is_untouched(run) or ending.reason is StopReason.INTERRUPTED:
        run.final = last
        return
    run.final = final = last if ending.error is None else ending.error
    ending.error = None  # its traceback may refer to this frame: a reference cycle
    try:
        if last is not None and final is not last:
            if ending.reason is StopReason.FAILED:
                append_cause(final, last)
            else:
                set_link(final, "__cause__", last)
        if run.options.note is not False:
            made = counted(run.attempts, "attempt")
            _annotate(
                final, f"{_PREFIX}{made} in {round(run.ended - run.began, 3)} s: {ending.why}"
            )
        if run.options.fallback is not NO_FALLBACK and ending.reason not in _WITHOUT_FALLBACK:
            run.result = await _answer_of(run.options.fallback, run)
            run.final = None
    except Exception as failure:  # raised by the caller
        append_cause(failure, final)
        run.final = failure
    finally:
        del final, last  # a traceback refers to this frame: a reference cycle


def is_untouched(run: Any) -> bool:
    """Whether the error of the first attempt passes unchanged: ``on`` does not retry it."""
    return run.ending.reason is StopReason.NOT_RETRIED and run.attempts == 1


async def _answer_of(fallback: Any, run: Any) -> Any:
    """Return what ``fallback`` is, or returns."""
    if not callable(fallback):
        return fallback
    result = fallback(run.outcome())
    if isinstance(result, CoroutineType) and not run.awaits:
        close_unawaited(result)
        raise TypeError("fallback returned a coroutine, which only a coroutine can await")
    return (await result) if run.awaits and is_awaitable(result) else result


def raise_final(run: Any, ended_by: BaseException | None = None) -> None:
    """Raise ``run.final``, the error of a run, once, with the context that it has.

    But not ``ended_by``, which has ended the block of a loop and is raised anyway.
    """
    final, run.final = run.final, None
    if final is None or final is ended_by:
        return
    context = final.__context__
    try:
        raise final
    finally:
        # `raise` replaces it by the error that is being handled.
        if context is not None or ended_by is not None:
            set_link(final, "__context__", context)
        del final, context, ended_by  # a traceback refers to this frame: a reference cycle


_PREFIX = "gave up after "


def _annotate(error: BaseException, note: str) -> None:
    """Add ``note`` to ``error``, replacing the note that another run left there."""
    try:
        notes = getattr(error, "__notes__", None)
        kept = [old for old in notes if not _is_ours(old)] if isinstance(notes, list) else []
        # Not add_note(): a frozen exception class forbids attributes.
        BaseException.__setattr__(error, "__notes__", [*kept, note])
    except Exception:  # noqa: S110 - an error that takes no notes is raised without one
        pass


def _is_ours(note: object) -> bool:
    return isinstance(note, str) and note.startswith(_PREFIX) and " attempt" in note[:40]

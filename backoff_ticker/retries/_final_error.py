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
    from collections.abc import Callable
    from typing import Any

    from ._options import Options
    from ._outcome import Ending, Outcome

_WITHOUT_FALLBACK = {StopReason.CANCELLED, StopReason.FAILED, StopReason.NOT_RETRIED}


def final_error(
    ending: Ending, last: Any, attempts: int, seconds: float, *, note: bool
) -> BaseException:
    """Return the error to raise for a run that has ended without a result.

    Args:
        ending: How it ended.
        last: The error of the last attempt that failed; None: none has.
        attempts: How many were made.
        seconds: How long that took.
        note: Whether the error gets a note that tells it.
    """
    final: BaseException = last if ending.error is None else ending.error
    if last is not None and final is not last and ending.reason is not StopReason.FAILED:
        set_link(final, "__cause__", last)
    if note:
        made = counted(attempts, "attempt")
        _annotate(final, f"{_PREFIX}{made} in {round(seconds, 3)} s: {ending.why}")
    return final


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


def takes_fallback(options: Options, ending: Ending) -> bool:
    """Whether ``fallback`` stands for the error of a run that has ended so."""
    return options.fallback is not NO_FALLBACK and ending.reason not in _WITHOUT_FALLBACK


async def fall_back(
    fallback: Any, outcome: Callable[[], Outcome], final: BaseException, *, awaits: bool
) -> Any:
    """Return what ``fallback`` is, or returns; what it raises has ``final`` as its cause."""
    if not callable(fallback):
        return fallback
    try:
        result = fallback(outcome())
        if isinstance(result, CoroutineType) and not awaits:
            close_unawaited(result)
            text = "fallback returned a coroutine, which only a coroutine can await"
            raise TypeError(text)  # noqa: TRY301 - an error of the fallback
        return (await result) if awaits and is_awaitable(result) else result
    except Exception as failure:
        append_cause(failure, final)
        raise
    finally:
        del final  # a traceback refers to this frame: a reference cycle


_PREFIX = "gave up after "


def _annotate(error: BaseException, note: str) -> None:
    """Add ``note`` to ``error``, replacing the note that another run left there."""
    try:
        notes = getattr(error, "__notes__", None)
        kept = [old for old in notes if not _is_ours(old)] if isinstance(notes, list) else []
        # Not add_note(): a frozen exception class forbids attributes.
        BaseException.__setattr__(error, "__notes__", [*kept, note])
    except Exception:  # noqa: BLE001, S110 - an error that takes no notes is raised without one
        pass


def _is_ours(note: object) -> bool:
    return isinstance(note, str) and note.startswith(_PREFIX) and " attempt" in note[:40]

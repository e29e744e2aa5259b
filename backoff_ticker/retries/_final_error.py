"""The end of a run for its caller: the result, or the error to raise, with its note."""

from __future__ import annotations

from types import CoroutineType, coroutine

from .._error_chain import append_cause, set_link
from .._errors import DeadlineExceeded
from .._operation import close_unawaited, is_awaitable
from .._validation import counted, safe_repr
from ._option_table import NO_FALLBACK
from ._outcome import StopReason
from ._run import REFUSED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

    from ._run import Run

_WITHOUT_ERROR = {None, StopReason.SUCCEEDED, StopReason.INTERRUPTED}
_WITHOUT_FALLBACK = {StopReason.CANCELLED, StopReason.FAILED, StopReason.NOT_RETRIED}


@coroutine  # not async: see perform()
def conclude(run: Run) -> Generator[Any, Any, None]:
    """Store in ``run.final`` the error to raise for a run that has ended, if any.

    With a fallback, the run has a result after all, unless the fallback fails.
    """
    run.final = _final_error(run)
    has_fallback = run.options.fallback is not NO_FALLBACK
    if run.final is not None and has_fallback and run.reason not in _WITHOUT_FALLBACK:
        yield from _fall_back(run, run.options.fallback)


async def _fall_back(run: Run, fallback: Any) -> None:
    final: Any
    final, run.final = run.final, None
    try:
        run.result = fallback(run.outcome()) if callable(fallback) else fallback
        if not callable(fallback):
            return
        if run.awaits and is_awaitable(run.result):
            run.result = await run.result
        elif run.result.__class__ is CoroutineType:
            close_unawaited(run.result)
            text = "fallback returned a coroutine, which only a coroutine can await"
            raise TypeError(text)  # noqa: TRY301 - handled as an error of fallback
    except Exception as failure:  # noqa: BLE001 - raised at the end
        append_cause(failure, final)
        run.final = failure
    finally:
        del final  # its traceback refers to this frame: a reference cycle


def raise_final(run: Run, ended_by: BaseException | None = None) -> None:
    """Raise the error of a run, if any, once, with the context that it has.

    But not ``ended_by``, which has ended the block of a loop and is raised anyway.
    """
    final = run.final
    if final is None:
        return
    run.final = None
    if final is ended_by:
        return
    context = final.__context__
    try:
        raise final
    finally:
        # `raise` replaces it by the error that is being handled.
        if context is not None or ended_by is not None:
            set_link(final, "__context__", context)
        del final, context


def _final_error(run: Run) -> BaseException | None:
    """Return the error to raise at the end, with a note that says why; None after a success."""
    last, failure, cut = run.error, run.failure, run.cut
    if run.reason in _WITHOUT_ERROR:
        return None
    if run.is_untouched:
        return last  # type: ignore[no-any-return]
    run.failure = run.cut = None
    final: Any = last if failure is None else failure
    why = _why(run)
    if run.reason is StopReason.CANCELLED:
        final = run.error_for(REFUSED)
        why = str(final)
    elif run.reason is StopReason.DEADLINE:
        final = DeadlineExceeded(why) if run.is_waiting else DeadlineExceeded()
    if last is not None:
        if failure is not None:
            append_cause(failure, last)
        elif final is not last:
            set_link(final, "__cause__", last)
    if cut is not None and final.__context__ is None:
        set_link(final, "__context__", cut)
    # Nothing measures the time before the first attempt where no option needs it.
    taken = "" if run.began is None else f" in {round(run.ended - run.began, 3)} s"
    _annotate(final, f"{_PREFIX}{counted(run.attempts, 'attempt')}{taken}: {why}")
    return final  # type: ignore[no-any-return]


def _why(run: Run) -> str:  # noqa: C901, PLR0911 - one for each reason
    options, the_wait = run.options, f"the next wait of {round(run.delay, 3)} s would"
    match run.reason:
        case StopReason.PERMANENT:
            return "the error is permanent"
        case StopReason.NOT_RETRIED:
            return "on does not retry this error"
        case StopReason.MAX_ATTEMPTS:
            return f"max_attempts is {run.max_attempts}"
        case StopReason.EXHAUSTED:
            return f"the policy stopped: {safe_repr(run.policy)}"
        case StopReason.BUDGET:
            return f"nothing left in {safe_repr(options.budget)}"
        case StopReason.DEADLINE:
            why = f"the timeout of {options.timeout!r} s"
            return f"{the_wait} reach {why}" if run.is_waiting else why
        case StopReason.CIRCUIT_OPEN if not run.is_waiting:
            return "the circuit is open until a reset"
        case StopReason.CIRCUIT_OPEN if run.skipping is not None:
            return "the circuit is open, and no_wait() does not skip its time"
        case StopReason.CIRCUIT_OPEN:
            return f"the circuit stays open longer than timeout={options.timeout!r} allows"
        case StopReason.FAILED | StopReason.CANCELLED:
            return f"{run.failed_component} failed"
    # The other reasons are limits, which have the names of their options.
    name = str(run.reason)
    limit = f"{name} of {getattr(options, name)!r} s"
    return f"{the_wait} exceed {limit}" if run.is_waiting else f"{limit} has passed"


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

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
    from typing import Any, NoReturn

    from ._run import Run

_PREFIX = "gave up after "
_WITHOUT_ERROR = {None, StopReason.SUCCEEDED, StopReason.INTERRUPTED}
_WITHOUT_FALLBACK = {StopReason.CANCELLED, StopReason.FAILED, StopReason.NOT_RETRIED}


@coroutine  # not async: see perform()
def concluded(run: Run) -> Generator[Any, Any, BaseException | None]:
    """Return the error to raise for a run that has ended; None: ``run.result`` is the result.

    The result may be that of its fallback.
    """
    final = take_final_error(run)
    try:
        if final is None or not _falls_back(run):
            return final
        return (yield from _fallen_back(run, final))  # type: ignore[no-any-return]
    finally:
        del final  # its traceback refers to this frame: a reference cycle


async def _fallen_back(run: Run, final: BaseException) -> BaseException | None:
    try:
        fallback = run.options.fallback
        if callable(fallback):
            run.result = fallback(run.outcome())
            if run.awaits and is_awaitable(run.result):
                run.result = await run.result
            elif run.result.__class__ is CoroutineType:
                close_unawaited(run.result)
                text = "fallback returned a coroutine, which only a coroutine can await"
                raise TypeError(text) from final  # noqa: TRY301 - handled as an error of fallback
        else:
            run.result = fallback
    except Exception as failure:  # noqa: BLE001 - returned
        append_cause(failure, final)
        return failure
    else:
        return None
    finally:
        del final  # as above


def _falls_back(run: Run) -> bool:
    return run.options.fallback is not NO_FALLBACK and run.reason not in _WITHOUT_FALLBACK


def raised(final: BaseException) -> NoReturn:
    """Raise the error of a run, with the context that it has."""
    context = final.__context__
    try:
        raise final
    finally:
        if context is not None:  # `raise` replaces it by the error that is being handled
            set_link(final, "__context__", context)
        del final, context


def take_final_error(run: Run) -> BaseException | None:
    """Return the error to raise at the end, with a note that says why; None after a success."""
    if run.reason in _WITHOUT_ERROR:
        return None
    if run.is_untouched:
        return run.error  # type: ignore[no-any-return]
    last, failure, cut = run.error, run.failure, run.cut
    run.failure = run.cut = None
    if run.reason is StopReason.CANCELLED:
        final: Any = run.error_for(REFUSED)
        why = str(final)
    elif run.reason is StopReason.DEADLINE:
        final = DeadlineExceeded()
        why = f"the timeout of {run.options.timeout!r} s"
        if run.is_waiting:
            why = f"the next wait of {round(run.delay, 3)} s would reach {why}"
            final = DeadlineExceeded(why)
    else:
        final = last if failure is None else failure
        why = _why(run)
    if last is not None:
        if failure is not None:
            append_cause(failure, last)
        elif final is not last:
            set_link(final, "__cause__", last)
    if cut is not None and final.__context__ is None:
        set_link(final, "__context__", cut)
    _annotate(final, _note(run, why))
    return final  # type: ignore[no-any-return]


def _why(run: Run) -> str:  # noqa: PLR0911 - one for each reason
    options = run.options
    match run.reason:
        case StopReason.PERMANENT:
            return "the error is permanent"
        case StopReason.NOT_RETRIED:
            return "on does not retry this error"
        case StopReason.MAX_ATTEMPTS:
            return f"max_attempts is {run.max_attempts}"
        case StopReason.MAX_ELAPSED_TIME:
            why = f"max_elapsed_time of {options.max_elapsed_time!r} s"
            if run.is_waiting:
                return f"the next wait of {round(run.delay, 3)} s would end later than {why}"
            return f"later than {why}"
        case StopReason.EXHAUSTED:
            return f"the policy stopped: {safe_repr(run.policy or options.backoff)}"
        case StopReason.CIRCUIT_OPEN:
            return _why_circuit_open(run)
        case StopReason.BUDGET:
            return f"nothing left in {options.budget!r}"
    return f"{run.failed_component} failed"


def _why_circuit_open(run: Run) -> str:
    if not run.is_waiting:
        return "the circuit is open until a reset"
    if run.skipping is not None:
        return "the circuit is open, and no_wait() does not skip its time"
    return f"the circuit stays open longer than timeout={run.options.timeout!r} allows"


def _note(run: Run, why: str) -> str:
    times = counted(run.attempts, "attempt")
    # Nothing is measured before the first attempt where no option needs it: no time is told then.
    taken = "" if run.began is None else f" in {round(run.ended - run.began, 3)} s"
    return f"{_PREFIX}{times}{taken}: {why}"


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
    """Whether a note has the form of ``_note()``."""
    words = note.split(maxsplit=5) if isinstance(note, str) and note.startswith(_PREFIX) else []
    return len(words) > 4 and words[3].isdigit() and words[4].startswith("attempt")  # noqa: PLR2004

"""How a run ends for its caller: the result, or the error that is raised, and its note."""

from __future__ import annotations

from .._errors import DeadlineExceeded
from .._validation import safe_repr
from ._errors import chain, hang_on
from ._outcome import StopReason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._run import Run

_NOTE = "gave up after "
_WITHOUT_ERROR = {None, StopReason.SUCCEEDED, StopReason.INTERRUPTED}


def result_of(run: Run) -> Any:
    """Return the result of a run that has ended, or raise its error."""
    final = take_final_error(run)
    if final is None:
        return run.result
    context = final.__context__
    try:
        raise final
    finally:
        if context is not None:  # where another error is being handled, Python puts that there
            chain(final, "__context__", context)
        del final, context


def take_final_error(run: Run) -> BaseException | None:
    """Return what is to be raised at the end, with a note that says why; None if nothing is."""
    if run.reason in _WITHOUT_ERROR:
        return None
    last, failure, cut = run.error, run.failure, run.cut
    run.failure = run.cut = None
    if run.reason is StopReason.CANCELLED:
        final: Any = refusal(run)
        why = str(final)
    elif run.reason is StopReason.DEADLINE:
        final = DeadlineExceeded()
        why = f"the timeout of {run.rules.timeout!r} s"
        if run.is_waiting:
            why = f"a wait of {round(run.delay, 3)} s would reach {why}"
    else:
        final = last if failure is None else failure
        why = _why(run)
    if last is not None:
        if failure is not None:
            hang_on(failure, last)
        elif final is not last:
            chain(final, "__cause__", last)
    if cut is not None and final.__context__ is None:
        chain(final, "__context__", cut)
    _annotate(final, _note(run, why))
    return final  # type: ignore[no-any-return]


def refusal(run: Run) -> Exception:
    """Return what stands for an attempt that must not be made any more."""
    token = run.token
    return token.error() if token is not None and token.cancelled else DeadlineExceeded()


def cut_error(run: Run) -> Exception:
    """Return what stands for an attempt that was cut."""
    if run.cut_for is StopReason.CANCELLED:
        return refusal(run)
    if run.cut_for is StopReason.DEADLINE:
        return DeadlineExceeded()
    error = TimeoutError(f"the attempt took longer than {run.rules.attempt_timeout!r} s")
    error.__context__ = run.cut
    return error


def _why(run: Run) -> str:
    rules = run.rules
    match run.reason:
        case StopReason.PERMANENT:
            return "the error is permanent"
        case StopReason.NOT_RETRIED:
            return "on does not retry this error"
        case StopReason.MAX_ATTEMPTS:
            return f"max_attempts is {rules.max_attempts}"
        case StopReason.EXHAUSTED:
            return f"the policy stopped: {safe_repr(rules.backoff)}"
        case StopReason.BUDGET:
            return f"nothing left in {rules.budget!r}"
    return f"{run.blamed} failed"


def _note(run: Run, why: str) -> str:
    times = "1 attempt" if run.attempts == 1 else f"{run.attempts} attempts"
    since = "" if run.from_start else " since the first failed"
    return f"{_NOTE}{times} in {round(run.ended - run.began, 3)} s{since}: {why}"


def _annotate(error: BaseException, note: str) -> None:
    """Add ``note`` to ``error``, in place of one that another run left there."""
    try:
        notes = getattr(error, "__notes__", None)
        kept = [old for old in notes if not _is_ours(old)] if isinstance(notes, list) else []
        # Not add_note(): an error that is frozen takes no attributes.
        BaseException.__setattr__(error, "__notes__", [*kept, note])
    except Exception:  # noqa: BLE001, S110 - an error that refuses notes is raised without one
        pass


def _is_ours(note: object) -> bool:
    words = note.split(maxsplit=5) if isinstance(note, str) and note.startswith(_NOTE) else []
    return len(words) > 4 and words[3].isdigit() and words[4].startswith("attempt")  # noqa: PLR2004

"""The order of things in one run, written once for threads and event loops.

A script is a generator of steps. Whoever drives it does what it asks for, in a thread or in a
coroutine, and sends the answer back; what that raises is thrown in:

* ``CALL``: call the operation, unless the token is cancelled and this is not the first attempt.
  The answer is None if it returned (what, is then the run's ``result``), the ``Exception`` that it
  raised, ``REFUSED`` or ``CUT``.
* ``RETRY``: nothing; another attempt is to follow: ``notify``, ``on_retry`` and the wait are next.
* ``PAUSE``: wait for the run's ``delay``, which may be 0; a cancel ends the wait.
* ``END``: all is done.
* anything else is a function of the user's to be called; the answer is what it returns (in a
  coroutine, what it returns awaited).
"""

from __future__ import annotations

from functools import partial
from types import AsyncGeneratorType, GeneratorType

from ._ending import cut_error, refusal
from ._errors import RejectedResult
from ._outcome import StopReason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any, Final

    from ._run import Run

    Script = Generator[Any, Any, None]

CALL: Final = "call"
RETRY: Final = "retry"
PAUSE: Final = "pause"
END: Final = "end"

REFUSED: Any = object()
"""Answer to ``CALL``: it was not made, because the token was cancelled."""
CUT: Any = object()
"""Answer to ``CALL``: it was cut by the token or a limit of time."""


class Closed(BaseException):
    """A ``GeneratorExit`` that ended a block: thrown as such it would close the script itself.

    Attributes:
        error: The ``GeneratorExit``.
    """

    def __init__(self, error: GeneratorExit) -> None:
        self.error = error


class Enter:
    """A step before ``CALL``: enter what spans the attempt."""

    __slots__ = ("_enter", "is_async")

    def __init__(self, enter: Callable[[], object], *, is_async: bool) -> None:
        self._enter = enter
        self.is_async = is_async

    def __call__(self) -> object:
        return self._enter()


def steps(run: Run) -> Script:  # noqa: C901, PLR0912, PLR0915 - the order of things, in one place
    """Yield the steps of a run, of which no attempt has been made."""
    rules = run.rules
    answer: Any
    reason: StopReason | None
    try:
        while True:
            run.attempts += 1
            if rules.on_attempt is None:
                answer = yield CALL
            else:
                answer = yield from _spanned(run, "on_attempt", CALL)
            if answer is REFUSED:
                reason = run.refused()
            elif answer is CUT:
                reason = run.judge_cut()
            elif answer is not None:
                reason = run.judge(answer)
            elif run.accepts():
                reason = StopReason.SUCCEEDED
            else:
                reason = run.judge(RejectedResult(run.result), always=True)
            if reason is not None:
                break
            run.is_waiting = True
            yield RETRY
            if rules.notify is not None:
                run.culprit = "notify"
                yield partial(rules.notify, run.error, run.delay)
            if rules.on_retry is None:
                yield PAUSE
            else:
                yield from _spanned(run, "on_retry", PAUSE)
            run.is_waiting = False
            reason = run.look(run.now())
            if reason is not None:
                break
    except Exception as failure:  # noqa: BLE001 - raised at the end
        reason = run.fail(failure)
    except BaseException:
        run.end(StopReason.INTERRUPTED)
        raise
    answer = None
    run.end(reason)
    try:
        if reason is StopReason.SUCCEEDED:
            if rules.budget is not None:
                rules.budget.success()
            yield from _spanned(run, "on_success", None)
    except Exception as failure:  # noqa: BLE001 - raised at the end
        run.end(run.fail(failure))
    try:
        if run.reason is not StopReason.SUCCEEDED:
            yield from _spanned(run, "on_give_up", None)
    except Exception as failure:  # noqa: BLE001 - raised at the end
        run.end(run.fail(failure))
    yield END


def _spanned(run: Run, name: str, step: str | None) -> Generator[Any, Any, Any]:  # noqa: C901
    """Call a hook; if it returns a context manager, have that span ``step``.

    The manager is left exactly once, with the error that ended the step; what it makes of that is
    its own affair.
    """
    hook = getattr(run.rules, name)
    if hook is None:
        return None
    run.culprit = name
    manager = yield partial(hook, run.outcome())
    managed = None if manager is None else _managed(name, manager)
    if managed is None:
        if step is CALL and _is_late(run):
            return REFUSED
        return None if step is None else (yield step)
    is_async, enter, leave = managed
    yield Enter(enter, is_async=is_async) if step is CALL else enter
    answer: Any = None
    try:
        if step is CALL and _is_late(run):
            answer = REFUSED
        elif step is not None:
            answer = yield step
    except GeneratorExit:  # dropped: nobody would do another step
        if not is_async:
            leave(None, None, None)
        raise
    except BaseException as interrupt:
        run.culprit = name
        seen = interrupt.error if isinstance(interrupt, Closed) else interrupt
        yield partial(leave, type(seen), seen, seen.__traceback__)
        raise
    run.culprit = name
    seen = answer
    if answer is CUT or answer is REFUSED:
        seen = cut_error(run) if answer is CUT else refusal(run)
    if isinstance(seen, BaseException):
        yield partial(leave, type(seen), seen, seen.__traceback__)
    else:
        yield partial(leave, None, None, None)
    return answer


def _is_late(run: Run) -> bool:
    """Whether an attempt must not be made any more, because its hook took so long."""
    return run.attempts > 1 and run.look(run.now()) is not None


def _managed(
    name: str, manager: object
) -> tuple[bool, Callable[[], object], Callable[..., object]] | None:
    """Return whether a context manager is an asynchronous one, and how it is entered and left.

    None if it is none: what else a hook returns does not matter.
    """
    for enter, leave in (("__enter__", "__exit__"), ("__aenter__", "__aexit__")):
        if hasattr(manager, enter) and hasattr(manager, leave):
            return enter == "__aenter__", getattr(manager, enter), getattr(manager, leave)
    if isinstance(manager, (GeneratorType, AsyncGeneratorType)):
        raise TypeError(f"{name} is a generator function, which needs @contextmanager around it")
    return None

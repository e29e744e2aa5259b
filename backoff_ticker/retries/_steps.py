"""The order of hooks, attempts and waits in one run, for threads, coroutines and loops.

``_order()`` is a generator of steps. ``Steps`` performs them, in a thread or a coroutine, and sends
the answers back; what a step raises is thrown into the generator. The steps are:

* ``ATTEMPT``: make an attempt. The answer is the ``error`` that ``Run.after_attempt()`` takes.
* ``RETRY``: nothing to do. Another attempt follows; ``notify``, ``on_retry`` and the wait are next.
* ``ASK_BUDGET``: ``ask_budget()``, in coroutines only.
* ``WAIT``: ``wait()``, for a delay that may be 0. The answer is what that returns.
* ``END``: the run has ended.
* anything else is a user's function to call; the answer is what it returns (in a coroutine, an
  awaitable that it returns is awaited).
"""

from __future__ import annotations

import enum
from functools import partial
from types import AsyncGeneratorType, GeneratorType

from ._ask_budget import ask_budget
from ._attempt_context import show_next_attempt
from ._operation import close_unawaited, is_awaitable
from ._options import Awaiting
from ._outcome import StopReason
from ._run import ASK_BUDGET, REFUSED, NoResult
from ._wait import wait, wait_async

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any

    from ._run import Run

    Order = Generator[Any, Any, None]
    Manager = tuple[bool, Callable[[], object], Callable[..., object]]


class Step(enum.Enum):
    """The steps that are not a user's functions."""

    ATTEMPT = enum.auto()
    RETRY = enum.auto()
    WAIT = enum.auto()
    END = enum.auto()


ATTEMPT, RETRY, WAIT, END = Step


class EnterManager:
    """A step before ``ATTEMPT``: enter the context manager that ``on_attempt`` returned.

    Attributes:
        is_async: Whether the manager is an asynchronous one.
    """

    __slots__ = ("_enter", "is_async")

    def __init__(self, enter: Callable[[], object], *, is_async: bool) -> None:
        self._enter = enter
        self.is_async = is_async

    def __call__(self) -> object:
        return self._enter()


class GeneratorExitCarrier(BaseException):
    """Carries a ``GeneratorExit`` that ended the block of an attempt into ``_order()``.

    Thrown as itself it would close that generator instead of being handled there.

    Attributes:
        error: The ``GeneratorExit``.
    """

    def __init__(self, error: GeneratorExit) -> None:
        self.error = error


def _order(run: Run) -> Order:  # noqa: C901, PLR0912 - it is one order
    """Yield the steps of a run."""
    options = run.options
    reason: Any
    try:
        while True:
            run.attempts += 1
            if run.is_tracked:
                show_next_attempt(run)
            if options.on_attempt is None:
                error = yield ATTEMPT
            else:
                error = yield from _with_hooks(run, "on_attempt", ATTEMPT)
            reason = run.after_attempt(error)
            error = None  # its traceback refers to the frame that holds this generator
            if reason.__class__ is Awaiting and reason is not ASK_BUDGET:
                reason = run.after_answer((yield reason))
            if reason is ASK_BUDGET:
                yield ASK_BUDGET
                reason = run.after_budget()
            if reason is not None:
                break
            run.is_waiting = True
            yield RETRY
            for function in options.notify or ():
                run.failing_component = "notify"
                yield partial(function, run.error, run.delay)
            if options.on_retry is None:
                reason = yield WAIT
            else:
                reason = yield from _with_hooks(run, "on_retry", WAIT)
            run.is_waiting = False
            if reason is not None:
                break
    except Exception as failure:  # noqa: BLE001 - raised at the end
        reason = run.fail(failure)
    except BaseException:  # an interrupt, or nobody goes on with the run: a loop was left
        run.end(StopReason.INTERRUPTED)
        run.cancel_attempts()
        raise
    run.end(reason)
    if reason is StopReason.SUCCEEDED:
        if options.budget is not None:
            options.budget.success()
        if options.on_success is not None:
            yield from _last_hooks(run, "on_success")
    gave_up = run.reason is not StopReason.SUCCEEDED and not run.is_untouched
    if gave_up and options.on_give_up is not None:
        yield from _last_hooks(run, "on_give_up")  # also if on_success has failed
    yield END


def _last_hooks(run: Run, name: str) -> Order:
    try:
        yield from _with_hooks(run, name, None)
    except Exception as failure:  # noqa: BLE001 - raised at the end
        run.end(run.fail(failure))


def _with_hooks(run: Run, name: str, step: Step | None) -> Generator[Any, Any, Any]:
    """Yield ``step`` and return its answer, with the hooks called before, in their order.

    If hooks return context managers, these are entered before the step, and left exactly once after
    it with the error that ended the step; whether they swallow that error does not matter.
    """
    run.failing_component = name
    outcome = run.outcome()
    managers = []
    for hook in getattr(run.options, name):
        manager = yield partial(hook, outcome)
        managed = None if manager is None else _managed(name, manager)
        if managed is not None:
            managers.append(managed)
    return (yield from _inside(run, name, step, managers))


def _inside(
    run: Run, name: str, step: Step | None, managers: list[Manager]
) -> Generator[Any, Any, Any]:
    """Yield ``step`` and return its answer, inside the managers, the first outermost."""
    if not managers:
        if step is ATTEMPT and _is_late(run):
            return REFUSED
        return None if step is None else (yield step)
    (is_async, enter, leave), *inner = managers
    if step is ATTEMPT:
        # A loop stops here, before it enters any of them: it must know whether it can.
        yield EnterManager(enter, is_async=is_async or any(each[0] for each in inner))
    else:
        yield enter
    try:
        answer = yield from _inside(run, name, step, inner)
    except GeneratorExit:  # the run was dropped: no further step would be performed
        if not is_async:
            leave(None, None, None)
        raise
    except BaseException as interrupt:
        run.failing_component = name
        seen = interrupt.error if isinstance(interrupt, GeneratorExitCarrier) else interrupt
        yield partial(leave, type(seen), seen, seen.__traceback__)
        raise
    run.failing_component = name
    told: Any = run.failure if answer is StopReason.FAILED else answer  # the wait has failed
    seen = run.error_for(told) if isinstance(told, NoResult) else told
    if isinstance(seen, BaseException):
        yield partial(leave, type(seen), seen, seen.__traceback__)
    else:
        yield partial(leave, None, None, None)
    return answer


def _is_late(run: Run) -> bool:
    """Whether an attempt must not be made because a limit was reached during its hook."""
    return run.attempts > 1 and run.limit_reached(run.now_if_limited()) is not None


def _managed(name: str, manager: object) -> Manager | None:
    """Return whether a context manager is asynchronous, and how to enter and leave it.

    None for any other object: what else a hook returns does not matter.
    """
    for enter, leave in (("__enter__", "__exit__"), ("__aenter__", "__aexit__")):
        if hasattr(manager, enter) and hasattr(manager, leave):
            return enter == "__aenter__", getattr(manager, enter), getattr(manager, leave)
    if isinstance(manager, (GeneratorType, AsyncGeneratorType)):
        raise TypeError(f"{name} is a generator function, which needs @contextmanager around it")
    return None


class Steps:
    """The steps of one run, performed up to a point: by drivers to the end, by loops in parts.

    Args:
        run: The run, before its first attempt.

    Attributes:
        step: The step to perform next. ``END`` also after anything that ``_order()`` raised, such
            as an interrupt: nothing more is to be done then.
    """

    __slots__ = ("_order", "_refusal", "_run", "step")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._refusal: Exception | None = None
        self._order = _order(run)
        self.step: Any = next(self._order)

    def answer(self, answer: object) -> None:
        """Give the answer to the step that the caller has performed."""
        self.step = END
        self.step = self._order.send(answer)

    def throw(self, error: BaseException) -> None:
        """Throw in what the step that the caller has performed raised."""
        self.step = END
        self.step = self._order.throw(error)

    def refuse_attempt(self) -> bool:
        """Whether the attempt of a loop that is due must not be made.

        ``_order()`` is then told, at once or when this is called again after the steps that are due
        before the attempt.
        """
        run = self._run
        if self.step is END:
            return False
        if self._refusal is None:
            if run.is_refused():
                self._refusal = REFUSED
            elif run.options.breaker is not None and run.ticket is None:
                try:
                    self._refusal = run.ask_circuit()
                except Exception as failure:  # noqa: BLE001 - raised at the end
                    self.throw(failure)
                    return True
        if self._refusal is None:
            return False
        if self.step is ATTEMPT:
            refusal, self._refusal = self._refusal, None
            self.answer(refusal)
        return True

    def close(self) -> None:
        """End the run here: perform no further step."""
        self.step = END
        self._order.close()

    def advance(self, *until: object) -> None:
        """Perform steps up to ``ATTEMPT``, ``END``, or a step or kind of step in ``until``."""
        run, order = self._run, self._order
        step, self.step = self.step, END
        while step is not ATTEMPT and step is not END and not (until and _is_of(step, until)):
            answer: Any = None
            try:
                if step is WAIT:
                    answer = wait(run)
                elif step is not RETRY:
                    answer = step()
                    if answer is not None and is_awaitable(answer):
                        self._raise_awaitable(answer)
            except BaseException as interrupt:  # noqa: BLE001 - _order() raises it again
                step = order.throw(interrupt)
            else:
                step = order.send(answer)
        self.step = step

    async def advance_async(self, *until: object) -> None:
        """Perform steps as ``advance()`` does, in a coroutine; awaitable answers are awaited."""
        run, order = self._run, self._order
        step, self.step = self.step, END
        while step is not ATTEMPT and step is not END and not (until and _is_of(step, until)):
            answer: Any = None
            try:
                if step is WAIT:
                    answer = await wait_async(run)
                elif step is ASK_BUDGET:
                    await ask_budget(run)
                elif step is not RETRY:
                    answer = step()
                    if answer is not None and is_awaitable(answer):
                        answer = await answer
            except BaseException as interrupt:  # noqa: BLE001 - _order() raises it again
                step = order.throw(interrupt)
            else:
                step = order.send(answer)
        self.step = step

    def advance_unawaited(self) -> None:
        """Perform steps up to ``ATTEMPT``, ``RETRY`` or ``END`` that need no ``await``.

        If a step needs one, the next ``advance_async()`` awaits its answer and goes on from there.
        """
        step, self.step = self.step, END
        while not (step is ATTEMPT or step is END or step is RETRY or step is ASK_BUDGET):
            try:
                answer = step()
            except BaseException as interrupt:  # noqa: BLE001 - _order() raises it again
                step = self._order.throw(interrupt)
                continue
            if is_awaitable(answer):
                step = partial(_same, answer)
                break
            step = self._order.send(answer)
        self.step = step

    def finish_unawaited(self) -> None:
        """Perform the steps before ``ATTEMPT`` or ``END`` without awaiting any answer."""
        self.advance_unawaited()
        while self.step is not ATTEMPT and self.step is not END:
            close_unawaited(self.step())
            self.answer(None)
            self.advance_unawaited()

    def _raise_awaitable(self, answer: object) -> None:
        close_unawaited(answer)
        raise TypeError(
            f"{self._run.failing_component} returned an awaitable, which only a coroutine can await"
        )


def _is_of(step: Any, until: tuple[object, ...]) -> bool:
    return step in until or step.__class__ in until


def _same(answer: object) -> object:
    return answer

"""The single path through a retry: attempts, hooks, decisions and waits, in their order.

``perform()`` is written once, as a coroutine, and ``Run`` decides what follows. Three drive it:

* A thread runs it to its end by one ``next()``: where a coroutine awaits, a thread calls, so it
  never suspends. See ``drive()``.
* A coroutine awaits it. See ``drive_async()``.
* A loop over ``attempts()`` has no operation to call: it runs ``perform()`` from one ``Marker`` to
  the next, and tells it how the block ended.
"""

from __future__ import annotations

from types import AsyncGeneratorType, CoroutineType, GeneratorType, coroutine

from .._operation import close_unawaited, coroutine_returned, is_awaitable, not_awaitable
from .._sentinels import EMPTY
from ..waiting import CHECKPOINT_EVERY as EVERY
from ._attempt_context import close_run, enter_run, show_next_attempt
from ._attempt_scope import attempt_scope
from ._decisions import AWAIT, Marker, awaited, decide
from ._final_error import conclude, raise_final
from ._outcome import StopReason
from ._run import CUT, REFUSED, SUCCEEDED, NoResult
from ._wait import wait

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator
    from typing import Any, NoReturn

    from ._attempt_scope import AttemptScope
    from ._run import Run
    from ._settings import Hooks

    Inner = Callable[[Run], Any]
    Manager = tuple[Callable[[], object], Callable[..., object]]


READY = Marker()
"""The next attempt is due, and may be made."""
CALL = Marker()
"""Its block begins; the answer is the exception that ended it, or None."""
RETRY = Marker()
"""The block has failed, and another attempt follows."""


class GeneratorExitCarrier(BaseException):
    """Carries a ``GeneratorExit`` that ended the block of a loop into ``perform()``.

    Thrown as itself it would say that ``perform()`` is dropped, and can await nothing.
    """

    def __init__(self, error: GeneratorExit) -> None:
        self.error = error


def drive(run: Run, error: Exception | None = None) -> Any:
    """Bring a run to its end in this thread; return the result, or raise how it ended.

    ``error`` is what the first attempt raised, if it was made already.
    """
    try:
        if run.is_tracked:
            enter_run(run)
        next(perform(run, error), None)  # to its end
        result = run.result
    finally:
        run.error = error = None  # its traceback refers to this frame: a reference cycle
        if run.is_tracked or run.is_paid or run.ticket is not None:
            try:
                close_run(run)
            except BaseException:  # an interrupt
                close_run(run)
                raise
    raise_final(run)
    return result


async def drive_async(run: Run, error: Exception | None = None) -> Any:
    """Bring a run to its end in this coroutine, as ``drive()`` does in a thread."""
    run.awaits = True
    try:
        if run.is_tracked:
            enter_run(run)
        await perform(run, error)
        result = run.result
    finally:
        run.error = error = None
        if run.is_tracked or run.is_paid or run.ticket is not None:
            try:
                close_run(run)
            except BaseException:  # an interrupt
                close_run(run)
                raise
    raise_final(run)
    return result


@coroutine  # not async: Python would warn of a coroutine that an interrupt kept from its first step
def perform(  # noqa: C901, PLR0912, PLR0915 - one path, read from top to bottom
    run: Run, error: Exception | None
) -> Generator[Any, Any, None]:
    """Bring a run to its end: to ``run.final``, the error to raise, or else to ``run.result``."""
    options = run.options
    on_attempt, needs_steps = options.on_attempt, options.needs_steps
    awaits_budget = run.awaits and options.awaits_budget
    is_loop = run.is_loop
    may_await = is_loop or run.awaits or options.breaker is not None
    # The shortest way to make an attempt; in managers of hooks it is always _attempt().
    make: Any = _attempt if is_loop or options.breaker is not None else _call_async
    managers: Any
    reason: Any = None
    try:
        while True:
            if error is None:
                run.attempts += 1
                if run.is_tracked:
                    show_next_attempt(run)
                managers = None
                if on_attempt is not None:
                    managers = yield from _hooks(run, "on_attempt", on_attempt)
                if is_loop:
                    yield from _gate(run, managers)
                if on_attempt is not None and run.attempts > 1 and run.limit_reached():
                    run.refusal = error = REFUSED  # the hooks may have taken long
                if managers:
                    error = yield from _inside(run, "on_attempt", managers, _attempt)
                elif error is None:
                    error = (yield from make(run)) if may_await else _call(run)
            if error is None and not options.judges_results:
                reason = SUCCEEDED
                break
            is_known = error.__class__ in options.retried and not awaits_budget
            if is_known and error.__cause__ is None:  # type: ignore[union-attr]  # not None
                run.error = error  # as decide() would do, but without a generator
                reason = run.plan_retry(None)
            else:
                reason = yield from decide(run, error)
            if reason is not None:
                break
            error = None
            if is_loop:
                run.is_waiting = True
                yield RETRY
            managers = None
            if needs_steps:
                run.is_waiting = True
                for function in options.notify or ():
                    run.failing_component = "notify"
                    answer = function(run.error, run.delay)
                    if answer is not None:
                        yield from awaited(run, answer)
                if options.on_retry is not None:
                    managers = yield from _hooks(run, "on_retry", options.on_retry)
            if managers:
                reason = yield from _inside(run, "on_retry", managers, wait)
            elif run.delay or run.always_waits or (run.awaits and run.attempts % EVERY == 0):
                reason = yield from wait(run)
            elif needs_steps:
                reason = run.limit_reached()  # the functions may have taken long
            run.is_waiting = False
            if reason is not None:
                break
    except Exception as failure:  # noqa: BLE001 - raised at the end
        reason = run.fail(failure)
    except BaseException:  # an interrupt, or nobody goes on with the run: a loop was left
        run.end(StopReason.INTERRUPTED)
        run.cancel_attempts()
        raise
    finally:
        error = None  # its traceback refers to this frame
    run.end(reason)
    if reason is SUCCEEDED:
        if options.budget is not None:
            options.budget.success()
        if options.on_success is not None:
            yield from _last_hooks(run, "on_success", options.on_success)
        if run.reason is SUCCEEDED:
            return
    if options.on_give_up is not None and not run.is_untouched:
        yield from _last_hooks(run, "on_give_up", options.on_give_up)  # also if on_success failed
    yield from conclude(run)


async def _gate(run: Run, managers: Collection[Manager] | None) -> None:
    """Find out whether the next attempt of a loop must not be made; if it may, say so."""
    run.needs_await = any(enter.__name__ == "__aenter__" for enter, _ in managers or ())
    if run.is_refused():
        run.refusal = REFUSED
    elif run.options.breaker is not None:
        run.refusal = run.ask_circuit()
    if run.refusal is None:
        await READY


async def _attempt(run: Run) -> Exception | None:
    """Make one attempt; return the ``error`` that ``decide()`` takes."""
    options = run.options
    refusal, run.refusal = run.refusal, None
    if refusal is None and not run.is_loop and options.breaker is not None:
        refusal = run.ask_circuit()
    if refusal is not None:
        return refusal
    error = None
    try:
        if run.is_loop or run.awaits:
            error = await _call_async(run)
        else:
            error = _call(run)
    except BaseException as interrupt:
        if options.breaker is not None:
            run.tell_circuit(interrupt)
        raise
    try:
        if options.breaker is not None:
            run.tell_circuit(error)
        return error
    finally:
        del error


def _call(run: Run) -> Exception | None:
    """Call the operation once, unless that is refused."""
    # No call between the check of the token and that of the operation: a signal handler could
    # come there and cancel the token, and the operation would be called after the cancel.
    if run.token is not None and run.is_refused():
        return REFUSED
    run.is_paid = False
    try:
        run.result = run.operation(*run.args, **run.kwargs)  # type: ignore[misc]  # not a loop's
    except Exception as failure:  # noqa: BLE001 - the run decides about it
        return failure
    if run.result.__class__ is CoroutineType and not run.options.is_off:
        run.failing_component = run.name
        raise_coroutine_returned(run.name, run.result)
    return None


def raise_coroutine_returned(name: str, result: object) -> NoReturn:
    """Raise a TypeError: an operation that is called, not awaited, returned a coroutine."""
    raise coroutine_returned(
        name, result, "decorate an `async def` function, or use retry_call_async() or `async for`"
    )


async def _call_async(  # noqa: C901, PLR0912 - it must be awaited, and may be cut
    run: Run,
) -> Exception | None:
    """Await the operation once, unless that is refused or cut; or have a loop run its block."""
    operation = run.operation
    can_cut = run.awaits and (run.options.can_cut or run.token is not None)
    scope = attempt_scope(run) if can_cut else None
    if scope is not None:
        if operation is None:
            scope.block.enter()
        else:
            await scope.block.enter_async()
    error: Any = None
    plain = False
    try:
        if run.token is not None and run.is_refused():
            error = REFUSED
        elif operation is None:
            run.is_paid = False
            run.result = EMPTY
            error = await CALL
        else:
            run.is_paid = False
            run.result = operation(*run.args, **run.kwargs)  # right after the check, as above
            plain = not is_awaitable(run.result)
            if not plain:
                run.result = await run.result
    except BaseException as failure:
        if scope is not None and scope.leave(failure):
            await _settled(run, scope)
        if run.cut is failure:
            return CUT
        if not isinstance(failure, Exception):
            raise
        return failure
    if scope is not None and scope.leave(error):
        await _settled(run, scope)
    if plain and not run.options.is_off:
        run.failing_component = run.name
        raise not_awaitable(run.name, run.result)
    if error is None and run.result is EMPTY and run.options.judges_results:
        run.failing_component = "a block without attempt.set_result()"
        raise RuntimeError("until and retry_if need attempt.set_result(value)")
    return error  # type: ignore[no-any-return]


async def _settled(run: Run, scope: AttemptScope) -> None:
    if run.is_loop:
        await AWAIT
    await scope.block.settle()


# Hooks


@coroutine
def _hooks(run: Run, name: str, hooks: Hooks) -> Generator[Any, Any, list[Manager]]:
    """Call hooks in their order; return the context managers that they answer with."""
    run.failing_component = name
    outcome = run.outcome()
    managers = []
    for hook in hooks:
        answer = hook(outcome)
        if answer is not None:
            managed = _managed(name, (yield from awaited(run, answer)))
            if managed is not None:
                managers.append(managed)
    return managers


@coroutine
def _last_hooks(run: Run, name: str, hooks: Hooks) -> Generator[Any, Any, None]:
    """Call the hooks at the end of a run; enter and leave their managers around nothing."""
    try:
        managers = yield from _hooks(run, name, hooks)
        if managers:
            yield from _inside(run, name, managers, None)
    except Exception as failure:  # noqa: BLE001 - raised at the end
        run.end(run.fail(failure))
    except GeneratorExit:  # a loop was left before hooks that its next step awaits
        run.cancel_attempts()
        raise


async def _inside(run: Run, name: str, managers: list[Manager], inner: Inner | None) -> Any:
    """Return the answer of ``inner(run)`` inside the managers, the first outermost.

    Each is left exactly once, with the error that ended ``inner``; whether it swallows that error
    does not matter.
    """
    if not managers:
        return None if inner is None else await inner(run)
    (enter, leave), *others = managers
    await awaited(run, enter())
    try:
        answer = await _inside(run, name, others, inner)
    except GeneratorExit as dropped:  # nothing can be awaited
        close_unawaited(_left(leave, dropped))
        raise
    except BaseException as interrupt:
        run.failing_component = name
        await awaited(run, _left(leave, interrupt))
        raise
    run.failing_component = name
    told: Any = run.failure if answer is StopReason.FAILED else answer  # the wait has failed
    ended = run.error_for(told) if isinstance(told, NoResult) else told
    try:
        await awaited(run, _left(leave, ended if isinstance(ended, BaseException) else None))
        return answer
    finally:
        del answer, told, ended  # a traceback refers to this frame: a reference cycle


def _left(leave: Callable[..., object], error: BaseException | None) -> object:
    """Leave a manager with an error, or without; return its answer."""
    if isinstance(error, GeneratorExitCarrier):
        error = error.error
    if error is None:
        return leave(None, None, None)
    return leave(type(error), error, error.__traceback__)


def _managed(name: str, manager: object) -> Manager | None:
    """Return how to enter and leave a context manager.

    None for any other object: what else a hook returns does not matter.
    """
    for enter, leave in (("__enter__", "__exit__"), ("__aenter__", "__aexit__")):
        if hasattr(manager, enter) and hasattr(manager, leave):
            return getattr(manager, enter), getattr(manager, leave)
    if isinstance(manager, (GeneratorType, AsyncGeneratorType)):
        raise TypeError(f"{name} is a generator function, which needs @contextmanager around it")
    return None

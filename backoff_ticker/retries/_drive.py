"""The two who bring a run to its end: a thread, and a coroutine.

Where nobody is told of what happens they go the straight way, which is why a retry costs little;
else a script says what comes when. What follows a failure is ``Run.judge``'s to say in both.
"""

from __future__ import annotations

from functools import partial
from types import CoroutineType

from .._waiting import GIVE_WAY_EACH
from ._cut import cutting
from ._pause import pause, pause_async
from ._script import CALL, CUT, END, PAUSE, REFUSED, steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Any, NoReturn

    from ._outcome import StopReason
    from ._run import Run
    from ._script import Script

    Args = tuple[Any, ...]
    Kwargs = Mapping[str, Any]

__all__ = [
    "NO_KWARGS",
    "advance",
    "advance_async",
    "drive",
    "drive_async",
    "is_awaitable",
    "not_awaitable",
    "refuse_coroutine",
    "refuse_plain",
]

NO_KWARGS: Kwargs = {}


def drive(  # noqa: C901 - a call more would cost more than the rest
    run: Run, operation: Callable[..., Any], args: Args = (), kwargs: Kwargs = NO_KWARGS
) -> Any:
    """Call an operation until the run ends; return its result, or raise how it ended."""
    if run.rules.told:
        return _drive_told(run, partial(operation, *args, **kwargs))
    error = run.error
    try:
        while True:
            if error is not None:
                try:
                    now = run.clock.monotonic() if run.deadline is not None else 0.0
                    reason = run.judge(error, now)
                    if reason is None and (run.delay or run.paced):
                        pause(run)
                        reason = run.look(run.now())
                except Exception as failure:  # noqa: BLE001 - of the policy, `on` or the timer
                    reason = run.fail(failure)
                if reason is not None:
                    return _ended(run, reason)
            run.attempts += 1
            token = run.token
            if token is not None and run.attempts > 1 and token.cancelled:
                return _ended(run, run.refused())
            try:
                # No call stands between the look at the token and this one.
                result = operation(*args, **kwargs)
            except Exception as failure:  # noqa: BLE001 - the run judges it
                error = failure
            else:
                if result.__class__ is CoroutineType:
                    refuse_coroutine(run.name, result)
                if run.rules.budget is not None:
                    run.rules.budget.success()
                return result
    finally:
        run.error = error = None  # it leads to this frame


async def drive_async(  # noqa: C901, PLR0912 - as above
    run: Run, operation: Callable[..., Any], args: Args = (), kwargs: Kwargs = NO_KWARGS
) -> Any:
    """Await an operation until the run ends; return its result, or raise how it ended."""
    rules = run.rules
    if rules.told:
        return await _drive_told_async(run, partial(operation, *args, **kwargs))
    error: Any = run.error
    try:
        while True:
            if error is not None:
                try:
                    now = run.clock.monotonic() if run.deadline is not None else 0.0
                    reason = run.judge_cut(now) if error is CUT else run.judge(error, now)
                    if reason is None and (
                        run.delay or run.paced or run.attempts % GIVE_WAY_EACH == 0
                    ):
                        await pause_async(run)
                        reason = run.look(run.now())
                except Exception as failure:  # noqa: BLE001 - of the policy, `on` or the timer
                    reason = run.fail(failure)
                if reason is not None:
                    return _ended(run, reason)
            run.attempts += 1
            if run.token is not None or run.deadline is not None or rules.cuts:
                error = await _attempt(run, partial(operation, *args, **kwargs))
                if error is REFUSED:
                    return _ended(run, run.refused())
                if error is not None:
                    continue
                result = run.result
            else:
                try:
                    awaitable = operation(*args, **kwargs)
                    plain = awaitable.__class__ is not CoroutineType and not is_awaitable(awaitable)
                    result = None if plain else await awaitable
                except Exception as failure:  # noqa: BLE001 - the run judges it
                    error = failure
                    continue
                if plain:
                    refuse_plain(run.name, awaitable)
            if rules.budget is not None:
                rules.budget.success()
            return result
    finally:
        run.error = error = None  # it leads to this frame


def _drive_told(run: Run, operation: Callable[[], Any]) -> Any:
    script = steps(run)
    try:
        step = advance(run, script, next(script))
        while step is not END:
            error: Any = None
            token = run.token
            try:
                if token is not None and run.attempts > 1 and token.cancelled:
                    error = REFUSED
                else:
                    run.result = operation()
            except Exception as failure:  # noqa: BLE001 - the run judges it
                error = failure
            except BaseException as interrupt:  # noqa: BLE001 - the script raises it again
                step = advance(run, script, script.throw(interrupt))
                continue
            if error is None and run.result.__class__ is CoroutineType:
                refuse_coroutine(run.name, run.result)
            step = script.send(error)
            error = None
            step = advance(run, script, step)
        return _result(run)
    finally:
        script.close()
        run.error = error = None  # it leads to this frame


async def _drive_told_async(run: Run, operation: Callable[[], Awaitable[Any]]) -> Any:
    script = steps(run)
    try:
        step = await advance_async(run, script, next(script))
        while step is not END:
            try:
                error = await _attempt(run, operation)
            except BaseException as interrupt:  # noqa: BLE001 - the script raises it again
                step = await advance_async(run, script, script.throw(interrupt))
                continue
            step = script.send(error)
            error = None
            step = await advance_async(run, script, step)
        return _result(run)
    finally:
        script.close()
        run.error = error = None  # it leads to this frame


async def _attempt(run: Run, operation: Callable[[], Awaitable[Any]]) -> Any:
    """Make an attempt that may be cut; return what a script wants to know of it.

    Raises:
        TypeError: What the operation returned cannot be awaited.
    """
    cut = None
    if run.token is not None or run.deadline is not None or run.rules.cuts:
        cut = cutting(run)
    if cut is not None:
        await cut.scope.__aenter__()
    refused = plain = False
    try:
        token = run.token
        refused = token is not None and run.attempts > 1 and token.cancelled
        if not refused:
            awaitable = operation()
            plain = not is_awaitable(awaitable)
            run.result = None if plain else await awaitable
    except BaseException as failure:
        if cut is not None and cut.leave(failure):
            await cut.scope.settle()
        if run.cut is failure:
            return CUT
        if not isinstance(failure, Exception):
            raise
        return failure
    if cut is not None and cut.leave(None):
        await cut.scope.settle()
    if plain:
        refuse_plain(run.name, awaitable)
    return REFUSED if refused else None


def advance(run: Run, script: Script, step: object, *, until: object = None) -> object:
    """Do what a script asks for until it wants the operation called, or ends; return which.

    Or until a step that is ``until``, or of that class.
    """
    while not _is_reached(step, until):
        answer = None
        try:
            if step is PAUSE:
                pause(run)
            else:
                answer = _call_hook(run, step)
        except BaseException as interrupt:  # noqa: BLE001 - the script raises it again
            step = script.throw(interrupt)
        else:
            step = script.send(answer)
    return step


async def advance_async(run: Run, script: Script, step: object, *, until: object = None) -> object:
    """Do in a coroutine what ``advance()`` does in a thread; awaitable answers are awaited."""
    while not _is_reached(step, until):
        answer: Any = None
        try:
            if step is PAUSE:
                await pause_async(run)
            else:
                answer = step()  # type: ignore[operator]
                if is_awaitable(answer):
                    answer = await answer
        except BaseException as interrupt:  # noqa: BLE001 - the script raises it again
            step = script.throw(interrupt)
        else:
            step = script.send(answer)
    return step


def _is_reached(step: object, until: object) -> bool:
    return step is CALL or step is END or step is until or step.__class__ is until


def _call_hook(run: Run, step: Any) -> object:
    answer = step()
    if is_awaitable(answer):
        _drop(answer)
        raise TypeError(f"{run.culprit} returned an awaitable, which only a coroutine can await")
    return answer


# The end


def _ended(run: Run, reason: StopReason) -> Any:
    run.end(reason)
    return _result(run)


def _result(run: Run) -> Any:
    """Return the result of a run that has ended, or raise its error."""
    final = run.take_final_error()
    if final is None:
        return run.result
    try:
        raise final
    finally:
        del final


# What can be awaited, and what cannot


def is_awaitable(thing: object) -> bool:
    """Whether a coroutine can await ``thing``."""
    return thing.__class__ is CoroutineType or hasattr(thing, "__await__")


def _drop(thing: object) -> None:
    """Close a coroutine that nobody will await, before the interpreter warns of it."""
    if isinstance(thing, CoroutineType):
        thing.close()


def refuse_coroutine(name: str, result: object) -> NoReturn:
    """Raise a TypeError: a call that cannot await returned a coroutine."""
    _drop(result)
    raise TypeError(
        f"{name} returned a coroutine, whose errors nobody would retry here: decorate a function "
        "that is an `async def`, or use retry_call_async() or `async for`"
    )


def refuse_plain(name: str, result: object) -> NoReturn:
    """Raise a TypeError: what is to be awaited cannot be."""
    raise TypeError(not_awaitable(name, result))


def not_awaitable(name: str, result: object) -> str:
    """Return what is wrong where an operation returned what cannot be awaited."""
    return f"{name} must return an awaitable, not one of type {type(result).__name__}"

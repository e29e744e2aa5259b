"""The two who drive a script to its end: a thread, and a coroutine."""

from __future__ import annotations

from types import CoroutineType

from ._cut import cutting
from ._pause import pause, pause_async
from ._script import CALL, CUT, END, PAUSE, REFUSED, steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any, NoReturn, TypeVar

    from ._run import Run
    from ._script import Script

    T = TypeVar("T")

__all__ = [
    "advance",
    "advance_async",
    "drive",
    "drive_async",
    "is_awaitable",
    "refuse_coroutine",
    "refuse_plain",
]


def drive(run: Run, operation: Callable[[], T]) -> T:
    """Call ``operation`` until the run ends; return its result, or raise how it ended."""
    script = steps(run)
    step = advance(run, script, next(script))
    while step is not END:
        error: Any = None
        try:
            token = run.token  # the last look at it: what comes later comes while it runs
            if token is not None and run.attempts > 1 and token.cancelled:
                error = REFUSED
            else:
                run.result = operation()
        except Exception as failure:  # noqa: BLE001 - the script judges it
            error = failure
        except BaseException as interrupt:
            step = advance(run, script, script.throw(interrupt))
            continue
        if error is None and run.result.__class__ is CoroutineType:
            refuse_coroutine(run.name, run.result)
        step = script.send(error)
        error = None  # it leads to this frame
        if step is not CALL:
            step = advance(run, script, step)
    return _ended(run)


async def drive_async(run: Run, operation: Callable[[], Awaitable[T]]) -> T:
    """Await ``operation()`` until the run ends; return its result, or raise how it ended."""
    script = steps(run)
    step = await advance_async(run, script, next(script))
    while step is not END:
        error: Any = None
        scope = cutting(run)
        try:
            token = run.token
            if token is not None and run.attempts > 1 and token.cancelled:
                error = REFUSED
            else:
                awaitable = operation()
                if not is_awaitable(awaitable):
                    error = END
                elif scope is None:
                    run.result = await awaitable
                else:
                    async with scope:
                        run.result = await awaitable
        except Exception as failure:  # noqa: BLE001 - the script judges it
            error = failure
            if scope is not None and failure is scope.error:
                error, run.cut = CUT, failure.__cause__
        except BaseException as interrupt:
            step = await advance_async(run, script, script.throw(interrupt))
            continue
        if error is END:
            refuse_plain(run.name, awaitable)
        step = script.send(error)
        error = scope = None  # they lead to this frame
        if step is not CALL:
            step = await advance_async(run, script, step)
    return _ended(run)


def advance(run: Run, script: Script, step: object, *, waits: bool = True) -> object:
    """Do what a script asks for until it wants the operation called, or ends; return which.

    Without ``waits``, also until it wants to wait.
    """
    while step is not CALL and step is not END and (waits or step is not PAUSE):
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


async def advance_async(run: Run, script: Script, step: object, *, waits: bool = True) -> object:
    """Do in a coroutine what ``advance()`` does in a thread; awaitable answers are awaited."""
    while step is not CALL and step is not END and (waits or step is not PAUSE):
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


def _call_hook(run: Run, step: Any) -> object:  # noqa: ANN401 - a step is what the script yields
    """Call what a script asks to be called where nothing can be awaited."""
    answer = step()
    if is_awaitable(answer):
        _drop(answer)
        raise TypeError(f"{run.culprit} returned an awaitable, which only a coroutine can await")
    return answer


def _ended(run: Run) -> Any:  # noqa: ANN401 - what the operation returned
    final = run.take_final_error()
    if final is None:
        return run.result
    run.error = None  # or the error would lead to its frame, and the frame to the error
    try:
        raise final
    finally:
        del final


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
    raise TypeError(f"{name} must return an awaitable, not one of type {type(result).__name__}")

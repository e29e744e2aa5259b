"""Functions that users give: their names, what they return, and whether it can be awaited."""

from __future__ import annotations

from functools import partial
from types import CoroutineType, GeneratorType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any, TypeVar

    T = TypeVar("T")

_CO_ITERABLE_COROUTINE = 0x100  # as `inspect` has it, which takes long to import


def kind_of(function: object) -> str:
    """Return ``"function"``, ``"coroutine function"``, ``"generator"`` or ``"async generator"``."""
    import inspect

    if not _is_mock_of_function(function):
        for candidate in (function, getattr(type(function), "__call__", None)):  # noqa: B004 - its code
            if inspect.iscoroutinefunction(candidate):
                return "coroutine function"
            if inspect.isasyncgenfunction(candidate):
                return "async generator"
            if inspect.isgeneratorfunction(candidate):
                return "generator"
    return "function"


def _is_mock_of_function(function: Any) -> bool:
    """Return whether it is a mock with the spec of a function that is not a coroutine function.

    To ``inspect`` such a mock is a coroutine function and a generator at once, and its questions
    would be among the calls that the mock has recorded.
    """
    while issubclass(type(function), partial):
        function = function.func
    code = getattr(function, "__code__", None)
    return code is not None and type(getattr(code, "co_flags", 0)) is not int


def name_of(operation: object) -> str:
    while isinstance(operation, partial):
        operation = operation.func
    name = getattr(operation, "__qualname__", None)
    return name if isinstance(name, str) else type(operation).__qualname__


def is_awaitable(value: object) -> bool:
    """Whether a coroutine can await ``value``."""
    if value.__class__ is CoroutineType or hasattr(value, "__await__"):
        return True
    # A generator decorated by @types.coroutine has no __await__.
    flags = value.gi_code.co_flags if isinstance(value, GeneratorType) else 0
    return flags & _CO_ITERABLE_COROUTINE != 0


def close_unawaited(value: object) -> None:
    """Close a coroutine that is not going to be awaited, so that Python does not warn of it."""
    if isinstance(value, CoroutineType):
        value.close()


def coroutine_returned(
    name: str, result: object, instead: str, missed: str = "would not be retried"
) -> TypeError:
    """Close the coroutine that an operation returned, and return the error for it."""
    close_unawaited(result)
    return TypeError(f"{name} returned a coroutine, whose errors {missed} here: {instead}")


def not_awaitable(name: str, result: object) -> TypeError:
    """Return the error for an operation that must return an awaitable and did not."""
    return TypeError(f"{name} must return an awaitable, not one of type {type(result).__name__}")


def run_at_once(step: Callable[..., Coroutine[Any, Any, T]], *args: object) -> T:
    """Call a coroutine function of the package in a thread, where it does not suspend."""
    coroutine = step(*args)
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    coroutine.close()
    raise RuntimeError(f"{step.__name__}() has suspended where nothing can await it")


async def answered(answer: Any, name: str, *, awaits: bool) -> Any:
    """Return the answer of the user's function ``name``, awaited if need be and allowed."""
    if answer is None or not is_awaitable(answer):
        return answer
    if awaits:
        return await answer
    close_unawaited(answer)
    raise TypeError(
        f"{name} must be a plain function, not a coroutine function: only a coroutine can await "
        "its answer, and in a loop only `async with attempt:`"
    )


def called(name: str, function: Any, *args: object) -> Any:
    """Return what a plain function returns; raise a TypeError if that must be awaited."""
    answer = function(*args)
    if is_awaitable(answer):
        close_unawaited(answer)
        raise TypeError(f"{name} must be a plain function, not a coroutine function")
    return answer

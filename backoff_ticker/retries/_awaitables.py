"""What can be awaited and what cannot, where the other is needed."""

from __future__ import annotations

from types import CoroutineType, GeneratorType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_CO_ITERABLE_COROUTINE = 0x100
"""As of ``inspect``, which takes long to import."""


def is_awaitable(thing: object) -> bool:
    """Whether a coroutine can await ``thing``."""
    if thing.__class__ is CoroutineType or hasattr(thing, "__await__"):
        return True
    # What @types.coroutine makes of a generator has no __await__.
    flags = thing.gi_code.co_flags if isinstance(thing, GeneratorType) else 0
    return flags & _CO_ITERABLE_COROUTINE != 0


def drop(thing: object) -> None:
    """Close a coroutine that nobody will await, before the interpreter warns of it."""
    if isinstance(thing, CoroutineType):
        thing.close()


def refuse_coroutine(name: str, result: object) -> NoReturn:
    """Raise a TypeError: a call that cannot await returned a coroutine."""
    drop(result)
    raise TypeError(
        f"{name} returned a coroutine, whose errors nobody would retry here: decorate a function "
        "that is an `async def`, or use retry_call_async() or `async for`"
    )


def refuse_plain(name: str, result: object) -> NoReturn:
    """Raise a TypeError: what is to be awaited cannot be."""
    raise not_awaitable(name, result)


def not_awaitable(name: str, result: object) -> TypeError:
    """Return the error for an operation that returned what cannot be awaited."""
    return TypeError(f"{name} must return an awaitable, not one of type {type(result).__name__}")

"""Generators that start again until they have yielded their first item."""

from __future__ import annotations

from functools import wraps

from .._sentinels import EMPTY, ENDED
from ._tries import retried, retried_async

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator
    from typing import Any, Self

    from ._options import Options


class _PrimedGenerator:
    """A generator whose first item was taken already: ``yield from`` gets that item first."""

    __slots__ = ("_first", "_generator")

    def __init__(self, generator: Generator[Any, Any, Any], first: object) -> None:
        self._generator = generator
        self._first = first

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> object:
        return self.send(None)

    def send(self, value: object) -> object:
        first, self._first = self._first, EMPTY
        return self._generator.send(value) if first is EMPTY else first

    def throw(self, *error: Any) -> object:
        return self._generator.throw(*error)

    def close(self) -> None:
        self._generator.close()


def retried_generator(function: Callable[..., Any], name: str, options: Options) -> Any:
    """Return a generator function whose generators are retried until their first item."""
    options.raise_if_attempts_are_cut()
    options.raise_if_results_are_judged()

    def primed(*args: Any, **kwargs: Any) -> tuple[_PrimedGenerator | None, object]:
        generator = function(*args, **kwargs)
        try:
            return _PrimedGenerator(generator, next(generator)), None
        except StopIteration as end:
            return None, end.value

    start = retried(primed, name, options)

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        items, value = start(*args, **kwargs)
        return value if items is None else (yield from items)

    return wrapper


def retried_async_generator(function: Callable[..., Any], name: str, options: Options) -> Any:
    """Return an async generator function whose generators are retried until their first item."""
    options.raise_if_results_are_judged()

    async def primed(*args: Any, **kwargs: Any) -> tuple[AsyncGenerator[Any, Any], object]:
        generator = function(*args, **kwargs)
        try:
            return generator, await generator.__anext__()
        except StopAsyncIteration:
            return generator, ENDED

    start = retried_async(primed, name, options)

    @wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        items, item = await start(*args, **kwargs)
        if item is ENDED:
            return
        try:
            while True:
                try:
                    sent = yield item
                except GeneratorExit:
                    raise
                except BaseException as error:  # noqa: BLE001 - the generator handles it
                    item = await items.athrow(error)
                else:
                    item = await items.asend(sent)
        except StopAsyncIteration:
            return
        finally:
            await items.aclose()

    return wrapper

"""Generators that start again until they have yielded their first item."""

from __future__ import annotations

from ._drive import retried, retried_async

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

    from ._options import Options


class _Started:
    """A generator whose first item was taken: it gives that item first, for ``yield from``."""

    def __init__(self, generator: Any) -> None:
        self._first = [next(generator)]
        self._generator = generator

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return self._first.pop() if self._first else next(self._generator)

    def send(self, value: object) -> Any:
        return self._generator.send(value)

    def throw(self, *error: Any) -> Any:
        return self._generator.throw(*error)

    def close(self) -> None:
        self._generator.close()


def retried_generator(function: Callable[..., Any], name: str, options: Options) -> Any:
    """Return a generator function whose generators are retried until their first item."""

    def begin(*args: Any, **kwargs: Any) -> tuple[_Started | None, object]:
        generator = function(*args, **kwargs)
        try:
            return _Started(generator), None
        except StopIteration as end:  # without an item
            return None, end.value

    begin_retried = retried(begin, name, options)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        items, result = begin_retried(*args, **kwargs)
        return result if items is None else (yield from items)

    return wrapper


def retried_async_generator(function: Callable[..., Any], name: str, options: Options) -> Any:
    """Return an async generator function, as ``retried_generator()`` returns a plain one."""

    async def begin(*args: Any, **kwargs: Any) -> tuple[Any, object]:
        generator = function(*args, **kwargs)
        try:
            return generator, await anext(generator)
        except StopAsyncIteration:  # without an item
            return None, None

    begin_retried = retried_async(begin, name, options)

    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        items, item = await begin_retried(*args, **kwargs)
        if items is None:
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

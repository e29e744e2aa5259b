"""Generators that begin again until they have given their first item."""

from __future__ import annotations

from functools import partial, wraps

from .._sentinels import EMPTY, ENDED
from ._call import call, call_async

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator
    from typing import Any, Self

    from ._rules import Rules

    Items = AsyncGenerator[Any, Any]


class _Begun:
    """A generator of which the first item was taken, for ``yield from``: gives it once more."""

    __slots__ = ("_first", "_generator")

    def __init__(self, generator: Generator[Any, Any, Any], first: object) -> None:
        self._generator = generator
        self._first = first

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> object:
        return self.send(None)

    def send(self, value: object) -> object:
        """Give the first item; then pass on."""
        first, self._first = self._first, EMPTY
        return self._generator.send(value) if first is EMPTY else first

    def throw(self, *error: Any) -> object:
        """Pass on."""
        return self._generator.throw(*error)

    def close(self) -> None:
        """Pass on."""
        self._generator.close()


def retried_generator(function: Callable[..., Any], name: str, rules: Rules) -> Any:
    """Return a generator function whose generators begin as ``rules`` say."""
    rules.refuse_attempt_timeout()
    rules.refuse_results()

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        begin = partial(_begun, partial(function, *args, **kwargs))
        items, value = call(rules, begin, name)
        return value if items is None else (yield from items)

    return wrapper


def retried_async_generator(function: Callable[..., Any], name: str, rules: Rules) -> Any:
    """Return an asynchronous generator function whose generators begin as ``rules`` say."""
    rules.refuse_results()

    @wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        begin = partial(_begun_async, partial(function, *args, **kwargs))
        items, item = await call_async(rules, begin, name)
        if item is ENDED:
            return
        try:
            while True:
                try:
                    sent = yield item
                except GeneratorExit:
                    raise
                except BaseException as error:  # noqa: BLE001 - it is the generator's to handle
                    item = await items.athrow(error)
                else:
                    item = await items.asend(sent)
        except StopAsyncIteration:
            return
        finally:
            await items.aclose()

    return wrapper


def _begun(make: Callable[[], Generator[Any, Any, Any]]) -> tuple[_Begun | None, object]:
    """Begin a generator; return it, or None and what it returned without giving an item."""
    generator = make()
    try:
        return _Begun(generator, next(generator)), None
    except StopIteration as end:
        return None, end.value


async def _begun_async(make: Callable[[], Items]) -> tuple[Items, object]:
    """Begin an asynchronous generator; return it and its first item, ``ENDED`` if it has none."""
    generator = make()
    try:
        return generator, await generator.__anext__()
    except StopAsyncIteration:
        return generator, ENDED

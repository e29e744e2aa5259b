"""Generators that start again until they have yielded their first item."""

from __future__ import annotations

from functools import wraps

from ._tries import retried, retried_async

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator
    from typing import Any

    from ._options import Options


def retried_generator(function: Callable[..., Any], name: str, options: Options) -> Any:
    """Return a generator function whose generators are retried until their first item."""
    options.raise_if_attempts_are_cut()
    options.raise_if_results_are_judged()

    def primed(*args: Any, **kwargs: Any) -> tuple[Generator[Any, Any, Any] | None, object]:
        generator = function(*args, **kwargs)
        try:
            return generator, next(generator)
        except StopIteration as end:
            return None, end.value

    start = retried(primed, name, options)

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        items, item = start(*args, **kwargs)
        if items is None:
            return item
        thrown: BaseException | None = None
        try:  # as `yield from items`, but with the first item, which was taken already
            while True:
                try:
                    sent = yield item
                except GeneratorExit:
                    raise
                except BaseException as error:  # noqa: BLE001 - the generator handles it
                    thrown = error  # thrown below: here it would be the context of what follows
                try:
                    item = items.send(sent) if thrown is None else items.throw(thrown)
                finally:
                    thrown = None  # its traceback refers to this frame
        except StopIteration as end:
            return end.value
        finally:
            items.close()

    return wrapper


def retried_async_generator(function: Callable[..., Any], name: str, options: Options) -> Any:
    """Return an async generator function, as ``retried_generator()`` returns a plain one."""
    options.raise_if_results_are_judged()

    async def primed(*args: Any, **kwargs: Any) -> tuple[AsyncGenerator[Any, Any] | None, object]:
        generator = function(*args, **kwargs)
        try:
            return generator, await anext(generator)
        except StopAsyncIteration:
            return None, None

    start = retried_async(primed, name, options)

    @wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        items, item = await start(*args, **kwargs)
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

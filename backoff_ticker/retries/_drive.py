"""Functions and coroutine functions with their retries: two drivers for the steps of a run.

Between the last look at the token and the call of the function there is no other call: a signal
handler could come there and cancel the token, and the function would be called after the cancel.
"""

from __future__ import annotations

from types import CoroutineType

from .._operation import coroutine_returned, is_awaitable, not_awaitable, run_at_once
from ._attempt import show
from ._cut import cuttable
from ._final_error import raise_final
from ._run import Run
from ._settings import settings
from ._steps import enter, interrupted, leave, wait_for_next

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ._options import Options

    Operation = Callable[..., Any]

_INSTEAD = "decorate an `async def` function, or use retry_call_async() or `async for`"


def retried(  # noqa: C901 - counts the nested function
    function: Operation, name: str, options: Options
) -> Operation:
    """Return what calls a function as the options say."""

    def call(*args: Any, **kwargs: Any) -> Any:  # noqa: C901 - one path, from top to end
        valid = options.under_settings() if settings.values else options
        run = Run(valid, name, args, kwargs)
        error: Exception | None = None
        try:
            while run.ending is None:
                show(run.begin())
                if valid.has_entry:
                    error = run.ask_circuit()
                    run_at_once(enter, run)
                if error is None and run.ending is None:
                    token = run.limits.token
                    if token is not None and run.attempts > 1 and token.cancelled:
                        run.refuse()
                    else:
                        run.is_paid = False
                        try:
                            result = function(*args, **kwargs)
                        except Exception as failure:  # the run decides about it
                            error = failure
                        else:
                            if result.__class__ is CoroutineType and not valid.is_off:
                                run.fail(coroutine_returned(name, result, _INSTEAD), name)
                            elif not valid.has_exit and run.succeed():
                                return result
                            run.result = result
                if run_at_once(leave, run, error):
                    run_at_once(wait_for_next, run)
                error = None
            result = run.result
        except BaseException as interrupt:
            run_at_once(interrupted, run, interrupt)
            raise
        finally:
            run.close()
            error = run.error = None  # their tracebacks refer to this frame: a reference cycle
        raise_final(run)
        return result

    return call


def retried_async(  # noqa: C901 - as above
    function: Operation, name: str, options: Options
) -> Operation:
    """Return a coroutine function that awaits a function as the options say."""

    async def call(*args: Any, **kwargs: Any) -> Any:
        valid = options.under_settings() if settings.values else options
        run = Run(valid, name, args, kwargs)
        run.awaits = True
        error: Exception | None = None
        try:
            while run.ending is None:
                show(run.begin())
                if valid.has_entry:
                    error = run.ask_circuit()
                    await enter(run)
                if error is None and run.ending is None:
                    try:
                        if valid.can_cut:
                            result = cuttable(run, function, args, kwargs)
                        else:  # and so without a token
                            run.is_paid = False
                            result = function(*args, **kwargs)
                        if result.__class__ is CoroutineType or is_awaitable(result):
                            run.result = await result
                        else:
                            run.fail(not_awaitable(name, result), name)
                    except Exception as failure:  # the run decides about it
                        error = failure
                    if error is None and not valid.has_exit and run.succeed():
                        return run.result
                if await leave(run, error):
                    await wait_for_next(run)
                error = None
            result = run.result
        except BaseException as interrupt:
            await interrupted(run, interrupt)
            raise
        finally:
            run.close()
            error = run.error = None
        raise_final(run)
        return result

    return call


# Generators: they start again until they have yielded their first item


def retried_generator(function: Callable[..., Any], name: str, options: Options) -> Any:
    """Return a generator function whose generators are retried until their first item."""

    def begin(*args: Any, **kwargs: Any) -> tuple[Any, object]:
        generator = function(*args, **kwargs)
        try:
            return generator, next(generator)
        except StopIteration as end:  # without an item
            return None, end.value

    begin_retried = retried(begin, name, options)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        items, item = begin_retried(*args, **kwargs)
        if items is None:
            return item
        try:
            while True:
                try:
                    sent = yield item
                except GeneratorExit:
                    raise
                except BaseException as error:  # the generator handles it
                    item = items.throw(error)
                else:
                    item = items.send(sent)
        except StopIteration as end:
            return end.value
        finally:
            items.close()

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
                except BaseException as error:  # the generator handles it
                    item = await items.athrow(error)
                else:
                    item = await items.asend(sent)
        except StopAsyncIteration:
            return
        finally:
            await items.aclose()

    return wrapper

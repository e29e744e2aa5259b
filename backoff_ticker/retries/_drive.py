"""Functions and coroutine functions with their retries: ``retry_call``, and two drivers.

Between the last look at the token and the call of the function there is no other call: a signal
handler could come there and cancel the token, and the function would be called after the cancel.
"""

from __future__ import annotations

from types import CoroutineType

from .._operation import coroutine_returned, is_awaitable, name_of, not_awaitable, run_at_once
from ._attempt import show
from ._cut import cuttable
from ._option_table import NO_FALLBACK
from ._options import Options, require_operation, settings
from ._run import Run
from ._signatures import overload, shows
from ._steps import enter, interrupted, leave, raise_final, wait_for_next

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from typing import Any, Unpack

    from ..policies import BackOff
    from ._option_types import RetryOptions
    from ._outcome import Outcome
    from ._signatures import D, T

    Operation = Callable[..., Any]

_DEFAULT = Options("", None, {})
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


# One operation, called until it succeeds


@overload
def retry_call(
    operation: Callable[[], T],
    backoff: BackOff | None = None,
    *,
    fallback: Callable[[Outcome], D],
    **options: Unpack[RetryOptions],
) -> T | D: ...
@overload
def retry_call(
    operation: Callable[[], T],
    backoff: BackOff | None = None,
    *,
    fallback: D = ...,
    **options: Unpack[RetryOptions],
) -> T | D: ...
@shows(retry_call, fallback=NO_FALLBACK)
def retry_call(operation: Any, backoff: Any = None, **options: Any) -> Any:
    """Call ``operation()`` until it succeeds, and return its result.

    Threads, interrupts and errors: as for a function that ``retry`` decorated.

    Example:
        >>> from backoff_ticker import ZeroBackOff, retry_call
        >>> states = iter(["queued", "done"])
        >>> retry_call(lambda: next(states), ZeroBackOff(), until="done".__eq__)
        'done'

    Args:
        operation: Called without arguments: ``functools.partial`` or a lambda gives it some.
        backoff: The policy. None means ``ExponentialBackOff()``.
        **options: The options of ``retry``.

    Raises:
        TypeError: The operation returned a coroutine: use ``retry_call_async`` for it.
    """
    require_operation(operation)
    checked = _DEFAULT
    if backoff is not None or options:
        checked = Options("retry_call()", backoff, options)
        checked.raise_if_attempts_are_cut()
    return retried(operation, checked.name or name_of(operation), checked)()


@overload
def retry_call_async(
    operation: Callable[[], Awaitable[T]],
    backoff: BackOff | None = None,
    *,
    fallback: Callable[[Outcome], Awaitable[D]],
    **options: Unpack[RetryOptions],
) -> Coroutine[Any, Any, T | D]: ...
@overload
def retry_call_async(
    operation: Callable[[], Awaitable[T]],
    backoff: BackOff | None = None,
    *,
    fallback: Callable[[Outcome], D],
    **options: Unpack[RetryOptions],
) -> Coroutine[Any, Any, T | D]: ...
@overload
def retry_call_async(
    operation: Callable[[], Awaitable[T]],
    backoff: BackOff | None = None,
    *,
    fallback: D = ...,
    **options: Unpack[RetryOptions],
) -> Coroutine[Any, Any, T | D]: ...
@shows(retry_call_async, fallback=NO_FALLBACK)
async def retry_call_async(operation: Any, backoff: Any = None, **options: Any) -> Any:
    """Await ``operation()`` until it succeeds, and return its result.

    This is ``retry_call`` for coroutines: a cancel of a token and time limits also cut an attempt
    that is running, as ``asyncio.timeout()`` does. A cancelled call leaves nothing behind.

    Example:
        >>> import asyncio
        >>> from backoff_ticker import retry_call_async
        >>> async def operation():
        ...     return "done"
        >>> asyncio.run(retry_call_async(operation, timeout=10))
        'done'

    Args:
        operation: Called without arguments, once for each attempt. It returns an awaitable.
        backoff: As for ``retry_call``.
        **options: The same.

    Raises:
        TypeError: The operation returned something that cannot be awaited.
    """
    require_operation(operation)
    checked = _DEFAULT
    if backoff is not None or options:
        checked = Options("retry_call_async()", backoff, options)
    return await retried_async(operation, checked.name or name_of(operation), checked)()


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

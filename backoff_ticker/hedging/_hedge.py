"""``hedge_call`` and ``hedge_call_async``: what users call, and the options that they take."""

from __future__ import annotations

from .._operation import run_at_once
from .._validation import safe_repr
from ..retries import NO_FALLBACK, Options, overload, require_operation, shows
from ..waiting import tasks_of_block, warn_if_loop_runs
from ._call import HedgedCall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from concurrent.futures import Executor
    from typing import Any, Final, Unpack

    from ..policies import BackOff
    from ..retries import D, HedgeOptions, Outcome, T

_MAX_ATTEMPTS: Final = 5  # as many as gRPC allows
_OPTIONS: Final = (
    *("on", "until", "token", "timeout", "max_elapsed_time", "max_attempts", "max_retry_after"),
    *("fallback", "note", "budget", "breaker", "clock", "name"),
)


@overload
def hedge_call_async(
    operation: Callable[[], Awaitable[T]],
    backoff: BackOff | None = None,
    *,
    fallback: Callable[[Outcome], Awaitable[D]],
    **options: Unpack[HedgeOptions],
) -> Coroutine[Any, Any, T | D]: ...
@overload
def hedge_call_async(
    operation: Callable[[], Awaitable[T]],
    backoff: BackOff | None = None,
    *,
    fallback: Callable[[Outcome], D],
    **options: Unpack[HedgeOptions],
) -> Coroutine[Any, Any, T | D]: ...
@overload
def hedge_call_async(
    operation: Callable[[], Awaitable[T]],
    backoff: BackOff | None = None,
    *,
    fallback: D = ...,
    **options: Unpack[HedgeOptions],
) -> Coroutine[Any, Any, T | D]: ...
@shows(hedge_call_async, fallback=NO_FALLBACK, max_attempts=_MAX_ATTEMPTS)
async def hedge_call_async(operation: Any, backoff: Any = None, **options: Any) -> Any:
    """Await ``operation()``, start it again while it is slow, and return the first good result.

    This is a *hedged call*: it trades extra calls for a shorter wait when one server is slow. Use
    it only for operations that may safely run twice at the same time.

    Each attempt is a task. The next one starts when the policy's next delay has passed since the
    last start, or at once when an attempt fails. The first good result, or an error that is
    permanent or that ``on`` does not retry, ends the call, and cancels the other attempts. The call
    returns or raises only after all its tasks have ended; what one of them still returns after a
    cancel or after ``timeout`` is a result, too.

    Source: hedging as in gRPC (gRFC A6).

    Example:
        >>> import asyncio
        >>> from backoff_ticker import ConstantBackOff, hedge_call_async
        >>> seconds = iter([10, 0])
        >>> async def fetch():
        ...     return await asyncio.sleep(next(seconds), "done")
        >>> asyncio.run(hedge_call_async(fetch, ConstantBackOff(0.001), max_attempts=2))
        'done'

    Thread safety: each call uses its own copy of the policy, in one event loop.
    Wakes when: an attempt ends, the next is due, ``timeout`` is reached, or a token is cancelled.
    If cancelled: all attempts are cancelled and awaited, then ``asyncio.CancelledError`` is raised.

    Args:
        operation: Called without arguments, once for each attempt. It returns an awaitable.
        backoff: The policy of the delays between starts. None means ``ExponentialBackOff()``.
        **options: As ``retry`` describes them; ``max_attempts`` is 5 by default. Each attempt after
            the first takes from ``budget``.

    Raises:
        Exception: As a function that ``retry`` decorated. The note says why no more started.
    """
    checked = _checked("hedge_call_async()", operation, backoff, options)
    if checked.is_off:
        return await operation()
    async with tasks_of_block() as tasks:
        return await HedgedCall(checked, operation, tasks).perform()


@overload
def hedge_call(
    operation: Callable[[], T],
    backoff: BackOff | None = None,
    *,
    pool: Executor | None = None,
    fallback: Callable[[Outcome], D],
    **options: Unpack[HedgeOptions],
) -> T | D: ...
@overload
def hedge_call(
    operation: Callable[[], T],
    backoff: BackOff | None = None,
    *,
    pool: Executor | None = None,
    fallback: D = ...,
    **options: Unpack[HedgeOptions],
) -> T | D: ...
@shows(hedge_call, fallback=NO_FALLBACK, max_attempts=_MAX_ATTEMPTS)
def hedge_call(operation: Any, backoff: Any = None, *, pool: Any = None, **options: Any) -> Any:
    """Call ``operation()``, call it again while it is slow, and return the first good result.

    It is ``hedge_call_async`` with a thread for each attempt, which cannot be cut. So the call ends
    as soon as its end is decided. Attempts that still run go on, and what they return or raise is
    dropped, unless they watch ``current_attempt().token``, which is cancelled when the call ends.

    Example:
        >>> from backoff_ticker import ConstantBackOff, current_attempt, hedge_call
        >>> seconds = iter([10, 0])
        >>> def fetch():
        ...     return current_attempt().token.wait(next(seconds))
        >>> hedge_call(fetch, ConstantBackOff(0.001), max_attempts=2)
        False

    If interrupted: the tokens of all attempts are cancelled, then the exception is raised.

    Args:
        operation: Called without arguments, for each attempt in a copy of the caller's context.
        backoff: As for ``hedge_call_async``.
        pool: A ``concurrent.futures.Executor`` of threads in which the attempts run; do not make
            the call in one of its workers. None means a new daemon thread for each attempt.
        **options: The same.

    Raises:
        Exception: As ``hedge_call_async``; or a RuntimeError, or an error of the executor: no
            thread could be started, or the pool is shut down, broken or full.
    """
    kinds = {kind.__name__ for kind in type(pool).__mro__}  # to import their module takes long
    others = {"ProcessPoolExecutor", "InterpreterPoolExecutor"}
    if pool is not None and ("Executor" not in kinds or kinds & others):
        expected = "a concurrent.futures.Executor whose workers are threads, or None"
        raise TypeError(f"pool must be {expected}, not {safe_repr(pool)}")
    checked = _checked("hedge_call()", operation, backoff, options)
    if checked.is_off:
        return operation()
    warn_if_loop_runs("hedge_call()", "await hedge_call_async()")
    return run_at_once(HedgedCall(checked, operation, None, pool).perform)


def _checked(what: str, operation: object, backoff: BackOff | None, given: Any) -> Options:
    """Return the options of a call, those of the process included."""
    require_operation(operation)
    options = Options(what, backoff, {"max_attempts": _MAX_ATTEMPTS, **given}, allowed=_OPTIONS)
    return options.under_settings()

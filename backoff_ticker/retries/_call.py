"""``retry_call`` and ``retry_call_async``: one operation, called until it succeeds."""

from __future__ import annotations

from .._operation import name_of
from ._cut import raise_if_attempts_are_cut
from ._drive import retried, retried_async
from ._option_table import NO_FALLBACK
from ._options import Options, require_operation
from ._signatures import overload, shows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from typing import Any, Unpack

    from ..policies import BackOff
    from ._option_types import RetryOptions
    from ._outcome import Outcome
    from ._signatures import D, T

_DEFAULT = Options("", None, {})


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

    The waits block the calling thread; they end early when a token is cancelled.

    Example:
        >>> from backoff_ticker import ZeroBackOff, retry_call
        >>> states = iter(["queued", "done"])
        >>> retry_call(lambda: next(states), ZeroBackOff(), until="done".__eq__)
        'done'

    Thread safety: each call is a run of its own, on a copy of the policy.
    If interrupted: the exception is raised, and nothing stays behind.

    Args:
        operation: Called without arguments: ``functools.partial`` or a lambda gives it some.
        backoff: The policy. None means ``ExponentialBackOff()``.
        **options: The options of ``retry``, but for the one that only coroutines can have.

    Raises:
        Exception: As a function that ``retry`` decorated.
        TypeError, ValueError: An argument is invalid, or the operation returned a coroutine: use
            ``retry_call_async`` for it.
    """
    require_operation(operation)
    checked = _DEFAULT
    if backoff is not None or options:
        checked = Options("retry_call()", backoff, options)
        raise_if_attempts_are_cut(checked)
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
    that is running, as ``asyncio.timeout()`` does.

    Example:
        >>> import asyncio
        >>> from backoff_ticker import retry_call_async
        >>> async def operation():
        ...     return "done"
        >>> asyncio.run(retry_call_async(operation, timeout=10))
        'done'

    Thread safety: each call is a run of its own, on a copy of the policy, in one event loop.
    If cancelled: ``asyncio.CancelledError`` ends the run, and nothing stays behind.

    Args:
        operation: Called without arguments, once for each attempt. It returns an awaitable.
        backoff: As for ``retry_call``.
        **options: The options of ``retry``.

    Raises:
        Exception: As ``retry_call``.
        TypeError, ValueError: An argument is invalid, or the operation returned something that
            cannot be awaited.
    """
    require_operation(operation)
    checked = _DEFAULT
    if backoff is not None or options:
        checked = Options("retry_call_async()", backoff, options)
    return await retried_async(operation, checked.name or name_of(operation), checked)()

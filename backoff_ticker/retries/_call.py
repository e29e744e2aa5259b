"""``retry_call`` and ``retry_call_async``: one operation, called until it succeeds."""

from __future__ import annotations

from ._drivers import call, call_async
from ._operation import require_operation
from ._options import Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeVar, Unpack

    from ..policies import BackOff
    from ._option_types import RetryOptions

    T = TypeVar("T")


def retry_call(
    operation: Callable[[], T],
    backoff: BackOff | None = None,
    **options: Unpack[RetryOptions],
) -> T:
    """Call ``operation()`` until it succeeds, and return its result.

    The wait between two attempts blocks this thread; a cancel of a token ends it at once. See
    ``retry`` for the options and for what is raised at the end. This function checks the options at
    each call; for an operation that is called often, ``retry`` checks them once.

    Example:
        >>> from backoff_ticker import ZeroBackOff, retry_call
        >>> answers = iter([OSError("not yet"), "done"])
        >>> def operation():
        ...     answer = next(answers)
        ...     if isinstance(answer, OSError):
        ...         raise answer
        ...     return answer
        >>> retry_call(operation, ZeroBackOff(), on=OSError, max_attempts=3)
        'done'

    Thread safety: each call is a run of its own, on a copy of the policy.

    Args:
        operation: Called without arguments (``functools.partial`` binds some).
        backoff: The policy; None: ``ExponentialBackOff()``.
        **options: Those of ``retry``, without ``attempt_timeout``.

    Raises:
        TypeError, ValueError: An argument is invalid, or the operation returned a coroutine, which
            is closed.
        RuntimeError: It has to wait, and an event loop runs in this thread.
        Exception: As ``retry``.
    """
    require_operation(operation)
    checked = _checked("retry_call()", backoff, options)
    if options:
        checked.raise_if_attempts_are_cut()
    result: T = call(checked, operation)
    return result


async def retry_call_async(
    operation: Callable[[], Awaitable[T]],
    backoff: BackOff | None = None,
    **options: Unpack[RetryOptions],
) -> T:
    """Await ``operation()`` until it succeeds, and return its result.

    Like ``retry_call()``, for coroutines. A cancel of a token and the limits of time also cut an
    attempt that is running, as ``asyncio.timeout()`` would. If the task itself is cancelled,
    ``asyncio.CancelledError`` propagates and ends the run.

    Example:
        >>> import asyncio
        >>> from backoff_ticker import retry_call_async
        >>> async def operation():
        ...     return "done"
        >>> asyncio.run(retry_call_async(operation, timeout=10))
        'done'

    Thread safety: each call is a run of its own, on a copy of the policy, in one loop.

    Args:
        operation: Called for each attempt; returns an awaitable, as a coroutine function does.
        backoff: The policy; None: ``ExponentialBackOff()``.
        **options: Those of ``retry``.

    Raises:
        TypeError, ValueError: An argument is invalid, or the operation returned something that
            cannot be awaited.
        Exception: As ``retry``.
    """
    require_operation(operation)
    checked = _checked("retry_call_async()", backoff, options)
    result: T = await call_async(checked, operation)
    return result


_DEFAULT = Options("", None, {})


def _checked(what: str, backoff: BackOff | None, options: RetryOptions) -> Options:
    if backoff is None and not options:
        return _DEFAULT
    return Options(what, backoff, options)

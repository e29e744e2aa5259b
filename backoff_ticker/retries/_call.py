"""One operation, called until it succeeds: ``retry_call`` and ``retry_call_async``."""

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
    """Call ``operation()`` until it succeeds; return what it returns.

    The wait between two attempts blocks this thread; a cancel of a token ends it at once. See
    ``retry`` for the options and for what is raised at the end. Where the same call is made often,
    ``retry`` checks the options once, this function each time.

    Thread safety: each call is a run of its own, on a copy of the policy.

    Args:
        operation: What to call; it takes no argument (``functools.partial`` binds some).
        backoff: The policy; None: ``ExponentialBackOff()``.
        **options: Those of ``retry``, without ``attempt_timeout``.

    Raises:
        TypeError, ValueError: An argument is not what it should be, or the operation returned a
            coroutine; it was not run.
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
    """Await ``operation()`` until it succeeds; return what that returns.

    As ``retry_call()``, in a coroutine. A cancel of a token, and the limits of time, also cut an
    attempt that is running, as ``asyncio.timeout()`` would. A cancel of the task itself ends
    everything and passes as ``asyncio.CancelledError``.

    Args:
        operation: Called for each attempt; returns an awaitable, as coroutine functions do.
        backoff: The policy; None: ``ExponentialBackOff()``.
        **options: Those of ``retry``.

    Raises:
        TypeError, ValueError: An argument is not what it should be, or the operation returned what
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

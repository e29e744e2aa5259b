"""Policies, errors and tokens for the activities of Temporal."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import weakref
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from .. import (
    STOP,
    AsyncTicker,
    CancellationToken,
    Cancelled,
    CircuitOpen,
    ConstantBackOff,
    DeadlineExceeded,
    ExponentialBackOff,
    RetryAfter,
    Ticker,
    attempts,
    delay_after,
    with_max_retries,
)
from ._shared import (
    as_positive_seconds,
    bounded,
    check_policy,
    find_permanent,
    imports_of_extra,
    unwrapped,
)

with imports_of_extra("temporal"):
    from temporalio import activity
    from temporalio.common import RetryPolicy
    from temporalio.exceptions import ApplicationError, CancelledError, FailureError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .. import BackOff, Stop

    Heartbeat = Callable[[], object]

__all__ = ["activity_errors", "activity_token", "retry_policy"]

_SIX_HOURS: Final = 21_600.0
_LONGEST: Final = timedelta(days=36_500)  # of what a server written in Go can hold
_SHORTEST: Final = timedelta(milliseconds=1)  # as 0 means to Temporal that no delay is given
_MaxRetries: Final = type(with_max_retries(ConstantBackOff(0), 0))


# Policies


def retry_policy(
    policy: BackOff,
    *,
    max_attempts: int | None = None,
    non_retryable_error_types: Sequence[str | type[BaseException]] = (),
) -> RetryPolicy:
    """Return the ``RetryPolicy`` of Temporal that waits as a policy does.

    Only a ``ConstantBackOff`` and an ``ExponentialBackOff`` have one, also inside
    ``with_max_retries()``, since the server computes the delays: from a first interval, a
    coefficient and a maximum. It has no jitter, so ``randomization_factor`` must be 0, and no limit
    of elapsed time, so ``max_elapsed_time`` must be None: the option ``schedule_to_close_timeout``
    of the activity takes its place. For all other policies use ``activity_errors(policy)``.

    Args:
        policy: The policy; its interval must be above 0 and have a maximum.
        max_attempts: The greatest number of attempts, the first one included; None: any number. Of
            this and ``with_max_retries()`` the smaller counts.
        non_retryable_error_types: Errors that are not retried, as types or by name. The server
            compares names only: a subclass has to be named itself.

    Example:
        >>> from backoff_ticker import ExponentialBackOff
        >>> from backoff_ticker.integrations.temporal import retry_policy
        >>> policy = ExponentialBackOff(1, 0, 2, max_interval=60, max_elapsed_time=None)
        >>> found = retry_policy(policy, max_attempts=5)
        >>> found.initial_interval.total_seconds(), found.backoff_coefficient
        (1.0, 2.0)
    """
    attempts(max_attempts=max_attempts)
    if type(policy) is _MaxRetries:
        limited: Any = policy
        most = limited.max_retries + 1
        max_attempts = most if max_attempts is None else min(max_attempts, most)
        policy = limited.backoff
    if type(policy) is ConstantBackOff:
        initial, coefficient, longest = policy.interval, 1.0, policy.interval
    elif type(policy) is ExponentialBackOff:
        initial, coefficient, longest = _parts(policy)
    else:
        check_policy(policy)
        raise TypeError(
            "policy must be a ConstantBackOff or an ExponentialBackOff, which Temporal's server "
            f"can follow, not {policy!r}: activity_errors(policy) takes any policy"
        )
    if not _duration(initial):
        raise ValueError(
            f"policy must have an interval above 0, not {initial!r}: "
            "for 0 Temporal takes its default of 1 s"
        )
    return RetryPolicy(
        initial_interval=_duration(initial),
        backoff_coefficient=coefficient,
        maximum_interval=_duration(longest),
        maximum_attempts=max_attempts or 0,
        non_retryable_error_types=[_name(each) for each in non_retryable_error_types] or None,
    )


def _parts(policy: ExponentialBackOff) -> tuple[float, float, float]:
    if policy.randomization_factor:
        raise ValueError(
            f"policy must have randomization_factor=0, not {policy.randomization_factor!r}: a "
            "RetryPolicy of Temporal has no jitter; activity_errors(policy) takes any policy"
        )
    if policy.max_elapsed_time is not None:
        raise ValueError(
            f"policy must have max_elapsed_time=None, not {policy.max_elapsed_time!r}: "
            "give schedule_to_close_timeout to the activity"
        )
    if policy.max_interval is None:
        raise ValueError(
            "policy must have a max_interval, not None: "
            "without one Temporal takes 100 times the first interval"
        )
    return policy.initial_interval, policy.multiplier, policy.max_interval


def _duration(seconds: float) -> timedelta:
    return timedelta(seconds=min(seconds, _LONGEST.total_seconds()))


def _name(error: object) -> str:
    if isinstance(error, str):
        return error
    if isinstance(error, type) and issubclass(error, BaseException):
        return error.__name__
    raise TypeError(
        f"non_retryable_error_types must be types of exceptions or their names, not {error!r}"
    )


# Errors


@contextmanager
def activity_errors(
    policy: BackOff | None = None, *, max_retry_after: float | timedelta | None = _SIX_HOURS
) -> Iterator[None]:
    """Tell Temporal of the errors of an activity whether, and when, they are retried.

    It is a ``with`` block around the body of an activity, in a thread or a coroutine. What the
    block raises becomes an ``ApplicationError`` with the name of the error as its ``type`` and the
    error itself as its cause:

    - ``Permanent``, also among the causes of an error: ``non_retryable=True``;
    - ``RetryAfter``: its seconds as ``next_retry_delay``;
    - ``CircuitOpen``: the seconds for which the circuit stays open, or the policy's delay if that
      is longer;
    - any other ``Exception``, if there is a policy: its delay for the number of the attempt as
      ``next_retry_delay``, and ``non_retryable=True`` where it returns ``STOP``.

    Without a policy other errors pass, and the activity's ``RetryPolicy`` says when they are
    retried; its other limits hold in any case. Errors of Temporal pass always, and so does
    ``Cancelled``.

    Args:
        policy: The policy. Its limits of elapsed time count the delays, and no time for the
            attempts; ``schedule_to_close_timeout`` of the activity counts all of it.
        max_retry_after: The longest wait that a ``RetryAfter`` can ask for, in seconds or as a
            timedelta; a longer one is cut to it. None: no bound.

    Example:
        >>> from backoff_ticker import RetryAfter
        >>> from backoff_ticker.integrations.temporal import activity_errors
        >>> from temporalio import activity
        >>> from temporalio.exceptions import ApplicationError
        >>> from temporalio.testing import ActivityEnvironment
        >>> @activity.defn
        ... def charge():
        ...     with activity_errors():
        ...         raise RetryAfter(20, ConnectionError("busy"))
        >>> try:
        ...     ActivityEnvironment().run(charge)
        ... except ApplicationError as error:
        ...     print(error, error.next_retry_delay)
        ConnectionError: busy 0:00:20
    """
    if policy is not None:
        check_policy(policy)
    attempts(max_retry_after=max_retry_after)  # checks it
    try:
        yield
    except FailureError:
        raise
    except Exception as error:
        if (delay := _delay(error, policy, max_retry_after)) is None:
            raise
        inner = unwrapped(error)
        raise ApplicationError(
            str(inner),
            type=type(inner).__name__,
            non_retryable=delay is STOP,
            next_retry_delay=None if delay is STOP else max(_duration(delay), _SHORTEST),
        ) from inner


def _delay(
    error: Exception, policy: BackOff | None, max_retry_after: float | timedelta | None
) -> float | Stop | None:
    """Return when the activity is retried, if not as its ``RetryPolicy`` says (None)."""
    if find_permanent(error) is not None:
        return STOP
    if isinstance(error, RetryAfter):
        return bounded(error.seconds, max_retry_after)
    if isinstance(error, Cancelled) and not isinstance(error, DeadlineExceeded):
        return None
    open_for = error.seconds if isinstance(error, CircuitOpen) else None
    if policy is None:
        return open_for
    delay = delay_after(policy, activity.info().attempt)
    return delay if delay is STOP else max(delay, open_for or 0.0)


# The token of an activity


def _repeat_heartbeat() -> None:
    """Send a heartbeat that keeps the details of the last attempt, which it would else replace."""
    info = activity.info()
    if not info.is_local:  # whose cancels come without heartbeats
        activity.heartbeat(*info.heartbeat_details)


@contextmanager
def activity_token(
    *, heartbeat: Heartbeat | None = _repeat_heartbeat, interval: float | timedelta = 1.0
) -> Iterator[CancellationToken]:
    """Return a token for an activity: for a ``with`` block around its body.

    The token is cancelled when

    - the activity is cancelled;
    - the worker begins to shut down, also if it leaves activities time to end
      (``graceful_shutdown_timeout``);
    - ``start_to_close_timeout`` of the activity has passed since the block began;
    - the block has ended.

    An error ``Cancelled`` that leaves the block because the activity was cancelled becomes
    Temporal's ``CancelledError``, so that Temporal sees the activity as cancelled, not as failed.
    After a shutdown it passes, and Temporal retries the activity on another worker.

    Temporal tells an activity of a cancel only in answer to a heartbeat. So the block sends
    heartbeats while it lasts, also while the activity cleans up after a cancel.

    It is for activities in threads and for coroutines alike. Inside a coroutine Temporal cancels
    the task, too; the token is for what runs elsewhere, such as in threads.

    Args:
        heartbeat: Sends a heartbeat. Give your own if the activity reports its progress:
            ``lambda: activity.heartbeat(done)``; by default the details of the last attempt are
            sent again. None: the activity sends its heartbeats itself. One that fails is logged.
        interval: The seconds between two heartbeats, which must be less than the
            ``heartbeat_timeout``; also the time until a cancel is noticed. Temporal sends few of
            them to the server, so it may be short.

    Raises:
        RuntimeError: It is not called in an activity.

    Example:
        >>> from backoff_ticker import ConstantBackOff, retry_call
        >>> from backoff_ticker.integrations.temporal import activity_token
        >>> from temporalio import activity
        >>> from temporalio.testing import ActivityEnvironment
        >>> @activity.defn
        ... def charge():
        ...     with activity_token() as token:
        ...         return retry_call(lambda: "paid", ConstantBackOff(30), token=token)
        >>> ActivityEnvironment().run(charge)
        'paid'
    """
    if heartbeat is not None and not callable(heartbeat):
        raise TypeError(f"heartbeat must be callable or None, not {heartbeat!r}")
    pauses = ConstantBackOff(as_positive_seconds("interval", interval))
    token = CancellationToken(timeout=activity.info().start_to_close_timeout)
    ended = CancellationToken()
    # Not the token itself: Temporal raises its CancelledError anywhere in a thread, perhaps where
    # the block is left. So what looks ends also once nobody holds the token.
    held = weakref.ref(token)
    _may_go_on(held, ended, None)
    end = _repeat(partial(_may_go_on, held, ended, heartbeat), pauses, ended)
    try:
        yield token
    except Cancelled as error:
        if token.cancelled and activity.is_cancelled():
            raise CancelledError(str(error)) from error
        raise
    finally:
        ended.cancel()
        token.cancel("the activity has ended")
        end()


def _may_go_on(
    held: weakref.ref[CancellationToken], ended: CancellationToken, heartbeat: Heartbeat | None
) -> bool:
    """Cancel the token if it is time, and send a heartbeat; return whether to do so again."""
    if (token := held()) is None:
        return False
    if activity.is_cancelled():
        token.cancel("the activity was cancelled")
    elif activity.is_worker_shutdown():
        token.cancel("the worker shuts down")
    del token  # a log may keep the traceback of a heartbeat that fails
    if ended.cancelled:
        return False
    if heartbeat is not None:
        try:
            heartbeat()
        except Exception:  # of the user, or the worker has just ended
            activity.logger.warning("A heartbeat failed.", exc_info=True)
    return True


def _repeat(
    step: Callable[[], bool], pauses: BackOff, ended: CancellationToken
) -> Callable[[], object]:
    """Call a function in the background while it returns True.

    Return a function that waits for the end, where that can wait.
    """

    def in_thread() -> None:
        for _ in Ticker(pauses, token=ended):
            if not step():
                return

    async def in_loop() -> None:
        async for _ in AsyncTicker(pauses, token=ended):
            if not step():
                return

    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        context = contextvars.copy_context()  # which has the activity
        thread = threading.Thread(target=context.run, args=(in_thread,), daemon=True)
        # Python 3.11 may raise Temporal's error in the new thread, whose start then never ends.
        with activity.shield_thread_cancel_exception():
            thread.start()
        return thread.join
    return loop.create_task(in_loop()).done

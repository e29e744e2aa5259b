"""A token for an activity of Temporal, which ends with it."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import weakref
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from ... import AsyncTicker, CancellationToken, Cancelled, ConstantBackOff, Ticker
from .._shared import as_positive_seconds, imports_of_extra

with imports_of_extra("temporal"):
    from temporalio import activity
    from temporalio.exceptions import CancelledError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import timedelta

    from ... import BackOff

    Heartbeat = Callable[[], object]


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
    _look(held)
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


def _look(held: weakref.ref[CancellationToken]) -> bool:
    """Cancel the token of the activity if it is time; return whether somebody holds it."""
    token = held()
    if token is None:
        return False
    if activity.is_cancelled():
        token.cancel("the activity was cancelled")
    elif activity.is_worker_shutdown():
        token.cancel("the worker shuts down")
    return True


def _may_go_on(
    held: weakref.ref[CancellationToken], ended: CancellationToken, heartbeat: Heartbeat | None
) -> bool:
    """Look, and send a heartbeat; return whether to do so again."""
    if not _look(held) or ended.cancelled:
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

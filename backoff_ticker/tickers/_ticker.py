"""Tickers for threads and for event loops: how their readers wait."""

from __future__ import annotations

from .._errors import TickerClosed
from .._sentinels import EMPTY
from .._validation import as_seconds
from ..waiting import (
    CHECKPOINT_EVERY,
    NO_DEADLINE,
    LoopWaiter,
    checkpoint,
    complete,
    park_thread,
)
from ._base import BaseTicker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Coroutine
    from datetime import timedelta
    from types import TracebackType
    from typing import Any, Self

    from ._tick import Tick


class Ticker(BaseTicker):
    """An iterator of ticks for threads: each tick comes one delay after the last.

    ``for tick in ticker:`` gets the first tick at once, and ends when the policy returns ``STOP``,
    the token is cancelled or ``stop()`` is called. Any number of threads may read one ticker; each
    tick goes to exactly one of them. A ticker has no thread and no queue of its own: its readers
    wait until the tick is due. So it needs no clean-up; one without references is collected.
    ``with ticker:`` stops it at the end of the block.

    Wakes when: the tick is due, the ticker is stopped or reset, ``success()`` brings the tick
    forward, or a token is cancelled (the ticker's own, or one inside the policy).
    If interrupted: the tick stays for the next reader.
    Thread safety: every method may be called in any thread; ``stop()`` also in signal handlers,
    finalizers and callbacks.

    Args:
        backoff: The policy. The ticker uses a copy of it, after a ``reset()``.
        token: A ``CancellationToken`` that ends the ticker and wakes its readers. The first tick
            comes even if it is already cancelled.
        pace: How the ticker treats slow readers.
        clock: Measures the delays. None means the current clock.
        timer: A ``Timer``, or an object like one, that measures the delays instead of ``clock``. It
            is started for each delay and stopped at the end. The time that it sends becomes the
            ``time`` of the tick.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The token has a deadline on another clock.
        Exception: The ``reset()`` of the policy raised an error.

    Example:
        >>> from backoff_ticker import ConstantBackOff, Ticker, with_max_retries
        >>> for tick in Ticker(with_max_retries(ConstantBackOff(0.001), 2)):
        ...     print(tick.number, tick.delay)
        1 0.0
        2 0.001
        3 0.001
    """

    __slots__ = ()

    def receive(self, timeout: float | timedelta | None = None) -> Tick:
        """Take the next tick; block this thread until it is due.

        Args:
            timeout: Seconds >= 0 or a timedelta. 0 does not wait; None means no limit.

        Raises:
            TickerClosed: The ticker has ended.
            TimeoutError: No tick was due in time. The next tick stays for the next reader.
            TypeError, ValueError: ``timeout`` is not a finite duration >= 0.
            RuntimeError: It has to wait, and an event loop runs in this thread: use an
                ``AsyncTicker``. Or the ticker's own policy called it.
            Exception: The policy failed; its error is raised once, to one reader.
        """
        seconds = NO_DEADLINE if timeout is None else as_seconds("timeout", timeout)
        limit = self._monotonic() + seconds
        tick: Tick = self._poll()
        return self._wait_for_tick(limit, seconds) if tick is EMPTY else tick

    def _wait_for_tick(self, limit: float, seconds: float) -> Tick:
        while True:
            if limit != NO_DEADLINE and self._monotonic() >= limit:
                raise TimeoutError(f"no tick within {seconds} s")
            park_thread(
                self._clock,
                "Ticker.receive()",
                "an AsyncTicker",
                self._wait_sets(),
                self._recheck,
                limit,
            )
            tick: Tick = self._poll(first_poll=False)
            if tick is not EMPTY:  # ATOMIC: no jump back between taking a tick and its return
                return tick

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Tick:
        try:
            tick: Tick = self._poll()
            return self._wait_for_tick(NO_DEADLINE, NO_DEADLINE) if tick is EMPTY else tick
        except TickerClosed:
            raise StopIteration from None


class AsyncTicker(BaseTicker):
    """An iterator of ticks for event loops; the same as ``Ticker``, in coroutines.

    Use ``async for tick in ticker:`` or ``await ticker.receive()``. What ``Ticker`` says of the
    other methods, and of what wakes a reader, holds here, too. Any number of coroutines may read
    it, in several event loops; it belongs to none, and can be made where none runs. A reader that
    never has to wait yields to its event loop at every 64th tick, so a delay of zero does not block
    other tasks.

    If cancelled: the tick stays for the next reader, and nothing else stays behind.
    Thread safety: ticks are awaited in event loops only; every other method may be called in any
    thread, ``stop()`` also in signal handlers, finalizers and callbacks.

    Args:
        backoff: The policy. The ticker uses a copy of it, after a ``reset()``.
        token: A ``CancellationToken`` that ends the ticker; the first tick comes all the same.
        pace: How the ticker treats slow readers.
        clock: Measures the delays. None means the current clock.
        timer: A ``Timer``, or an object like one, that measures the delays instead.

    Example:
        >>> import asyncio
        >>> from backoff_ticker import AsyncTicker, ConstantBackOff, with_max_retries
        >>> async def main():
        ...     async for tick in AsyncTicker(with_max_retries(ConstantBackOff(0.001), 1)):
        ...         print(tick.number, tick.delay)
        >>> asyncio.run(main())
        1 0.0
        2 0.001
    """

    __slots__ = ()

    # One coroutine that does all, and repeats park_coroutine(): a second one would add an eighth to
    # the memory of a reader that waits.
    async def receive(  # noqa: C901
        self,
        timeout: float | timedelta | None = None,
        *,
        _end: type[Exception] = TickerClosed,
    ) -> Tick:
        """Wait for the next tick and take it, as ``Ticker.receive()`` does in a thread."""
        limit = NO_DEADLINE
        if timeout is not None:
            limit = as_seconds("timeout", timeout)
            limit += self._monotonic()
        try:
            if self._pending.number % CHECKPOINT_EVERY == 0:
                await checkpoint
            tick: Tick = self._poll()
            if tick is not EMPTY:
                return tick
            while True:
                if timeout is not None and self._monotonic() >= limit:
                    raise TimeoutError(f"no tick within {as_seconds('timeout', timeout)} s")
                waiter = LoopWaiter(self._wait_sets(), limit)
                try:
                    while True:
                        future = waiter.await_next(self._clock, self._recheck)
                        if future is None:
                            break
                        await future
                finally:
                    try:
                        waiter.end()
                    except BaseException:
                        complete(waiter.end)
                        raise
                tick = self._poll(first_poll=False)
                if tick is not EMPTY:  # ATOMIC: as in Ticker._wait_for_tick()
                    return tick
        except TickerClosed:
            if _end is TickerClosed:
                raise
            raise _end from None

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Coroutine[Any, Any, Tick]:
        return self.receive(_end=StopAsyncIteration)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        complete(self.stop)

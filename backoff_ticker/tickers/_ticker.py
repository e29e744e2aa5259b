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
from ._tick import Pace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from types import TracebackType
    from typing import Self

    from ..cancellation import CancellationToken
    from ..channels import TimerLike
    from ..clock import Clock
    from ..policies import BackOff
    from ._tick import Tick


class Ticker(BaseTicker):
    """Ticks at the times that a policy says, for readers in threads, until it says ``STOP``.

    ``for tick in ticker:`` gives the first tick at once and each next one a delay of the policy
    later. Any number of threads may read one ticker; each tick goes to exactly one of them. A
    ticker has no thread and no queue of its own: its readers wait for the tick themselves, and a
    ticker that nothing refers to is collected.

    Wakes when: the tick falls due, the ticker is stopped or reset, a token is cancelled (the one
    given here, or one inside the policy), ``success()`` brings the tick forward.
    If interrupted: the tick stays for the next reader.
    Thread safety: every method may be called from any thread; ``stop()`` also from signal
    handlers, finalizers and callbacks.

    Args:
        backoff: The policy; the ticker runs a copy of it, reset.
        token: Its cancel ends the ticker and wakes its readers; the first tick still comes.
        pace: When delays start to run, and what happens to late ticks.
        clock: None: the current clock.
        timer: Measures the delays instead of the clock: started once for each, never for the first
            tick, and stopped at the end. A tick comes when the timer fires, and has as its ``time``
            what the timer sent.

    Raises:
        TypeError: A parameter has the wrong type.
        ValueError: The token has a deadline on another clock.
        Exception: The policy's ``reset()`` raised it.

    Example:
        >>> from backoff_ticker import ConstantBackOff, Ticker, with_max_retries
        >>> for tick in Ticker(with_max_retries(ConstantBackOff(0.001), 2)):
        ...     print(tick.number, tick.delay)
        1 0.0
        2 0.001
        3 0.001
    """

    __slots__ = ()

    def __init__(
        self,
        backoff: BackOff,
        *,
        token: CancellationToken | None = None,
        pace: Pace = Pace.RECEIPT,
        clock: Clock | None = None,
        timer: TimerLike | None = None,
    ) -> None:
        self._begin(backoff, token, pace, clock, timer)

    def receive(self, timeout: float | timedelta | None = None) -> Tick:
        """Block until the next tick and take it.

        Args:
            timeout: Seconds >= 0 or a timedelta; 0 does not wait; None: no limit.

        Raises:
            TypeError, ValueError: ``timeout`` is not a finite duration of at least 0.
            TimeoutError: No tick fell due in time; it stays for the next reader.
            TickerClosed: The ticker has ended.
            RuntimeError: Called by the ticker's own policy; or it has to wait, and an event loop
                runs in this thread.
            Exception: The error of the policy; raised once, to one reader.
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
    """Ticks at the times that a policy says, for readers in event loops, until it says ``STOP``.

    The same as ``Ticker`` with ``async for tick in ticker:`` and ``await ticker.receive()``. Any
    number of coroutines may read it, in several event loops; it belongs to none, and none needs
    to run when it is made. Where ticks are due without a wait, every 64th lets the loop run its
    other tasks, so a back-off of zero starves none of them.

    Wakes when: the tick falls due, the ticker is stopped or reset, a token is cancelled (the one
    given here, or one inside the policy), ``success()`` brings the tick forward.
    If cancelled: the tick stays for the next reader, and nothing else stays behind.
    Thread safety: every method may be called from any thread; ``stop()`` also from signal
    handlers, finalizers and callbacks. Ticks are awaited in event loops only.

    Args:
        backoff: The policy; the ticker runs a copy of it, reset.
        token: Its cancel ends the ticker and wakes its readers; the first tick still comes.
        pace: When delays start to run, and what happens to late ticks.
        clock: None: the current clock.
        timer: Measures the delays instead of the clock: started once for each, never for the first
            tick, and stopped at the end. A tick comes when the timer fires, and has as its ``time``
            what the timer sent.

    Raises:
        TypeError: A parameter has the wrong type.
        ValueError: The token has a deadline on another clock.
        Exception: The policy's ``reset()`` raised it.

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

    def __init__(
        self,
        backoff: BackOff,
        *,
        token: CancellationToken | None = None,
        pace: Pace = Pace.RECEIPT,
        clock: Clock | None = None,
        timer: TimerLike | None = None,
    ) -> None:
        self._begin(backoff, token, pace, clock, timer)

    async def receive(self, timeout: float | timedelta | None = None) -> Tick:
        """Wait for the next tick and take it; parameters and errors as in ``Ticker.receive()``."""
        seconds = NO_DEADLINE if timeout is None else as_seconds("timeout", timeout)
        limit = self._monotonic() + seconds
        if self._state.current.number % CHECKPOINT_EVERY == 0:
            await checkpoint
        tick: Tick = self._poll()
        if tick is not EMPTY:
            return tick
        while True:
            if limit != NO_DEADLINE and self._monotonic() >= limit:
                raise TimeoutError(f"no tick within {seconds} s")
            # What park_coroutine() does, and again in __anext__(): each coroutine more would add an
            # eighth to the memory of a reader that waits.
            waiter = LoopWaiter(self._wait_sets(), limit)
            try:
                while (future := waiter.await_next(self._clock, self._recheck)) is not None:
                    await future
            finally:
                try:
                    waiter.end()
                except BaseException:
                    complete(waiter.end)
                    raise
            tick = self._poll(first_poll=False)
            if tick is not EMPTY:  # ATOMIC: no jump back between taking a tick and its return
                return tick

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Tick:
        try:
            if self._state.current.number % CHECKPOINT_EVERY == 0:
                await checkpoint
            tick: Tick = self._poll()
            if tick is not EMPTY:
                return tick
            while True:
                waiter = LoopWaiter(self._wait_sets())
                try:
                    while (future := waiter.await_next(self._clock, self._recheck)) is not None:
                        await future
                finally:
                    try:
                        waiter.end()
                    except BaseException:
                        complete(waiter.end)
                        raise
                tick = self._poll(first_poll=False)
                if tick is not EMPTY:  # ATOMIC: as in receive()
                    return tick
        except TickerClosed:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        complete(self.stop)

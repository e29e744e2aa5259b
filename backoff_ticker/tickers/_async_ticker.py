"""The loop face of a ticker: its readers are coroutines, in any number of event loops."""

from __future__ import annotations

from .._errors import TickerClosed
from .._validation import as_seconds
from ..waiting import CHECKPOINT_EVERY, NO_DEADLINE, checkpoint, park_coroutine
from ._base import TickerFace
from ._core import POLL_AGAIN
from ._tick import Tick

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from types import TracebackType
    from typing import Self


class AsyncTicker(TickerFace):
    """Ticks at the times that a policy says, for readers in event loops, until it says ``STOP``.

    The same as ``Ticker`` with ``async for tick in ticker:`` and ``await ticker.receive()``. Any
    number of coroutines may read it, in several loops; it belongs to none, and none needs to run
    when it is made. Ticks that are due without a wait give way to the loop at each 64th, so a
    back-off of zero starves nobody.

    Wakes when: the tick falls due, the ticker is stopped or reset, a token is cancelled (the one
    given here, or one inside the policy), ``success()`` brings the tick forward.
    If cancelled: the tick stays for the next reader, and nothing else stays behind.
    Thread safety: every method, from any thread; ``stop()`` also from signal handlers,
    finalizers and callbacks. Ticks are awaited in event loops only.

    Args:
        backoff: The policy; the ticker runs a copy of it, reset.
        token: Cancelled, it ends the ticker and wakes its readers; one tick comes all the same.
        pace: From when delays run, and what becomes of late ticks.
        clock: None: the current clock.
        timer: Measures the delays instead of the clock: started once for each, never for the first
            tick, and stopped at the end. A tick comes when it fires, and has the time it sent.

    Raises:
        TypeError: A parameter is not what it should be.
        ValueError: The token has a deadline on another clock.
        Exception: What the policy's ``reset()`` raised.
    """

    __slots__ = ()

    async def receive(self, timeout: float | timedelta | None = None) -> Tick:
        """Wait for the next tick and take it.

        Args:
            timeout: Seconds >= 0 or a timedelta; 0 does not wait; None: no limit.

        Raises:
            TypeError, ValueError: ``timeout`` is not a finite duration of at least 0.
            TimeoutError: No tick fell due in time; it stays for the next reader.
            TickerClosed: No tick comes any more.
            RuntimeError: Called by the ticker's own policy.
            Exception: What the policy failed with; once, to one reader.
        """
        seconds = NO_DEADLINE if timeout is None else as_seconds("timeout", timeout)
        limit = self._monotonic() + seconds
        if self._turn[1] % CHECKPOINT_EVERY == 0:
            await checkpoint
        step = self._poll()
        return step if step.__class__ is Tick else await self._receive(step, limit, seconds)

    async def _receive(self, step: Tick | float, limit: float, seconds: float) -> Tick:
        while True:
            if step != POLL_AGAIN:
                if limit != NO_DEADLINE and self._monotonic() >= limit:
                    raise TimeoutError(f"no tick within {seconds} s")
                await park_coroutine(self._clock, self._wait_sets(), self._recheck, limit)
            step = self._poll(fresh=False)
            if step.__class__ is Tick:  # ATOMIC: no jump back between taking it and its return
                return step

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Tick:
        try:
            if self._turn[1] % CHECKPOINT_EVERY == 0:
                await checkpoint
            step = self._poll()
            if step.__class__ is Tick:
                return step
            return await self._receive(step, NO_DEADLINE, NO_DEADLINE)
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
        self.stop()

"""The thread face of a ticker: its readers block."""

from __future__ import annotations

from .._errors import TickerClosed
from .._validation import as_seconds
from ..waiting import NO_DEADLINE, park_thread
from ._base import TickerFace
from ._core import POLL_AGAIN
from ._tick import Tick

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Self


class Ticker(TickerFace):
    """Ticks at the times that a policy says, for readers in threads, until it says ``STOP``.

    ``for tick in ticker:`` gives the first tick at once and each next one a delay of the policy
    later. Any number of threads may read one ticker; each tick goes to exactly one of them. A
    ticker has no thread and no queue of its own: whoever reads it waits for it, and one that is
    dropped is simply collected.

    Wakes when: the tick falls due, the ticker is stopped or reset, a token is cancelled (the one
    given here, or one inside the policy), ``success()`` brings the tick forward.
    If interrupted: the tick stays for the next reader.
    Thread safety: every method, from any thread; ``stop()`` also from signal handlers,
    finalizers and callbacks.

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

    def receive(self, timeout: float | timedelta | None = None) -> Tick:
        """Block until the next tick and take it.

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
        step = self._poll()
        return step if step.__class__ is Tick else self._receive(step, limit, seconds)

    def _receive(self, step: Tick | float, limit: float, seconds: float) -> Tick:
        while True:
            if step != POLL_AGAIN:
                if limit != NO_DEADLINE and self._monotonic() >= limit:
                    raise TimeoutError(f"no tick within {seconds} s")
                what = "Ticker.receive()"
                park_thread(self._clock, what, self._wait_sets(), self._recheck, limit)
            step = self._poll(fresh=False)
            if step.__class__ is Tick:  # ATOMIC: no jump back between taking it and its return
                return step

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Tick:
        try:
            step = self._poll()
            return step if step.__class__ is Tick else self._receive(step, NO_DEADLINE, NO_DEADLINE)
        except TickerClosed:
            raise StopIteration from None

"""All timers of one event loop, under a timer of the loop's own.

A loop keeps its timers in a heap too, but compares them in Python and runs each by itself.

Invariants:
    * The heap is touched only where the loop runs. Elsewhere, in signal handlers and finalizers,
      a timer may be marked as cancelled, no more.
    * While an entry is pending, a timer of the loop's own is armed for the earliest, or before.
    * No callback runs early, whatever the loop rounds to.
"""

from __future__ import annotations

import threading
import weakref
from contextvars import Context, copy_context
from heapq import heapify, heappop, heappush

from ._numbers import LONGEST_WAIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable

__all__ = ["LoopTimer", "LoopTimers"]

_LEAST_REARM = 0.001


class LoopTimer:
    """A callback in a loop: called once, in the context it was set in, unless cancelled before."""

    __slots__ = ("_callback", "_context", "_timers", "when")

    def __init__(self, when: float, callback: Callable[[], object], timers: _Timers) -> None:
        self.when = when
        self._callback: Callable[[], object] | None = callback
        self._context = copy_context()
        self._timers = timers

    @property
    def spent(self) -> bool:
        """Whether it was run or cancelled."""
        return self._callback is None

    def cancel(self) -> bool:
        """Prevent the call; True if this is what prevented it."""
        if self._callback is None:
            return False
        self._callback = None
        self._timers.cancelled += 1
        return True

    def run(self) -> None:
        """Call back, unless cancelled."""
        callback, self._callback = self._callback, None
        if callback is not None:
            self._context.run(callback)


class _Timers:
    """The timers of one loop.

    Those of the loop's own are never cancelled, nor kept here, where they would keep the loop
    alive. They are armed each for an earlier moment than the one before, so they fire the last
    first, and there are never more of them than there were entries.

    Attributes:
        loop: The loop, as long as it lives.
        cancelled: About how many entries are dead: says when a sweep is worth while.
    """

    __slots__ = ("_added", "_armed", "_context", "_heap", "_monotonic", "cancelled", "loop")

    def __init__(self, loop: AbstractEventLoop, monotonic: Callable[[], float]) -> None:
        self.loop = weakref.ref(loop)
        self.cancelled = 0
        self._monotonic = monotonic
        self._context = Context()  # the loop's timer belongs to nobody who sets one here
        self._heap: list[tuple[float, int, LoopTimer]] = []
        self._added = 0
        self._armed: list[float] = []

    def add(
        self, loop: AbstractEventLoop, when: float, callback: Callable[[], object]
    ) -> LoopTimer:
        if self.cancelled * 2 > len(self._heap):
            self._sweep()
        timer = LoopTimer(when, callback, self)
        self._added += 1
        heappush(self._heap, (when, self._added, timer))
        self._arm(loop, 0.0)
        return timer

    def _sweep(self) -> None:
        self.cancelled = 0
        self._heap[:] = [entry for entry in self._heap if not entry[2].spent]
        heapify(self._heap)

    def _arm(self, loop: AbstractEventLoop, least: float) -> None:
        """See to it that the loop fires for the earliest entry, in ``least`` seconds or later."""
        armed, heap = self._armed, self._heap
        if heap and (not armed or heap[0][0] < armed[-1]):
            now = self._monotonic()
            delay = min(max(heap[0][0] - now, least), LONGEST_WAIT)
            loop.call_later(delay, self._fire, loop, context=self._context)
            armed.append(now + delay)

    def _fire(self, loop: AbstractEventLoop) -> None:
        heap = self._heap
        least = _LEAST_REARM
        try:
            del self._armed[-1:]
            now = self._monotonic()
            while heap and heap[0][0] <= now:
                least = 0.0
                heappop(heap)[2].run()
            if self.cancelled * 2 > len(heap):
                self._sweep()
        finally:
            # As in park_thread: an interrupt can hit the first call of a finally clause.
            try:
                self._arm(loop, least)
            except BaseException:
                self._arm(loop, least)
                raise


class LoopTimers(threading.local):
    """The timers of all loops; in each thread, those of the loop that set one there last.

    Earlier ones, and those of a loop that moved on to another thread, live on under the timer of
    their loop until they are empty.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._last: _Timers | None = None

    def call_at(
        self, when: float, callback: Callable[[], object], loop: AbstractEventLoop
    ) -> LoopTimer:
        """Have ``callback()`` called in ``loop`` at ``when``; called where the loop runs.

        Raises:
            RuntimeError: The loop is closed.
        """
        timers = self._last
        if timers is None or timers.loop() is not loop:
            timers = self._last = _Timers(loop, self._monotonic)
        if loop.is_closed():
            raise RuntimeError(f"{loop!r} is closed: no callback can be set in it")
        return timers.add(loop, when, callback)

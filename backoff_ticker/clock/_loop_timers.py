"""All timers of one event loop, under one or few of the loop's own.

A loop keeps its timers in a heap too, but compares them in Python and runs each by itself.

Invariants:
    * The heap is touched only where the loop runs. Elsewhere, in signal handlers and finalizers,
      a timer may be marked as cancelled, no more.
    * While an entry is pending, a handle of the loop's own is armed for the earliest, or before.
    * An interrupt in the loop's own code can lose a handle as it fires. So one that is overdue
      counts for nothing: no new entry depends on it, and it is replaced when one is set.
    * No callback runs early, whatever the loop rounds to.
"""

from __future__ import annotations

import threading
import weakref
from contextvars import Context, copy_context
from heapq import heapify, heappop, heappush

from .._validation import LONGEST_WAIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle as LoopHandle
    from collections.abc import Callable

_PAUSE_AFTER_EARLY = 0.001
"""Seconds before the next handle, where a loop has fired one early: it must not spin."""

_SPARE_HANDLES = 16
"""So many more handles than timers are left in the loop, rather than cancelled."""

_GRACE = 0.05
"""Seconds for which one handle is enough for all that is overdue."""


class LoopTimer:
    """A callback in a loop: called once, in the context it was set in, unless cancelled before."""

    __slots__ = ("_callback", "_context", "_timers", "when")

    def __init__(self, when: float, callback: Callable[[], object], timers: _Timers) -> None:
        self.when = when
        self._callback: Callable[[], object] | None = callback
        self._context: Context | None = copy_context()
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
        self._context = None
        self._timers.cancelled += 1
        return True

    def run(self) -> None:
        """Call back, unless cancelled."""
        callback, context = self._callback, self._context
        self._callback = self._context = None
        if callback is not None and context is not None:
            context.run(callback)


class _Timers:
    """The timers of one loop.

    Whoever waits here is kept alive by the loop, whose own timers hold on to ``_fire``, and by
    nothing else: a loop that is dropped takes its timers with it.

    Attributes:
        loop: The loop, as long as it lives.
        cancelled: About how many entries are dead: says when a sweep is worth while.
    """

    __slots__ = (
        "__weakref__",
        "_added",
        "_grace_ends",
        "_handles",
        "_heap",
        "_monotonic",
        "cancelled",
        "loop",
    )

    def __init__(self, loop: AbstractEventLoop, monotonic: Callable[[], float]) -> None:
        self.loop = weakref.ref(loop)
        self.cancelled = 0
        self._monotonic = monotonic
        self._heap: list[tuple[float, int, LoopTimer]] = []
        self._added = 0
        self._handles: list[tuple[float, LoopHandle]] = []  # by when; the next to fire is last
        self._grace_ends = 0.0  # monotonic; until then, what is overdue gets no second handle

    def add(
        self, loop: AbstractEventLoop, when: float, callback: Callable[[], object]
    ) -> LoopTimer:
        if self.cancelled * 2 > len(self._heap):
            self._sweep()
        timer = LoopTimer(when, callback, self)
        self._added += 1
        heappush(self._heap, (when, self._added, timer))
        try:
            self._ensure_handle(loop, when)
        except BaseException:
            timer.cancel()
            raise
        return timer

    def _ensure_handle(self, loop: AbstractEventLoop, when: float) -> None:
        """See to it that the loop fires for a new entry, and for those that are overdue."""
        now = self._monotonic()
        first = self._heap[0][0]
        if first <= now:
            # The loop is late, or an interrupt took a handle out of it: who knows.
            if now >= self._grace_ends:
                self._grace_ends = now + _GRACE
                self._arm(loop, 0.0, now)
                if when <= now:
                    return
            first = max(when, self._grace_ends)
        self._arm(loop, first - now, now)

    def _sweep(self) -> None:
        self.cancelled = 0
        self._heap[:] = [entry for entry in self._heap if not entry[2].spent]
        heapify(self._heap)
        if len(self._handles) > len(self._heap) + _SPARE_HANDLES:
            for _, handle in self._handles:
                handle.cancel()
            self._handles.clear()

    def _arm(self, loop: AbstractEventLoop, delay: float, now: float) -> None:
        """Have the loop fire in so many seconds, unless it is to do so before."""
        handles = self._handles
        while handles and handles[-1][0] <= now:
            handles.pop()
        delay = min(delay, LONGEST_WAIT)
        at = now + delay
        if handles and handles[-1][0] <= at:
            return
        # A context of its own: the handle belongs to nobody who sets a timer here.
        handles.append((at, loop.call_later(delay, self._fire, loop, at, context=Context())))

    def _fire(self, loop: AbstractEventLoop, at: float) -> None:
        """Run what is due, but nothing that is set meanwhile; arm for what is left."""
        heap = self._heap
        least = _PAUSE_AFTER_EARLY
        try:
            self._handles[:] = [handle for handle in self._handles if handle[0] != at]
            now = self._monotonic()
            if now >= at:
                least = 0.0
            last = self._added
            while heap and heap[0][0] <= now and heap[0][1] <= last:
                heappop(heap)[2].run()
            if self.cancelled * 2 > len(heap):
                self._sweep()
        finally:
            # As in park_thread: an interrupt can hit the first call of a finally clause.
            try:
                self._arm_for_rest(loop, least)
            except BaseException:
                self._arm_for_rest(loop, least)
                raise

    def _arm_for_rest(self, loop: AbstractEventLoop, least: float) -> None:
        if self._heap:
            now = self._monotonic()
            self._arm(loop, max(self._heap[0][0] - now, least), now)


class LoopTimers(threading.local):
    """The timers of all loops; in each thread, those of the loop that set one there last.

    Earlier ones, and those of a loop that moved on to another thread, live on under the timers of
    their loop until they are empty.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._last: weakref.ref[_Timers] | None = None

    def call_at(
        self, when: float, callback: Callable[[], object], loop: AbstractEventLoop
    ) -> LoopTimer:
        """Have ``callback()`` called in ``loop`` at ``when``; called where the loop runs.

        Raises:
            RuntimeError: The loop is closed.
        """
        timers = None if self._last is None else self._last()
        if timers is None or timers.loop() is not loop:
            timers = _Timers(loop, self._monotonic)
            self._last = weakref.ref(timers)
        if loop.is_closed():
            raise RuntimeError(f"{loop!r} is closed: no callback can be set in it")
        return timers.add(loop, when, callback)

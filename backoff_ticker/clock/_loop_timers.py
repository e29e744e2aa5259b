"""All timers of one event loop in one heap, driven by one or a few timers of the loop itself.

A loop keeps its own timers in a heap too, but compares them in Python and runs each by itself: a
tick would cost 20 instead of 13 microseconds.

Invariants:
    * The heap is touched only where the loop runs; so is an ``Alarm``, which its loop owns. Other
      threads, signal handlers and finalizers may only cancel a ``LoopTimer``.
    * While a timer is pending, a handle of the loop is armed for the earliest time, or before.
    * An interrupt in the loop's own code can lose a handle as it fires. So no new timer relies on
      a handle that is overdue: a second one is armed.
    * No callback runs early, however the loop rounds.
"""

from __future__ import annotations

from contextvars import Context, copy_context
from functools import partial
from heapq import heapify, heappop, heappush
from weakref import ref

from .._validation import LONGEST_WAIT
from ._scheduler import PendingCall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle as LoopHandle
    from collections.abc import Callable
    from typing import Any

_PAUSE_AFTER_EARLY = 0.001
"""Seconds before the next handle fires if a loop fired one early, so that it does not spin."""

_SPARE_HANDLES = 16
"""How many more handles than timers may stay armed before they are cancelled."""

_GRACE = 0.05
"""Seconds after which a second handle fires, in case the loop has lost one that is overdue."""


class Alarm:
    """A callback in a loop that is its own timer, and is called in no context of its own.

    A coroutine that waits needs no other object. One that is set again forgets the time before.
    Its loop owns it: it is set, called and cancelled only where the loop runs.
    """

    if not TYPE_CHECKING:
        __slots__ = ()  # subclasses have them

    when: float
    _heap: _TimerHeap | None  # where it was set last
    _number: int | None  # of its entry there; None: it is not set, was called or was cancelled

    def fire(self) -> None:
        """Act at the due time."""
        raise NotImplementedError

    def __call__(self) -> None:
        self.fire()

    def cancel(self) -> bool:
        if self._number is None:
            return False
        self._number = None
        self._heap.cancelled += 1  # type: ignore[union-attr]
        return True


class LoopTimer(PendingCall, Alarm):
    """A callback in a loop: called in the context it was set in; any thread may cancel it."""

    __slots__ = ("_heap", "_number")

    def __init__(self, when: float, callback: Callable[[], object]) -> None:
        super().__init__(when, partial(copy_context().run, callback))
        self._heap = None
        self._number = None

    def cancel(self) -> bool:
        prevented = super().cancel()
        if prevented:
            Alarm.cancel(self)  # so that the heap drops it
        return prevented


class _TimerHeap:
    """The timers of one loop, whose handles alone keep it alive: it is collected with the loop."""

    __slots__ = (
        "__weakref__",
        "_added",
        "_handles",
        "_heap",
        "_monotonic",
        "_trusted_until",
        "cancelled",
    )

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.cancelled = 0  # about how many: threads that count at once may count one
        self._monotonic = monotonic
        self._heap: list[tuple[float, int, Alarm]] = []
        self._added = 0
        self._handles: list[tuple[float, LoopHandle]] = []  # by time; the next to fire is last
        self._trusted_until = 0.0  # monotonic; until then an overdue handle is not lost

    def add(self, loop: AbstractEventLoop, when: float, alarm: Alarm) -> None:
        heap, handles = self._heap, self._handles
        if self.cancelled * 2 > len(heap):
            self._sweep()
        self._added = number = self._added + 1
        alarm.when = when
        alarm._heap = self
        alarm._number = number
        heappush(heap, (when, number, alarm))
        try:
            # Most often a handle that is not overdue fires before all timers; then that is enough.
            now = self._monotonic()
            if not handles or not now < handles[-1][0] <= heap[0][0]:
                self._arm(loop, now)
        except BaseException:
            alarm.cancel()
            raise

    def _sweep(self) -> None:
        self.cancelled = 0
        self._heap[:] = [entry for entry in self._heap if entry[2]._number == entry[1]]
        heapify(self._heap)
        if len(self._handles) > len(self._heap) + _SPARE_HANDLES:
            for _, handle in self._handles:
                handle.cancel()
            self._handles.clear()

    def _arm(self, loop: AbstractEventLoop, now: float, least: float = 0.0) -> None:
        """Make the loop fire for the first timer, in ``least`` seconds or later, or before."""
        if not self._heap:
            return
        handles = self._handles
        while handles and handles[-1][0] <= now:
            self._trusted_until = handles.pop()[0] + _GRACE  # it fires now, unless it is lost
        if self._trusted_until > now:
            least = self._trusted_until - now
        delay = min(max(self._heap[0][0] - now, least), LONGEST_WAIT)
        at = now + delay
        if not handles or at < handles[-1][0]:
            # An empty context: the handle serves all timers, not the task that happens to arm it.
            handles.append((at, loop.call_later(delay, self._fire, loop, at, context=Context())))

    def _fire(self, loop: AbstractEventLoop, at: float) -> None:
        """Run what is due, except timers set meanwhile, and arm a handle for the rest."""
        heap = self._heap
        least = _PAUSE_AFTER_EARLY
        self._trusted_until = 0.0
        try:
            self._handles[:] = [handle for handle in self._handles if handle[0] != at]
            now = self._monotonic()
            if now >= at:
                least = 0.0
            last = self._added
            while heap and heap[0][0] <= now and heap[0][1] <= last:
                _, number, alarm = heappop(heap)
                # Else it was cancelled, or set again, perhaps in another heap of the loop.
                if alarm._number == number and alarm._heap is self:
                    alarm._number = None
                    alarm.fire()
            if self.cancelled * 2 > len(heap):
                self._sweep()
        finally:
            # As in park_thread: an interrupt may hit the first call of a finally clause.
            try:
                self._arm(loop, self._monotonic(), least)
            except BaseException:
                self._arm(loop, self._monotonic(), least)
                raise


def call_in_loop(
    monotonic: Callable[[], float], when: float, callback: Callable[[], object], loop: Any
) -> Alarm:
    """Call ``callback()`` in ``loop``, which runs here, at ``when``; an alarm is its own timer."""
    if isinstance(callback, Alarm):
        alarm = callback
    elif loop.is_closed():
        raise RuntimeError(f"{loop!r} is closed: no callback can be set in it")
    else:
        alarm = LoopTimer(when, callback)
    reference = getattr(loop, "_backoff_ticker_timers", None)
    timers = None if reference is None else reference()
    if timers is None:
        timers = _TimerHeap(monotonic)
        try:
            loop._backoff_ticker_timers = ref(timers)
        except AttributeError:
            pass  # a loop that takes no attributes: each timer has a heap of its own
    timers.add(loop, when, alarm)
    return alarm

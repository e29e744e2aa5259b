"""The time of a run of trio that has a clock of its own, such as ``trio.testing.MockClock``."""

from __future__ import annotations

from functools import partial

import trio

from .._validation import as_number
from ..clock import PendingCall, SystemClock
from ._trio_run import TrioHandle, TrioRun, current_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_clocks: trio.lowlevel.RunVar[TrioClock] = trio.lowlevel.RunVar("its clock")


def clock_of_run(run: TrioRun) -> TrioClock:
    """Return the clock of ``run``, whose task runs here, and which has no real time."""
    try:
        return _clocks.get()
    except LookupError:
        clock = TrioClock(trio.lowlevel.current_clock(), run)
        _clocks.set(clock)
        return clock


class TrioClock:
    """A ``Clock`` over that of a run. Threads may wait on it, too, until the run has ended."""

    def __init__(self, clock: trio.abc.Clock, run: TrioRun) -> None:
        self._clock = clock
        self._run: Any = run
        self._ahead = SystemClock().time() - clock.current_time()
        self.monotonic = clock.current_time

    def time(self) -> float:
        return self._ahead + self.monotonic()

    def call_at(
        self, when: float, callback: Callable[[], object], *, loop: Any = None
    ) -> TrioTimer:
        when = as_number("when", when, "a finite number of monotonic seconds")
        is_here = loop is self._run
        if loop is not None and not is_here:
            callback = partial(loop.call_soon_threadsafe, callback)
        timer = TrioTimer(self._run, when, callback)
        if is_here:
            timer.start()
        else:
            self._run.call_soon_threadsafe(timer.start)
        return timer

    def parker(self, what: str = "") -> _Parker:  # for reports of a virtual clock
        return _Parker(self)

    def __repr__(self) -> str:
        return f"<the time of {self._clock!r}>"


class TrioTimer(PendingCall):
    """A callback in a run, which any thread may cancel."""

    __slots__ = ("_handle", "_run")

    def __init__(self, run: TrioRun, when: float, callback: Callable[[], object]) -> None:
        super().__init__(when, callback)
        self._run = run
        self._handle: TrioHandle | None = None

    def start(self) -> None:
        """Begin to wait; called in the run."""
        if not self.is_taken:
            try:
                self._handle = self._run.call_at(self.when, self.fire)
            except RuntimeError:
                pass  # the run is ending, and with it its time

    def cancel(self) -> bool:
        if not super().cancel():
            return False
        if current_run() is self._run:
            self._end()
        else:
            self._run.call_soon_if_open(self._end)
        return True

    def _end(self) -> None:
        if self._handle is not None:
            self._handle.cancel()


class _Parker:
    """A parker of the system that a timer of the run, or the end of the run, unparks."""

    def __init__(self, clock: TrioClock) -> None:
        self._clock = clock
        self._parker = SystemClock().parker()
        self.unpark = self._parker.unpark

    def park(self, deadline: float | None) -> bool:
        if deadline is None:
            return self._parker.park(None)
        at_end = self._clock._run.at_end
        at_end[self.unpark] = None
        timer = self._clock.call_at(deadline, self.unpark)
        try:
            self._parker.park(None)
        finally:
            was_unparked = timer.cancel()
            at_end.pop(self.unpark, None)
        return was_unparked

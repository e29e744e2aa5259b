"""What the threads of a schedule wait on: a clock, its parkers, and an event loop."""

import asyncio
from contextlib import suppress

from tests.channels.turned_clock import Timer
from tests.helpers import SetClock


class ScheduledParker:
    """Where a thread of a schedule waits."""

    def __init__(self, schedule, what):
        self._schedule = schedule
        self.what = what
        self.permit = False

    def park(self, deadline):
        schedule = self._schedule
        if not self.permit and (deadline is None or deadline > schedule.clock.now):
            schedule.wait(self, deadline)
        woken, self.permit = self.permit, False
        return woken

    def unpark(self):
        self.permit = True


class ScheduledClock(SetClock):
    """A clock whose time passes when it is chosen that a thread's time is up."""

    def __init__(self, schedule):
        super().__init__()
        self._schedule = schedule

    def parker(self, what=""):
        return ScheduledParker(self._schedule, what)

    def call_at(self, when, callback, *, loop=None):
        assert loop is not None, "a schedule has no thread that calls back"
        timer = Timer(when, callback)
        loop.call_at(when, timer.fire)
        return timer


class ScheduledLoop(asyncio.BaseEventLoop):
    """An event loop that sleeps on the clock of a schedule; it is its own selector."""

    def __init__(self, clock):
        super().__init__()
        self.time = clock.monotonic
        self._selector = self
        self._parker = clock.parker("the loop")

    def select(self, timeout):
        if timeout is None or timeout > 0:
            self._parker.park(None if timeout is None else self.time() + timeout)

    def _process_events(self, events):
        """There are none."""

    def _write_to_self(self):
        self._parker.unpark()


def cancel_meanwhile(schedule, coroutine):
    """Run a coroutine in the loop of one thread, and have another thread cancel it."""
    loop = ScheduledLoop(schedule.clock)
    task = loop.create_task(coroutine)

    def run():
        try:
            with suppress(asyncio.CancelledError):
                loop.run_until_complete(task)
        finally:
            loop.close()

    def cancel():
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(task.cancel)

    schedule.thread("loop", run)
    schedule.thread("canceller", cancel)

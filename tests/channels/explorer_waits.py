"""What the threads of a schedule wait on: a clock, its parkers, and an event loop."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tests.channels.turned_loop import Timer
from tests.helpers import SetClock

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from tests.channels.explorer import Schedule


class ScheduledParker:
    """Where a thread of a schedule waits."""

    def __init__(self, schedule: Schedule, what: str) -> None:
        self._schedule = schedule
        self.what = what
        self.permit = False

    def park(self, deadline: float | None) -> bool:
        schedule = self._schedule
        if not self.permit and (deadline is None or deadline > schedule.clock.now):
            schedule.wait(self, deadline)
        woken, self.permit = self.permit, False
        return woken

    def unpark(self) -> None:
        self.permit = True


class ScheduledClock(SetClock):
    """A clock whose time passes when it is chosen that a thread's time is up."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__()
        self._schedule = schedule

    def parker(self, what: str = "") -> ScheduledParker:
        return ScheduledParker(self._schedule, what)

    def call_at(self, when: float, callback: Any, *, loop: Any = None) -> Timer:
        assert loop is not None, "a schedule has no thread that calls back"
        timer = Timer(when, callback)
        loop.call_at(when, timer.fire)
        return timer


class ScheduledLoop(asyncio.BaseEventLoop):
    """An event loop that sleeps on the clock of a schedule; it is its own selector."""

    def __init__(self, clock: ScheduledClock) -> None:
        super().__init__()
        self.time = clock.monotonic  # type: ignore[method-assign]
        self._selector = self
        self._parker = clock.parker("the loop")

    def select(self, timeout: float | None) -> None:
        if timeout is None or timeout > 0:
            self._parker.park(None if timeout is None else self.time() + timeout)

    def _process_events(self, events: None) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        self._parker.unpark()


def cancel_meanwhile(schedule: Schedule, coroutine: Coroutine[Any, Any, Any]) -> None:
    """Run a coroutine in the loop of one thread, and have another thread cancel it."""
    loop = ScheduledLoop(schedule.clock)
    task = loop.create_task(coroutine)

    def run() -> None:
        try:
            with suppress(asyncio.CancelledError):
                loop.run_until_complete(task)
        finally:
            loop.close()

    def cancel() -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(task.cancel)

    schedule.thread("loop", run)
    schedule.thread("canceller", cancel)

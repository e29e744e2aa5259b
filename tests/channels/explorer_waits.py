"""What the threads of a schedule wait on: a clock, its parkers, and a small event loop."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.channels.explorer_schedule import Schedule

    Gate = threading.Lock

BEGIN = 1000.0
EPOCH = 1_700_000_000.0


def gate() -> Gate:
    """Return a lock that is taken: one thread waits for it, another releases it."""
    lock = threading.Lock()
    lock.acquire()
    return lock


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


class ScheduledClock:
    """A clock whose time passes when it is chosen that a thread's time is up."""

    def __init__(self, schedule: Schedule) -> None:
        self.now = BEGIN
        self._schedule = schedule

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now + EPOCH

    def parker(self, what: str = "") -> ScheduledParker:
        return ScheduledParker(self._schedule, what)

    def call_at(self, when: float, callback: Any, *, loop: Any = None) -> MiniTimer:
        assert loop is not None, "a schedule has no thread that calls back"
        return loop.call_at(when, callback)


class MiniTimer:
    """A callback of a small loop that is due at some time."""

    def __init__(self, when: float, callback: Callable[[], object]) -> None:
        self.when = when
        self._callback: Callable[[], object] | None = callback

    def __lt__(self, other: MiniTimer) -> bool:
        return self.when < other.when

    def live(self) -> bool:
        return self._callback is not None

    def cancel(self) -> bool:
        prevented = self.live()
        self._callback = None
        return prevented

    def run(self) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


class MiniLoop:
    """As much of an event loop as one task needs; it sleeps on a clock of a schedule."""

    def __init__(self, clock: ScheduledClock) -> None:
        self._clock = clock
        self._parker = clock.parker("the loop")
        self._ready: deque[Callable[[], object]] = deque()
        self._timers: list[MiniTimer] = []
        self._closed = False
        self._cancelled = False
        self.task: asyncio.Task[Any] | None = None
        self.errors: list[dict[str, Any]] = []

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine as the one task of this thread."""
        asyncio._set_running_loop(self)  # type: ignore[arg-type]
        try:
            self.task = asyncio.Task(coroutine, loop=self)  # type: ignore[arg-type]
            if self._cancelled:
                self.task.cancel()
            while not self.task.done():
                self._turn()
            assert self.errors == []
            return None if self.task.cancelled() else self.task.result()
        finally:
            self._closed = True
            asyncio._set_running_loop(None)

    def _turn(self) -> None:
        while self._timers and not self._timers[0].live():
            heappop(self._timers)
        if not self._ready:
            self._parker.park(self._timers[0].when if self._timers else None)
        while self._timers and self._timers[0].when <= self._clock.now:
            self._ready.append(heappop(self._timers).run)
        for _ in range(len(self._ready)):
            self._ready.popleft()()

    def cancel_task(self) -> None:
        """Cancel the task, from any thread, be it before it has begun."""
        self._cancelled = True
        if self.task is not None and not self._closed:
            self.call_soon_threadsafe(self.task.cancel)

    def call_soon(self, callback: Any, *arguments: Any, context: Any = None) -> MiniTimer:
        def run() -> None:
            if context is None:
                callback(*arguments)
            else:
                context.run(callback, *arguments)

        timer = MiniTimer(self._clock.now, run)
        self._ready.append(timer.run)
        return timer

    def call_soon_threadsafe(self, callback: Any, *arguments: Any, context: Any = None) -> None:
        if self._closed:
            raise RuntimeError("Event loop is closed")
        self.call_soon(callback, *arguments, context=context)
        self._parker.unpark()

    def call_at(self, when: float, callback: Any) -> MiniTimer:
        timer = MiniTimer(when, callback)
        heappush(self._timers, timer)
        return timer

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)  # type: ignore[arg-type]

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.errors.append(context)

    def is_closed(self) -> bool:
        return self._closed

    def get_debug(self) -> bool:
        return False

"""What the tests share: a clock that moves by hand, and the two faces behind one interface."""

from __future__ import annotations

import asyncio
import heapq
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from backoff_ticker import AsyncTicker, Ticker

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

PATIENCE = 10.0
"""Real seconds after which a test that waits for an event gives up."""


class _ManualTimer:
    def __init__(self, clock: ManualClock, when: float, run: Callable[[], object]) -> None:
        self.when = when
        self._clock = clock
        self.run: Callable[[], object] | None = run

    def cancel(self) -> bool:
        return self.take() is not None

    def take(self) -> Callable[[], object] | None:
        with self._clock.changed:
            run, self.run = self.run, None
            self._clock.changed.notify_all()
            return run


class _ManualParker:
    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._permit = threading.Semaphore(0)

    def park(self, deadline: float | None) -> bool:
        timer = None
        expired = []
        if deadline is not None:
            timer = self._clock.call_at(
                deadline, lambda: (expired.append(True), self._permit.release())
            )
        with self._clock.changed:
            self._clock.parked += 1
            self._clock.parks += 1
            self._clock.changed.notify_all()
        try:
            self._permit.acquire()
        finally:
            with self._clock.changed:
                self._clock.parked -= 1
            if timer is not None:
                timer.cancel()
        return not expired

    def unpark(self) -> None:
        self._permit.release()


class ManualClock:
    """A ``Clock`` that stands still until ``advance``; for threads and event loops."""

    def __init__(self, start: float = 1000.0, epoch: float = 1_700_000_000.0) -> None:
        self.now = start
        self._offset = epoch - start
        self._timers: list[tuple[float, int, _ManualTimer]] = []
        self._added = 0
        self.parked = 0
        self.parks = 0
        self.changed = threading.Condition(threading.RLock())

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now + self._offset

    def call_at(
        self,
        when: float,
        callback: Callable[[], object],
        *,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> _ManualTimer:
        run = callback if loop is None else lambda: loop.call_soon_threadsafe(callback)
        timer = _ManualTimer(self, when, run)
        with self.changed:
            self._added += 1
            heapq.heappush(self._timers, (when, self._added, timer))
            self.changed.notify_all()
        if when <= self.now:
            self._fire_due()
        return timer

    def parker(self, what: str = "") -> _ManualParker:
        return _ManualParker(self)

    def _fire_due(self) -> None:
        while True:
            with self.changed:
                if not self._timers or self._timers[0][0] > self.now:
                    return
                _, _, timer = heapq.heappop(self._timers)
            run = timer.take()
            if run is not None:
                run()

    def advance(self, seconds: float) -> None:
        """Move time forward, through each due time on the way, in order; wakes who is due.

        It does not wait for those it woke: use ``wait_for_parked`` or a result for that.
        """
        self.advance_to(self.now + seconds)

    def advance_to(self, when: float) -> None:
        while True:
            with self.changed:
                ahead = [t for t, _, timer in self._timers if timer.run and t <= when]
                self.now = max(self.now, min(ahead, default=when))
            self._fire_due()
            if not ahead:
                return

    @property
    def timers(self) -> int:
        """How many timers are pending."""
        with self.changed:
            return sum(timer.run is not None for _, _, timer in self._timers)

    def wait_for_parked(self, count: int) -> None:
        """Block until ``count`` threads are parked on this clock."""
        with self.changed:
            if not self.changed.wait_for(lambda: self.parked >= count, PATIENCE):
                raise AssertionError(f"{self.parked} of {count} threads parked")

    def wait_for_timers(self, count: int) -> None:
        """Block until ``count`` timers are pending (a coroutine that waits has one)."""
        with self.changed:
            if not self.changed.wait_for(lambda: self.timers >= count, PATIENCE):
                raise AssertionError(f"{self.timers} of {count} timers pending")


def eventually(condition: Callable[[], object], what: str = "the condition") -> None:
    """Wait for something that no event announces, such as a thread's end."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"{what} did not come true"
        threading.Event().wait(0.001)


def in_thread(function: Callable[..., Any], *args: Any) -> Future[Any]:
    """Run ``function`` in a new daemon thread; its outcome is the future's."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            result = function(*args)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=run, daemon=True).start()
    return future


class LoopThread:
    """An event loop, in debug mode, in a thread of its own; what goes wrong in it is kept."""

    def __init__(self, *, debug: bool = True) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.set_debug(debug)
        self.errors: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda _, context: self.errors.append(context))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def submit(self, coroutine: Coroutine[Any, Any, Any]) -> Future[Any]:
        """Start a coroutine there."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine there and return its result."""
        return self.submit(coroutine).result(PATIENCE)

    def settle(self) -> None:
        """Let everything that is ready in the loop run."""

        async def turns() -> None:
            for _ in range(10):
                await asyncio.sleep(0)

        self.run(turns())

    def close(self) -> None:
        """Cancel what runs there, stop the loop and close it."""
        if self.loop.is_closed():
            return

        async def cancel_all() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        self.run(cancel_all())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE)
        self.loop.close()


class ThreadFace:
    """A ``Ticker``, each receive in a thread of its own."""

    name = "thread"
    ticker_class = Ticker

    def ticker(self, *args: Any, **options: Any) -> Ticker:
        return Ticker(*args, **options)

    def start_receive(self, ticker: Any, timeout: Any = None) -> Future[Any]:
        """Begin to receive; the future has the tick or the error."""
        return in_thread(ticker.receive, timeout)

    def receive(self, ticker: Any, timeout: Any = None) -> Any:
        """Receive a tick that needs no wait, or fail."""
        return self.start_receive(ticker, timeout).result(PATIENCE)

    def iterate(self, ticker: Any) -> Future[list[Any]]:
        """Begin to iterate; the future has the list of all ticks."""
        return in_thread(list, ticker)

    def wait_for_waiting(self, clock: ManualClock, count: int = 1) -> None:
        """Block until ``count`` readers wait on ``clock``."""
        clock.wait_for_parked(count)

    def settle(self) -> None:
        """Nothing to do: the tests of this face wait for parked threads and results."""

    def close(self) -> None:
        """Nothing to do."""


class LoopFace:
    """An ``AsyncTicker``, each receive in a task of one event loop, in debug mode."""

    name = "loop"
    ticker_class = AsyncTicker

    def __init__(self) -> None:
        self.thread = LoopThread()

    def ticker(self, *args: Any, **options: Any) -> AsyncTicker:
        return AsyncTicker(*args, **options)

    def start_receive(self, ticker: Any, timeout: Any = None) -> Future[Any]:
        return self.thread.submit(ticker.receive(timeout))

    def receive(self, ticker: Any, timeout: Any = None) -> Any:
        return self.start_receive(ticker, timeout).result(PATIENCE)

    def iterate(self, ticker: Any) -> Future[list[Any]]:
        async def collect() -> list[Any]:
            return [tick async for tick in ticker]

        return self.thread.submit(collect())

    def wait_for_waiting(self, clock: ManualClock, count: int = 1) -> None:
        eventually(lambda: self._parked() >= count, f"{count} coroutines wait")

    def _parked(self) -> int:
        async def count() -> int:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            return sum(getattr(task, "_fut_waiter", None) is not None for task in tasks)

        return self.thread.run(count())

    def settle(self) -> None:
        self.thread.settle()

    def close(self) -> None:
        self.thread.close()
        assert self.thread.errors == []

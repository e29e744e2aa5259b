"""Runs of trio on the time of a virtual clock: the twins of what the tests have for asyncio."""

import asyncio
import math
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from contextvars import copy_context

import trio

from backoff_ticker import SystemClock, current_clock
from backoff_ticker.waiting import current_loop
from backoff_ticker.waiting._trio_clock import TrioClock
from backoff_ticker.waiting._trio_run import TrioRun
from tests.helpers import PATIENCE, in_thread


class VirtualTime(trio.abc.Clock):
    """The time of a virtual clock for one run, whose thread is parked while no task can run."""

    def __init__(self, clock):
        self._kernel = clock._kernel
        self._parker = clock.parker("trio")
        self._slept_until = -math.inf  # up to half a nanosecond ahead
        call_at = type(clock).call_at.__get__(clock)

        def call_in_run_at(when, callback, *, loop=None):
            if not isinstance(loop, TrioRun):
                return call_at(when, callback, loop=loop)
            return TrioClock(self, loop).call_at(when, callback, loop=loop)

        clock.call_at = call_in_run_at

    def start_clock(self):
        wakeup = trio._core._run.GLOBAL_RUN_CONTEXT.runner.entry_queue.wakeup
        wake = wakeup.wakeup_thread_and_signal_safe

        def wake_and_unpark():
            wake()
            self._parker.unpark()

        wakeup.wakeup_thread_and_signal_safe = wake_and_unpark

    def current_time(self):
        return max(self._kernel.seconds, self._slept_until)

    def deadline_to_sleep_time(self, deadline):
        """Sleep until then; trio asks when no task can run."""
        if deadline > self.current_time() and not self._parker.park(round(deadline, 9)):
            self._slept_until = deadline
        return 0


def _run(main):
    clock = current_clock()
    return trio.run(main, clock=None if clock is SystemClock() else VirtualTime(clock))


def in_trio(coroutine):
    """Run a coroutine in trio."""

    async def main():
        return await coroutine

    return _run(main)


async def cancel_soon(coroutine, turns):
    """Await a coroutine that is cancelled after some turns; then raise what asyncio raises."""
    scope = trio.CancelScope()

    async def cancel():
        for _ in range(turns):
            await trio.lowlevel.checkpoint()
        scope.cancel()

    trio.lowlevel.spawn_system_task(cancel)
    with scope:
        return await coroutine
    raise asyncio.CancelledError


class TrioThread:
    """A run of trio in a thread of its own, as ``LoopThread`` is one of an event loop."""

    def __init__(self):
        self.errors = []  # what goes wrong in the run is raised by close()
        started = Future()
        self._run = in_thread(_run, lambda: self._wait_for_work(started))
        started.result(PATIENCE)

    async def _wait_for_work(self, started):
        async with trio.open_nursery() as self._nursery:
            self._token = trio.lowlevel.current_trio_token()
            self.loop = current_loop()
            started.set_result(None)
            await trio.sleep_forever()

    def submit(self, coroutine):
        """Start a coroutine there, in the context of this call; it is cancelled with the future."""
        future, scope = Future(), trio.CancelScope()

        async def work():
            with scope, suppress(InvalidStateError):  # it was cancelled meanwhile
                try:
                    future.set_result(await coroutine)
                except trio.Cancelled:
                    future.cancel()
                    raise
                except BaseException as error:
                    future.set_exception(error)

        def cancel(_):
            if future.cancelled():
                self._token.run_sync_soon(scope.cancel)

        future.add_done_callback(cancel)
        self._token.run_sync_soon(copy_context().run, self._nursery.start_soon, work)
        return future

    def run(self, coroutine):
        """Run a coroutine there and return its result."""
        return self.submit(coroutine).result(PATIENCE)

    def close(self):
        """Cancel what runs there, and wait for the end of the run."""
        if not self._run.done():
            self._token.run_sync_soon(self._nursery.cancel_scope.cancel)
        self._run.result(PATIENCE)

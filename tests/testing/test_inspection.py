"""What a test can see of a clock: ``pending()``, ``block_until()``."""

from __future__ import annotations

import asyncio
import threading

import pytest

from backoff_ticker.testing import SettleTimeout, VirtualClock

from .real_threads import in_real_thread


def test_pending_tells_what_is_due(clock):
    clock.call_at(3.0, lambda: None).cancel()
    clock.call_at(2.0, int)
    clock.spawn(clock.sleep, 1)
    clock.settle()
    first, second = clock.pending()
    assert (first.when, first.what, first.owner) == (1.0, "sleep()", "sleep-1")
    assert (second.when, second.what, second.owner) == (2.0, "call of int", None)
    clock.advance(1)


def test_pending_lists_the_timers_of_each_loop(clock):
    async def sleep_twice():
        gone = asyncio.create_task(asyncio.sleep(2))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.gather(asyncio.sleep(3), asyncio.sleep(1), return_exceptions=True)

    clock.call_at(2, print)
    loop = threading.Thread(target=asyncio.run, args=(sleep_twice(),), name="loop")
    loop.start()
    thread = clock.spawn(clock.sleep, 4)
    clock.settle()
    assert [(info.when, info.owner) for info in clock.pending()] == [
        (1, "loop"),
        (2, None),
        (3, "loop"),
        (4, thread.name),
    ]
    clock.block_until(timers=4)
    clock.advance(4)
    assert clock.pending() == []


def test_block_until_waits_for_threads_that_nobody_tracks():
    with VirtualClock(strict=False) as clock:
        thread = in_real_thread(lambda: clock.sleep(5))
        clock.block_until(timers=1)
        clock.advance(5)
        thread.join(10)
        with pytest.raises(SettleTimeout, match=r"block_until\(timers=1\): only 0 timers"):
            clock.block_until(timers=1, timeout=0.05)


def test_threads_that_are_not_tracked_are_waited_for_too():
    with VirtualClock(strict=False) as clock:
        thread = in_real_thread(lambda: clock.sleep(3))
        clock.block_until(parked=1)
        clock.advance(3)
        thread.join(10)


def test_timers_in_a_loop_are_named_after_what_they_call(clock):
    async def main():
        loop = asyncio.get_running_loop()
        clock.call_at(5.0, named_so, loop=loop)
        await asyncio.sleep(6)

    def named_so():
        pass

    loop = clock.spawn(lambda: asyncio.run(main()))
    clock.settle()
    assert clock.pending()[0].what.endswith("named_so")
    clock.advance(6)
    loop.join()

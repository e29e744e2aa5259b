"""What a test can see of a clock, and hold: ``pending()``, ``block_until()``, ``trap()``."""

import asyncio
import threading

import pytest

from backoff_ticker.testing import SettleTimeout, VirtualClock

from .real_threads import RealThread


def test_pending_lists_the_timers_of_each_loop(clock):
    def named_so():
        pass

    async def sleep_twice():
        cancelled = asyncio.create_task(asyncio.sleep(2))
        await asyncio.sleep(0)
        cancelled.cancel()
        clock.call_at(3, named_so, loop=asyncio.get_running_loop())
        assert clock.call_at(2, print, loop=asyncio.get_running_loop()).cancel()
        await asyncio.gather(asyncio.sleep(5), asyncio.sleep(1), return_exceptions=True)

    clock.call_at(2, print)
    threading.Thread(target=asyncio.run, args=(sleep_twice(),), name="loop").start()
    thread = clock.spawn(clock.sleep, 4)
    clock.settle()
    pending = clock.pending()
    assert [(info.when, info.owner) for info in pending] == [
        (1, "loop"),
        (2, None),
        (3, "loop"),
        (4, thread.name),
        (5, "loop"),
    ]
    assert pending[2].what.endswith("named_so")
    clock.block_until(timers=5)
    clock.advance(5)
    assert clock.pending() == []


@pytest.mark.parametrize("condition", ["timers", "parked"])
def test_block_until_waits_for_untracked_threads(condition):
    with VirtualClock(strict=False) as clock:
        thread = RealThread(lambda: clock.sleep(5))
        clock.block_until(**{condition: 1})
        clock.advance(5)
        thread.join(10)
        with pytest.raises(
            SettleTimeout, match=rf"block_until\(.*{condition}=1.*: only \[\] and 0"
        ):
            clock.block_until(**{condition: 1}, timeout=0.01)


def test_a_trap_holds_a_call_between_two_reads(clock):
    with clock.trap("monotonic") as trap:
        elapsed = clock.spawn(lambda: -clock.monotonic() + clock.monotonic())
        trap.wait().release()
        second = trap.wait()
        clock.advance(5)
        second.release()
        second.release()
        assert elapsed.result() == 5.0
        with pytest.raises(SettleTimeout, match=r"no call of monotonic\(\) came"):
            trap.wait()


def test_a_trap_holds_calls_that_match_and_releases_them_when_it_is_closed(clock):
    with clock.trap("call_at", lambda when, callback: when > 5) as trap:
        clock.spawn(lambda: [clock.call_at(when, int) for when in (1, 9)])
        call = trap.wait()
        assert (call.args[0], [info.when for info in clock.pending()]) == (9, [1.0])
    clock.settle()
    assert [info.when for info in clock.pending()] == [1.0, 9.0]

"""Event loops as participants."""

import asyncio
import queue
import socket
import threading
from contextlib import closing
from types import new_class

import pytest

from backoff_ticker.testing import UntrackedLoopError, VirtualClock
from tests.helpers import PATIENCE

from .real_threads import RealThread


def test_a_new_loop_has_the_clocks_time_at_once(auto):
    auto.sleep(7)
    for make in (auto.new_event_loop, asyncio.new_event_loop):
        loop = make()
        fired = []
        assert loop.time() == auto.monotonic()
        due = loop.time() + 1.0
        loop.call_later(1, lambda: fired.append(loop.time()))
        loop.run_until_complete(asyncio.sleep(2))
        assert fired == [due]
        loop.close()


def test_a_loop_that_is_woken_early_waits_again_for_the_same_time(auto):
    loops = queue.SimpleQueue()

    async def main():
        loops.put(asyncio.get_running_loop())
        await asyncio.sleep(10)

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    auto.sleep(1)
    loop = loops.get()
    for _ in range(5):
        loop.call_soon_threadsafe(int)
        auto.sleep(1)
    assert [info.when for info in auto.pending()] == [10.0]
    thread.join()
    assert auto.monotonic() == 10.0


def test_a_large_start_spins_no_loop():
    with VirtualClock(start=1.7e9, auto=True):
        asyncio.run(asyncio.sleep(1e-9))


def test_ten_tenths_are_one(auto):
    async def main():
        for _ in range(10):
            await asyncio.sleep(0.1)

    asyncio.run(main())
    assert auto.monotonic() == 1.0


def test_a_deadline_between_two_nanoseconds_passes(auto):
    """anyio and the keep-alive of aiohttp's server look at the time, and ask again."""

    def look():
        if loop.time() < deadline:
            loop.call_at(deadline, look)
        else:
            loop.stop()

    loop, deadline = auto.new_event_loop(), 0.1 + 0.2
    look()
    loop.run_forever()
    assert auto.monotonic() == 0.3 < loop.time() == deadline
    loop.run_until_complete(asyncio.sleep(0.7))
    assert auto.monotonic() == loop.time() == 1.0
    loop.close()


def test_a_sleep_of_what_is_left_passes_time(auto):
    async def main():
        await asyncio.sleep(0.1)
        deadline = auto.monotonic() + 0.2
        while (left := deadline - auto.monotonic()) > 0:
            await asyncio.sleep(left)

    asyncio.run(main())
    assert auto.monotonic() == 0.300000001


def test_loops_that_are_closed_leave_nothing_behind(auto):
    for _ in range(20):
        asyncio.run(asyncio.sleep(0))
    assert len(auto._kernel.loops) <= 2


def test_a_loop_fires_what_became_due_while_it_did_not_run():
    with VirtualClock(auto=True, settle_timeout=1) as clock:
        called = []
        loop = asyncio.new_event_loop()
        loop.call_later(1, called.append, 1)
        clock.sleep(1)
        loop.run_until_complete(asyncio.sleep(0.5))
        loop.close()
    assert called == [1]


def test_a_call_just_before_a_loop_waits_is_not_lost(auto):
    """As from a signal handler, or a thread that no clock tracks."""

    async def main():
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        driver = loop._selector
        select = driver.select

        def select_late(timeout):
            driver.select = select
            loop.call_soon_threadsafe(answer.set_result, 7)
            return select(timeout)

        driver.select = select_late
        return await answer

    assert asyncio.run(main()) == 7


def test_a_loop_that_waits_for_a_real_descriptor_is_in_no_deadlock(auto):
    mine, yours = socket.socketpair()

    def answer():
        auto.block_until(parked=1)
        yours.sendall(b"hello")

    async def main():
        reader, writer = await asyncio.open_connection(sock=mine)
        thread = RealThread(answer)
        answered = await reader.readexactly(5)
        writer.close()
        await writer.wait_closed()
        thread.join(PATIENCE)
        return answered

    with closing(yours):
        assert asyncio.run(main()) == b"hello"


def test_a_loop_of_a_closed_clock_runs_in_real_time():
    with VirtualClock() as clock:
        loop = clock.new_event_loop()
    assert loop.run_until_complete(asyncio.sleep(0.001, "slept")) == "slept"
    loop.close()


class _ForeignBase:
    """Like the base of uvloop's class: it only notes what it would do."""

    def __init__(self):
        self.done = []

    def run_forever(self):
        self.done.append("ran")

    def run_until_complete(self, work):
        self.done.append(work)

    def close(self):
        self.done.append("closed")


class Foreign(_ForeignBase, asyncio.AbstractEventLoop):
    """A loop that is no ``BaseEventLoop``, and has its own time."""


def test_a_loop_that_is_not_asyncios_runs_outside_the_clock_only():
    before, loop = dict(vars(Foreign)), Foreign()
    with VirtualClock() as clock:
        late = new_class("ForeignImportedLate", (_ForeignBase, asyncio.AbstractEventLoop))()

        def run():
            for refused in (
                loop.run_forever,
                late.run_forever,
                lambda: loop.run_until_complete("refused"),
            ):
                with pytest.raises(UntrackedLoopError, match=r"asyncio's own loops .*, not <.*For"):
                    refused()

        run()
        clock.spawn(run).result()
        RealThread(lambda: loop.run_until_complete("in a thread of nobody's")).join(PATIENCE)
    with VirtualClock(auto=True, strict=False):
        loop.run_until_complete("if not strict")
    loop.run_forever()
    assert loop.done == ["in a thread of nobody's", "if not strict", "ran"]
    assert dict(vars(Foreign)) == before


@pytest.mark.parametrize(("start", "passed"), [(0.1, 1e9 + 0.3), (1e9 + 0.3, 5.1)])
def test_a_loop_with_timers_from_before_does_not_wait_for_a_rounding_error(start, passed):
    loop = asyncio.new_event_loop()
    loop.time = lambda: passed
    fired = []
    for n in range(200):
        loop.call_later(n * 0.1, fired.append, n)
    loop.call_later(30, loop.stop)
    with VirtualClock(start=start, auto=True, settle_timeout=0.5):
        loop.run_forever()
    assert fired == list(range(200))
    loop.close()

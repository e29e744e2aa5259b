"""What a virtual clock must get right, each time, under hostile thread switching."""

import asyncio
import queue
import sys
import threading

import pytest

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    ConstantBackOff,
    DeadlineExceeded,
    Ticker,
)
from backoff_ticker.testing import UntrackedLoopError, UntrackedThreadError, VirtualClock
from tests import effort

from .one_scene import TRACE, one_scene

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("hostile_switching")]


@pytest.mark.parametrize("threads", [1, 5])
def test_each_ticker_of_a_second_ticks_at_0_and_each_of_ten_seconds(threads):
    for _ in range(effort.rounds(20, 1000)):
        with VirtualClock() as clock:
            ticks = [[] for _ in range(threads)]
            token = CancellationToken()

            def work(seen, token=token):
                for tick in Ticker(ConstantBackOff(1), token=token):
                    seen.append(tick.due)

            for seen in ticks:
                threading.Thread(target=work, args=(seen,)).start()
            clock.advance(10)
            token.cancel()
            clock.settle()
            assert ticks == [[float(n) for n in range(11)]] * threads


def test_the_trace_of_a_scene_is_the_same_on_every_interpreter():
    for run in range(effort.rounds(5, 200)):
        sys.setswitchinterval(1e-6 if run % 2 else 5e-3)
        assert "\n".join(one_scene()) == TRACE.strip()


def test_a_hand_off_from_a_thread_to_a_loop_never_times_out():
    for _ in range(effort.rounds(20, 500)):
        with VirtualClock(auto=True) as clock:

            async def main(clock=clock):
                loop = asyncio.get_running_loop()
                arrived = loop.create_future()
                threading.Thread(
                    target=lambda: loop.call_soon_threadsafe(arrived.set_result, 7)
                ).start()
                async with asyncio.timeout(30):
                    assert await arrived == 7

                async def answer():
                    return 8

                def ask():
                    return asyncio.run_coroutine_threadsafe(answer(), loop).result(30)

                assert await asyncio.to_thread(ask) == 8
                assert clock.monotonic() == 0.0

            asyncio.run(main())


def test_a_deadline_cancels_threads_and_tasks_at_exactly_its_time():
    for _ in range(effort.rounds(10, 500)):
        with VirtualClock(auto=True) as clock:
            token = CancellationToken().child(timeout=5)
            seen = []

            def in_thread(token=token, clock=clock, seen=seen):
                ended = list(Ticker(ConstantBackOff(100), token=token))
                seen.append(("thread", clock.monotonic(), len(ended), type(token.cause)))

            async def main(token=token, clock=clock, seen=seen):
                ended = [tick async for tick in AsyncTicker(ConstantBackOff(100), token=token)]
                seen.append(("task", clock.monotonic(), len(ended), type(token.cause)))

            thread = clock.spawn(in_thread)
            asyncio.run(main())
            thread.join()
            assert sorted(seen) == [
                ("task", 5.0, 1, DeadlineExceeded),
                ("thread", 5.0, 1, DeadlineExceeded),
            ]


def test_an_untracked_thread_is_refused_and_tracked_makes_it_a_participant():
    ready, seen = queue.SimpleQueue(), queue.SimpleQueue()

    def foreign():
        while (job := ready.get()) is not None:
            try:
                seen.put(job())
            except Exception as error:
                seen.put(error)

    worker = threading.Thread(target=foreign)
    worker.start()
    with VirtualClock() as clock:
        ready.put(lambda: clock.sleep(1))
        assert isinstance(seen.get(timeout=10), UntrackedThreadError)
        ready.put(clock.tracked(lambda: clock.sleep(1) or clock.monotonic()))
        clock.advance(1)  # counted from tracked() on, though the thread may not have begun it
        assert seen.get(timeout=10) == 1.0
    ready.put(None)
    worker.join()


def test_a_loop_in_real_time_is_refused():
    async def main():
        with pytest.raises(UntrackedLoopError, match="runs already"):
            VirtualClock().__enter__()
        clock = VirtualClock()
        ticker = AsyncTicker(ConstantBackOff(1), clock=clock)
        await ticker.receive()
        with pytest.raises(UntrackedLoopError, match="does not drive it"):
            await ticker.receive()
        clock.close()

    asyncio.run(main())

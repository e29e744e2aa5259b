"""What a virtual clock must get right, each time, under hostile thread switching."""

import asyncio
import queue
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from backoff_ticker import AsyncTicker, CancellationToken, Channel, ConstantBackOff, Ticker
from backoff_ticker.testing import UntrackedLoopError, UntrackedThreadError, VirtualClock
from tests import effort

from .real_threads import RealThread

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("hostile_switching")]

TRACE = """
0 thread 1: tick 1
0 thread 2: tick 1
0 receiver 1: thread 1's 1
0 receiver 2: thread 2's 1
0 task 1: tick 1
0 task 2: tick 1
0 job 1: begins
0 job 2: begins
1 callback: runs
1 task 1: tick 2
1 task 2: tick 2
1 task 1's thread: runs
1 task 2's thread: runs
1 taker 1: item of job 1
1 taker 2: item of job 2
2 callback: runs
2 thread 1: tick 2
2 receiver 1: thread 1's 2
2 loop: answers asker
2 asker: answer
2 thread 2: tick 2
2 receiver 2: thread 2's 2
2 task 1: tick 3
2 task 2: tick 3
2 job 1: ends
2 job 3: begins
2 job 2: ends
3 callback: runs
3 task 1: tick 4
3 task 2: tick 4
3 taker 1: item of job 3
4 thread 1: tick 3
4 receiver 1: thread 1's 3
4 thread 2: tick 3
4 receiver 2: thread 2's 3
4 task 1: tick 5
4 task 2: tick 5
4 job 3: ends
4 driver: cancels
4 driver: ['job 1', 'job 2', 'job 3']
4 task 1: ends
4 task 2: ends
4 receiver 1: ends
4 receiver 2: ends
4 thread 1: enough
4 taker 2: end
4 thread 2: enough
4 taker 1: end
4 driver: ends
"""
"""The complete trace: the same in each run, on each interpreter, with its lock and without."""


def one_scene():
    """Let threads, a pool and two loops hand over to each other; return who ran when, in order."""
    trace = []
    with VirtualClock(auto=True, patch_time=True) as clock:
        token, channel = CancellationToken(), Channel[str](1)
        items = queue.Queue()

        def note(who, what):
            trace.append(f"{clock.monotonic():g} {who}: {what}")

        def tick(who):
            for tick in Ticker(ConstantBackOff(2), token=token):
                note(who, f"tick {tick.number}")
                channel.send(f"{who}'s {tick.number}")
            note(who, token.cause)

        def take(who):
            while (item := items.get()) != "end":
                note(who, item)
            items.put(item)
            note(who, item)

        def work(who):
            note(who, "begins")
            clock.sleep(1)
            items.put(f"item of {who}")
            token.wait(1)
            note(who, "ends")
            return who

        async def receive(who):
            async for item in channel:
                note(who, item)
                if await token.wait_async(0.5):
                    break
            note(who, "ends")

        async def tick_async(who):
            async for tick in AsyncTicker(ConstantBackOff(1), token=token):
                note(who, f"tick {tick.number}")
                if tick.number == 2:
                    await asyncio.to_thread(note, f"{who}'s thread", "runs")
            note(who, "ends")

        async def answer(who):
            await asyncio.sleep(1)
            note("loop", f"answers {who}")
            return "answer"

        def ask(who, loop):
            clock.sleep(1)
            note(who, asyncio.run_coroutine_threadsafe(answer(who), loop).result())

        async def first_loop():
            asker = clock.spawn(ask, "asker", asyncio.get_running_loop())
            async with asyncio.TaskGroup() as group:
                for name in ("receiver 1", "receiver 2"):
                    group.create_task(receive(name))
            asker.join(0)

        async def second_loop():
            await asyncio.gather(tick_async("task 1"), tick_async("task 2"))

        for when in (1, 2, 3):
            clock.call_at(when, lambda: note("callback", "runs"))
        threads = [threading.Thread(target=take, args=(f"taker {n}",)) for n in (1, 2)]
        threads += [threading.Thread(target=tick, args=(f"thread {n}",)) for n in (1, 2)]
        threads += [threading.Thread(target=asyncio.run, args=(first_loop(),))]
        threads += [threading.Thread(target=asyncio.run, args=(second_loop(),))]
        for thread in threads:
            thread.start()
        with ThreadPoolExecutor(2) as pool:
            jobs = [pool.submit(work, f"job {n}") for n in (1, 2, 3)]
            clock.sleep(4)
            note("driver", "cancels")
            token.cancel("enough")
            items.put("end")
            note("driver", [job.result() for job in jobs])
        for thread in threads:
            thread.join()
        note("driver", "ends")
    return trace


def test_the_trace_of_a_scene_is_the_same_on_every_interpreter():
    for run in range(effort.rounds(5, 200)):
        sys.setswitchinterval(1e-6 if run % 2 else 5e-3)
        assert "\n".join(one_scene()) == TRACE.strip()


def test_an_untracked_thread_is_refused_and_tracked_makes_it_a_participant():
    with VirtualClock() as clock:
        with pytest.raises(UntrackedThreadError):
            RealThread(lambda: clock.sleep(1)).join(10)
        thread = RealThread(clock.tracked(lambda: clock.sleep(1)))
        assert clock.advance(1) == 1  # counted from tracked() on, though it may not have begun
        thread.join(10)


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

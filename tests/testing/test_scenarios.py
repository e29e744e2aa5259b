"""What a virtual clock must get right, each under hostile thread switching."""

from __future__ import annotations

import asyncio
import queue
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    ConstantBackOff,
    DeadlineExceeded,
    ExponentialBackOff,
    Ticker,
    with_max_retries,
)
from backoff_ticker.testing import (
    ClockLeakError,
    ClockUsageError,
    SettleTimeout,
    UntrackedLoopError,
    UntrackedThreadError,
    VirtualClock,
    VirtualDeadlockError,
)
from tests.helpers import PATIENCE

from .real_threads import in_real_thread

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(autouse=True)
def hostile_switching():
    """Let threads take the interpreter from each other as often as it can be."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def every_second(times=None):
    policy = ConstantBackOff(1.0)
    return policy if times is None else with_max_retries(policy, times)


@pytest.mark.parametrize("threads", [1, 5])
def test_each_ticker_of_a_second_ticks_at_each_of_ten_seconds_and_at_once(threads):
    for _ in range(1000):
        with VirtualClock() as clock:
            ticks = [[] for _ in range(threads)]
            token = CancellationToken()

            def work(seen, token=token):
                for tick in Ticker(every_second(), token=token):
                    seen.append(tick.due)

            for seen in ticks:
                threading.Thread(target=work, args=(seen,)).start()
            clock.advance(10)
            token.cancel()
            clock.settle()
            assert ticks == [[float(n) for n in range(11)]] * threads


def test_sleepers_wake_in_the_order_of_their_times_at_exactly_those():
    for _ in range(200):
        with VirtualClock() as clock:
            seen = []

            def sleep(seconds, clock=clock, seen=seen):
                clock.sleep(seconds)
                seen.append((seconds, clock.monotonic()))

            for seconds in (3, 2, 1):
                clock.spawn(sleep, seconds)
            assert clock.advance(10) == 3
            assert seen == [(1, 1.0), (2, 2.0), (3, 3.0)]
            assert clock.monotonic() == 10.0


def test_what_woken_code_sets_in_the_window_fires_in_the_same_advance():
    for _ in range(200):
        with VirtualClock() as clock:
            seen = []

            def again(clock=clock, seen=seen):
                seen.append(clock.monotonic())
                if len(seen) < 20:
                    clock.call_at(clock.monotonic() + 1.0, again)

            clock.call_at(1.0, again)
            clock.advance(10)
            assert seen == [float(n) for n in range(1, 11)]
            assert len(clock.pending()) == 1


def mixed_log():
    """Return who did what when: five tickers, a pool, two loops, one token."""
    log = []
    with VirtualClock(auto=True) as clock:
        token = CancellationToken()

        def work(name):
            for tick in Ticker(every_second(), token=token):
                log.append((clock.monotonic(), name, tick.number))

        async def one(name):
            async for tick in AsyncTicker(every_second(), token=token):
                log.append((clock.monotonic(), name, tick.number))

        async def some(name):
            await asyncio.gather(*(one(f"{name}{n}") for n in range(3)))

        threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(5)]
        threads += [threading.Thread(target=lambda n=n: asyncio.run(some(n))) for n in "ab"]
        for thread in threads:
            thread.start()
        with ThreadPoolExecutor(2) as pool:
            jobs = [pool.submit(work, f"p{n}") for n in range(2)]
            clock.sleep(20)
            token.cancel()
            for job in jobs:
                job.result()
        for thread in threads:
            thread.join()
    return log


def test_two_hundred_runs_have_the_same_log():
    first = mixed_log()
    assert len(first) == 13 * 21  # the driver, who cancels at 20, comes last at its time
    for _ in range(199):
        assert mixed_log() == first


def test_threads_and_coroutines_interleave_exactly():
    for _ in range(100):
        with VirtualClock(auto=True) as clock:
            seen = []

            def in_thread(clock=clock, seen=seen):
                clock.sleep(5)
                seen.append(("thread", clock.monotonic()))

            async def in_loop(clock=clock, seen=seen):
                async for tick in AsyncTicker(ConstantBackOff(2)):
                    seen.append((f"tick {tick.number}", clock.monotonic()))
                    if tick.number == 4:
                        return

            async def asleep(clock=clock, seen=seen):
                await asyncio.sleep(5)
                seen.append(("task", clock.monotonic()))

            async def main():
                await asyncio.gather(in_loop(), asleep())

            thread = clock.spawn(in_thread)
            asyncio.run(main())
            thread.join()
            assert seen == [
                ("tick 1", 0.0),
                ("tick 2", 2.0),
                ("tick 3", 4.0),
                ("thread", 5.0),
                ("task", 5.0),
                ("tick 4", 6.0),
            ]


def test_a_hand_off_from_a_thread_to_a_loop_never_times_out():
    for _ in range(200):
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


def test_time_stands_still_while_a_job_works():
    for _ in range(50):
        with VirtualClock(auto=True) as clock:

            def work():
                return sum(range(30_000))

            async def main():
                async with asyncio.timeout(1):
                    return await asyncio.to_thread(work)

            assert asyncio.run(main()) == sum(range(30_000))
            assert clock.monotonic() == 0.0


def test_a_deadline_cancels_threads_and_tasks_at_exactly_its_time():
    for _ in range(100):
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


def test_of_cancel_and_fire_exactly_one_happens():
    for _ in range(300):
        with VirtualClock() as clock:
            fired = []
            timer = clock.call_at(1.0, lambda: fired.append(True))
            outcome = []
            # A participant would not race: time would stand still until it had cancelled.
            canceller = in_real_thread(lambda: outcome.append(timer.cancel()))
            clock.advance(2)
            canceller.join(PATIENCE)
            assert outcome == [not fired]


def test_a_cancelled_timer_never_moves_time():
    with VirtualClock(auto=True) as clock:
        clock.call_at(1.0, lambda: None).cancel()
        clock.sleep(0.5)
        assert clock.monotonic() == 0.5
        timer = clock.call_at(100.0, lambda: None)
        clock.call_at(1.0, timer.cancel)
        clock.sleep(1.5)
        assert clock.monotonic() == 2.0
        assert clock.pending() == []


def test_by_hand_then_by_itself_then_by_hand():
    with VirtualClock() as clock:
        seen = []
        clock.call_at(0.0, lambda: seen.append("now"))
        assert clock.advance(0) == 1
        assert seen == ["now"]
        with pytest.raises(ClockUsageError, match=r"by -1\.0: time does not go back"):
            clock.advance(-1.0)
        sleeper = clock.spawn(clock.sleep, 5)
        clock.advance(2)
        assert not sleeper.done()
        with clock.auto_advance():
            sleeper.join()
            assert clock.monotonic() == 5.0
        assert clock.advance(1) == 0
        assert clock.monotonic() == 6.0


def test_ten_tenths_are_one():
    with VirtualClock() as clock:
        fired = []
        clock.call_at(1.0, lambda: fired.append(clock.monotonic()))
        for _ in range(10):
            clock.advance(0.1)
        assert (fired, clock.monotonic()) == ([1.0], 1.0)


def test_participants_that_wait_for_each_other_are_named():
    for _ in range(20):
        with VirtualClock(auto=True, settle_timeout=3600) as clock:  # nobody waits for the watch
            mine, yours = CancellationToken(), CancellationToken()

            def first(mine=mine, yours=yours):
                mine.wait()
                yours.cancel()

            def second(mine=mine, yours=yours):
                yours.wait()
                mine.cancel()

            one, two = clock.spawn(first), clock.spawn(second)
            with pytest.raises(VirtualDeadlockError) as caught:
                one.join()
            assert one.name in str(caught.value)
            assert two.name in str(caught.value)
            assert "token" in str(caught.value).lower()


def test_tasks_that_wait_for_each_other_are_told_where_they_wait():
    with VirtualClock(auto=True):
        caught = []

        async def waits():
            try:
                await asyncio.Event().wait()
            except VirtualDeadlockError as error:
                caught.append(str(error))
                raise

        async def main():
            await asyncio.gather(waits(), waits(), return_exceptions=True)

        asyncio.run(main())
        assert len(caught) == 2
        assert "event loop" in caught[0]


def test_a_participant_that_is_stuck_is_named_with_its_place():
    with pytest.raises(ClockLeakError):  # noqa: SIM117 - it is still stuck at the end
        with VirtualClock(settle_timeout=0.3) as clock:
            foreign = queue.Queue()

            def stuck():
                foreign.get()

            thread = threading.Thread(target=stuck, name="stuck", daemon=True)
            thread.start()
            with pytest.raises(SettleTimeout) as caught:
                clock.advance(3)
            assert "'stuck'" in str(caught.value)
            assert "queue.py" in str(caught.value)
            assert "stuck()" in str(caught.value)
    foreign.put(None)
    thread.join(10)


def test_a_thread_that_is_not_tracked_is_told_so_and_tracked_mends_it():
    ready = queue.SimpleQueue()
    seen = queue.SimpleQueue()

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
        clock.advance(1)  # counted as it was made, though nobody may have begun it yet
        assert seen.get(timeout=10) == 1.0
    ready.put(None)
    worker.join()


def test_a_loop_that_is_not_driven_is_told_so():
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


def test_the_two_clocks_agree_throughout_half_an_hour_of_retries():
    with VirtualClock(auto=True) as clock:
        walls = set()
        policy = ExponentialBackOff(max_elapsed_time=1800, max_interval=60)

        def retry():
            for _ in Ticker(policy):
                walls.add(clock.time() - clock.monotonic())

        retry()
        assert 1700 < clock.monotonic() <= 1800
        assert walls == {1_700_000_000.0}


def test_what_is_left_is_ended_and_named():
    before = set(threading.enumerate())
    with pytest.raises(ClockLeakError) as caught:  # noqa: SIM117
        with VirtualClock() as clock:
            token = CancellationToken()
            for n in range(50):
                threading.Thread(target=token.wait, name=f"sleeper-{n}").start()

            async def many():
                await asyncio.gather(*(token.wait_async() for _ in range(50)))

            threading.Thread(target=lambda: asyncio.run(many()), name="loop").start()
            clock.advance(1)
    assert "51 participants still waited" in str(caught.value)
    assert "sleeper-49" in str(caught.value)
    assert "loop: event loop" in str(caught.value)
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
    assert set(threading.enumerate()) <= before


def test_two_clocks_at_once_know_nothing_of_each_other():
    def half(seconds, seen):
        with VirtualClock() as clock:
            thread = threading.Thread(target=lambda: [clock.sleep(1) for _ in range(seconds)])
            thread.start()
            for _ in range(seconds):
                clock.advance(1)
            thread.join()
            seen.append(clock.monotonic())

    for _ in range(20):
        seen = []
        threads = [threading.Thread(target=half, args=(n, seen)) for n in (10, 20, 30)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert sorted(seen) == [10.0, 20.0, 30.0]


def test_a_callback_may_call_any_method_that_does_not_wait():
    with VirtualClock() as clock:
        seen = []

        def callback():
            clock.call_at(2.0, lambda: seen.append(clock.monotonic()))
            clock.pending()
            clock.monotonic(), clock.time()
            seen.append(clock.monotonic())

        clock.call_at(1.0, callback)
        clock.advance(3)
        assert seen == [1.0, 2.0]
        clock.call_at(4.0, lambda: clock.sleep(1))
        with pytest.raises(ClockUsageError, match="a timer callback must not block"):
            clock.advance(3)

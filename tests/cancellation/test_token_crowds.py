"""One token for many threads and coroutines in several loops, some of them closed or stopped."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import AsyncTicker, CancellationToken, Cancelled, ConstantBackOff, Ticker
from tests.effort import rounds
from tests.helpers import PATIENCE, LoopThread, collect_garbage, eventually, in_thread, waiters_of
from tests.stress.tools import join_all, start_threads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backoff_ticker.testing import VirtualClock


HOUR = 3600.0


def waiting(token: CancellationToken) -> int:
    return len(waiters_of(token._wait_set()))


@pytest.fixture
def loops(clock: VirtualClock) -> Iterator[list[LoopThread]]:
    """Three loops, each in a thread of its own, in which nothing may go wrong."""
    made = [LoopThread() for _ in range(3)]
    yield made
    for loop in made:
        loop.close()
    collect_garbage()
    assert [loop.errors for loop in made] == [[], [], []]


async def start(token: CancellationToken, count: int) -> list[asyncio.Task[Any]]:
    """Start coroutines that wait for ``token`` in the running loop, each in its own way."""

    async def scoped() -> bool:
        try:
            async with token.scope():
                await asyncio.get_running_loop().create_future()
        except Cancelled:
            return True
        return False

    ways = [token.wait_async, lambda: token.child().wait_async(3600), scoped]
    return [asyncio.create_task(ways[number % 3]()) for number in range(count)]


def stop(clock: VirtualClock, loop: LoopThread) -> None:
    """Stop a loop as it stands, with whatever waits in it."""
    loop.loop.call_soon_threadsafe(loop.loop.stop)
    clock.settle()
    assert not loop.loop.is_running()


def abandon(tasks: list[asyncio.Task[Any]]) -> None:
    """Let pending tasks be collected without a word of asyncio about it."""
    for task in tasks:
        task._log_destroy_pending = False  # type: ignore[attr-defined]


async def all_of(tasks: list[asyncio.Task[Any]]) -> list[Any]:
    return await asyncio.gather(*tasks)


def test_one_cancel_wakes_100_threads_and_100_coroutines_though_a_loop_was_closed_under_them(
    clock: VirtualClock, loops: list[LoopThread]
) -> None:
    closed = 1
    token = CancellationToken(clock=clock)
    tasks = [loop.run(start(token, count)) for loop, count in zip(loops, (34, 33, 33), strict=True)]
    threads = [in_thread(token.wait) for _ in range(50)]
    threads += [in_thread(token.child().wait, 3600) for _ in range(50)]
    clock.settle()
    stop(clock, loops[closed])
    loops[closed].loop.close()

    assert token.cancel("all") is True

    assert [thread.result(PATIENCE) for thread in threads] == [True] * 100
    for number in {0, 1, 2} - {closed}:
        assert set(loops[number].run(all_of(tasks[number]))) == {True}
    assert [task.done() for task in tasks[closed]] == [False] * len(tasks[closed])
    abandon(tasks[closed])
    tasks.clear()
    collect_garbage()
    assert waiters_of(token._wait_set()) == []


def test_a_loop_that_is_stopped_holds_up_nobody_and_wakes_its_own_when_it_runs_again(
    clock: VirtualClock, loops: list[LoopThread]
) -> None:
    token = CancellationToken(clock=clock)
    tasks = [loop.run(start(token, 9)) for loop in loops]
    thread = in_thread(token.wait)
    clock.settle()
    stop(clock, loops[0])
    token.cancel()
    assert thread.result(PATIENCE) is True
    for loop, waiting in list(zip(loops, tasks, strict=True))[1:]:
        assert set(loop.run(all_of(waiting))) == {True}
    resumed = in_thread(loops[0].loop.run_forever)
    assert set(loops[0].run(all_of(tasks[0]))) == {True}
    stop(clock, loops[0])
    resumed.result(PATIENCE)
    loops[0].loop.close()


def test_a_cancel_within_one_of_the_loops_wakes_the_others(
    clock: VirtualClock, loops: list[LoopThread]
) -> None:
    token = CancellationToken(clock=clock)
    tasks = [loop.run(start(token, 30)) for loop in loops]
    threads = [in_thread(token.wait) for _ in range(10)]
    clock.settle()

    async def cancel() -> bool:
        return token.cancel("inside")

    assert loops[1].run(cancel()) is True
    assert [thread.result(PATIENCE) for thread in threads] == [True] * 10
    for loop, waiting in zip(loops, tasks, strict=True):
        assert set(loop.run(all_of(waiting))) == {True}


def test_a_deadline_wakes_threads_and_loops_and_calls_back(
    clock: VirtualClock, loops: list[LoopThread]
) -> None:
    token = CancellationToken(clock=clock).child(timeout=5)
    waits: list[Any] = [in_thread(token.wait) for _ in range(10)]
    waits += [loop.submit(token.wait_async()) for loop in loops[:2]]
    clock.settle()
    runs: list[str] = []
    token.on_cancel(lambda: runs.append("ran"))
    clock.advance(5)
    assert [wait.result(PATIENCE) for wait in waits] == [True] * 12
    assert (runs, len(clock.pending())) == (["ran"], 0)


def test_a_token_that_was_cancelled_is_seen_by_loops_that_come_later() -> None:
    token = CancellationToken()
    token.cancel()
    for _ in range(3):
        assert asyncio.run(token.wait_async()) is True
    assert waiters_of(token._wait_set()) == []


def test_loops_that_come_and_go_leave_nothing_with_the_token() -> None:
    token = CancellationToken()

    async def give_up() -> None:
        task = asyncio.create_task(token.wait_async())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    for _ in range(rounds(50, 1_000)):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(give_up())
        loop.close()
    assert waiters_of(token._wait_set()) == []
    assert token.cancel() is True


# In real time


@pytest.mark.slow
def test_a_cancel_wakes_1000_threads() -> None:
    token = CancellationToken()
    before = threading.stack_size(128 * 1024)
    try:
        threads = start_threads(1000, lambda _: token.wait())
    finally:
        threading.stack_size(before)
    eventually(lambda: waiting(token) == 1000, "all wait")
    token.cancel()
    join_all(threads)
    assert waiting(token) == 0


def test_a_cancel_that_meets_waiters_who_come_and_go_leaves_nobody_behind() -> None:
    """Waiters with time-outs of their own leave while the wake-ups are passed on."""
    for _ in range(rounds(3, 20)):
        token = CancellationToken()

        def wait(index: int, token: CancellationToken = token) -> None:
            if index % 3 == 0:
                token.wait()
            elif index % 3 == 1:
                while not token.wait(0.0005 * (index % 5)):
                    pass
            else:
                list(Ticker(ConstantBackOff(0.0005), token=token))

        threads = start_threads(24, wait)
        time.sleep(0.005)
        token.cancel()
        join_all(threads)
        assert waiting(token) == 0


@pytest.mark.slow
def test_1000_waiting_tickers_use_no_cpu() -> None:
    token = CancellationToken()
    loop = LoopThread(debug=False)
    shared = Ticker(ConstantBackOff(HOUR), token=token)
    shared.receive()

    def read(index: int) -> None:
        for _ in shared if index % 10 == 0 else Ticker(ConstantBackOff(HOUR), token=token):
            pass

    threads = start_threads(200, read)
    woken: list[int] = []

    async def wait() -> None:
        async for _ in AsyncTicker(ConstantBackOff(HOUR), token=token):
            pass
        woken.append(1)

    async def main() -> None:
        await asyncio.gather(*(wait() for _ in range(800)))

    many = loop.submit(main())
    eventually(lambda: waiting(token) == 1000, "all wait")
    eventually(process_is_idle, "the start is over")
    before = time.process_time()
    time.sleep(1.0)
    used = time.process_time() - before
    token.cancel()
    join_all(threads)
    many.result(PATIENCE)
    loop.close()
    assert used < 0.02


def process_is_idle() -> bool:
    before = time.process_time()
    time.sleep(0.05)
    return time.process_time() - before < 0.005


def test_tickers_without_a_reader_leave_no_thread_when_their_token_is_cancelled() -> None:
    before = threading.active_count()
    token = CancellationToken()
    tickers = [Ticker(ConstantBackOff(0.001), token=token) for _ in range(500)]
    for ticker in tickers[::2]:
        ticker.receive()
    token.cancel()
    assert threading.active_count() <= before
    assert waiting(token) == 0
    assert [ticker.closed for ticker in tickers] == [True, False] * 250
    assert [len(list(ticker)) for ticker in tickers] == [0, 1] * 250

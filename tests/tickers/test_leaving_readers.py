"""A reader gives up at the very moment its tick falls due: the tick comes to the next, once."""

from __future__ import annotations

import asyncio
import random
import sys
import threading
from typing import Any

import pytest

from backoff_ticker import AsyncTicker, ConstantBackOff, Ticker, TickerClosed
from tests import effort
from tests.helpers import LoopThread, waiters_of
from tests.stress.tools import fast_switching, join_all, run_loop, start_threads

ROUNDS = effort.rounds(200, 3000)
DELAY = 0.0002


async def _leave_by_cancel(ticker: AsyncTicker, taken: list[int], pause: float) -> None:
    async def read() -> None:
        taken.append((await ticker.receive()).number)

    task = asyncio.create_task(read())
    await asyncio.sleep(pause)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass


async def _leave_by_timeout(ticker: AsyncTicker, taken: list[int], pause: float) -> None:
    try:
        async with asyncio.timeout(pause):
            tick = await ticker.receive()
            taken.append(tick.number)
    except TimeoutError:
        pass


async def _leave_by_receive(ticker: AsyncTicker, taken: list[int], pause: float) -> None:
    try:
        taken.append((await ticker.receive(timeout=pause)).number)
    except TimeoutError:
        pass


async def _leave_by_wait_for(ticker: AsyncTicker, taken: list[int], pause: float) -> None:
    async def read() -> None:
        taken.append((await ticker.receive()).number)

    try:
        await asyncio.wait_for(read(), pause)
    except TimeoutError:
        pass


LEAVE = [_leave_by_cancel, _leave_by_timeout, _leave_by_receive, _leave_by_wait_for]
EAGER = [False, True] if sys.version_info >= (3, 12) else [False]


@pytest.mark.parametrize("eager", EAGER)
@pytest.mark.parametrize("debug", [False, True])
def test_readers_in_a_loop_that_leave_when_the_tick_is_due_lose_none(
    debug: bool,
    eager: bool,
) -> None:
    async def main() -> list[int]:
        ticker = AsyncTicker(ConstantBackOff(DELAY))
        taken: list[int] = []
        for number in range(ROUNDS // (2 if debug or eager else 1)):
            leave = LEAVE[number % len(LEAVE)]
            await leave(ticker, taken, DELAY * (number % 5) / 3)
        taken.append((await ticker.receive(timeout=5)).number)
        assert waiters_of(ticker._readers) == []
        return taken

    taken = run_loop(main(), debug=debug, eager=eager)
    assert taken == list(range(1, len(taken) + 1))


def test_two_coroutines_wait_and_one_leaves_in_the_turn_in_which_the_tick_falls_due() -> None:
    """Whoever was woken for the tick is cancelled before it can run: the other takes it."""

    async def main() -> list[int]:
        taken: list[int] = []
        ticker = AsyncTicker(ConstantBackOff(3600))
        await ticker.receive()
        for number in range(ROUNDS):

            async def read() -> None:
                taken.append((await ticker.receive(timeout=5)).number)

            first, second = asyncio.create_task(read()), asyncio.create_task(read())
            await asyncio.sleep(0)
            ticker.reset(immediately=True)
            for _ in range(number % 4):
                await asyncio.sleep(0)
            first.cancel()
            await asyncio.wait([first])
            if not first.cancelled():
                ticker.reset(immediately=True)
            await second
        return taken

    taken = run_loop(main())
    assert taken == list(range(2, len(taken) + 2))
    assert len(taken) >= ROUNDS


def test_threads_that_leave_when_the_tick_is_due_lose_none() -> None:
    ticker = Ticker(ConstantBackOff(DELAY))
    taken: list[int] = []
    for number in range(ROUNDS):
        try:
            taken.append(ticker.receive(DELAY * (number % 5) / 3).number)
        except TimeoutError:
            pass
    taken.append(ticker.receive(5).number)
    assert taken == list(range(1, len(taken) + 1))
    assert waiters_of(ticker._readers) == []


@pytest.mark.slow
def test_eight_threads_that_come_and_go_get_each_number_once_and_all_of_them_some() -> None:
    ticker = Ticker(ConstantBackOff(DELAY))
    taken: list[list[int]] = [[] for _ in range(8)]
    over = threading.Event()

    def read(index: int) -> None:
        draw = random.Random(index)
        while not over.is_set():
            try:
                taken[index].append(ticker.receive(draw.random() * 4 * DELAY).number)
            except TimeoutError:
                pass
            except TickerClosed:
                return

    with fast_switching(1e-5):
        threads = start_threads(8, read)
        over.wait(2.0)
        over.set()
        join_all(threads)
    taken[0].append(ticker.receive(5).number)
    numbers = sorted(sum(taken, []))
    assert numbers == list(range(1, len(numbers) + 1))
    assert min(len(mine) for mine in taken) > 0


@pytest.mark.slow
def test_24_coroutines_in_three_loops_that_come_and_go_get_each_number_once() -> None:
    ticker = AsyncTicker(ConstantBackOff(DELAY))
    taken: list[list[int]] = [[] for _ in range(24)]
    over = threading.Event()
    loops = [LoopThread(debug=False) for _ in range(3)]

    async def read(index: int) -> None:
        draw = random.Random(index)
        while not over.is_set():
            leave = draw.choice(LEAVE)
            await leave(ticker, taken[index], draw.random() * 8 * DELAY)

    async def main(loop: int) -> None:
        await asyncio.gather(*(read(loop * 8 + i) for i in range(8)))

    with fast_switching(1e-5):
        futures: list[Any] = [loop.submit(main(i)) for i, loop in enumerate(loops)]
        over.wait(2.0)
        over.set()
        for future in futures:
            future.result(10)
    taken[0].append(loops[0].run(ticker.receive(5)).number)
    for loop in loops:
        loop.close()
        assert loop.errors == []
    numbers = sorted(sum(taken, []))
    assert numbers == list(range(1, len(numbers) + 1))
    assert min(len(mine) for mine in taken) > 0


@pytest.mark.parametrize("how", ["blocked", "stopped"])
def test_a_loop_that_does_not_run_keeps_no_tick_from_the_others(how: str) -> None:
    ticker = AsyncTicker(ConstantBackOff(0.01))
    asleep, awake = LoopThread(debug=False), LoopThread(debug=False)
    release = threading.Event()
    asleep.run(ticker.receive())
    stuck = asleep.submit(ticker.receive())
    asleep.settle()
    if how == "blocked":
        asleep.loop.call_soon_threadsafe(release.wait, 10)
    else:
        asleep.loop.call_soon_threadsafe(asleep.loop.stop)
        asleep._thread.join(5)

    async def read() -> list[int]:
        return [(await ticker.receive(timeout=5)).number for _ in range(20)]

    numbers = awake.run(read())
    release.set()
    if how == "stopped":
        asleep._thread = threading.Thread(target=asleep._run, daemon=True)
        asleep._thread.start()
    last = stuck.result(10).number
    assert sorted([*numbers, last])[1:] == list(range(3, 23))
    asleep.close()
    awake.close()

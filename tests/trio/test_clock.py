"""The clock of a run, such as trio's clock for tests: all of this package obeys it."""

import math
import time

import pytest
import trio
import trio.testing

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    Channel,
    ConstantBackOff,
    SystemClock,
    Ticker,
    Timer,
    current_clock,
    select_async,
    with_max_retries,
)
from backoff_ticker.testing import VirtualClock
from tests.helpers import PATIENCE, in_thread
from tests.trio.runs import lasts, run, run_at_once

TEN = ConstantBackOff(10)


@lasts(3601.0)
async def test_an_hour_of_ticks_beside_sleeps_of_trio():
    ticks, naps = [], []

    async def nap():
        for _ in range(6):
            await trio.sleep(600)
            naps.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        began = trio.current_time()
        nursery.start_soon(nap)
        async for tick in AsyncTicker(ConstantBackOff(30), token=CancellationToken(timeout=3601)):
            ticks.append(round(tick.due - began, 6))
            assert tick.lateness == 0
    assert ticks == [30.0 * number for number in range(121)]
    assert [round(nap - began, 6) for nap in naps] == [600.0 * number for number in range(1, 7)]


@lasts(235.0)
async def test_ticks_are_sent_and_callbacks_called_on_its_time():
    sender, receiver = trio.open_memory_channel(1)
    Ticker(with_max_retries(ConstantBackOff(60), 3)).send_to(sender)
    assert [tick.number async for tick in receiver] == [1, 2, 3, 4]
    channel, timer = Channel(math.inf), Timer()
    tokens = [CancellationToken(timeout=seconds) for seconds in (50, 40)]
    for token in tokens:
        token.on_cancel(lambda token=token: channel.send_nowait(token))
    assert [await channel.receive_async() for _ in tokens] == tokens[::-1]
    timer.start(5)
    assert (await select_async(timer))[0] is timer


@pytest.mark.parametrize("wait", [CancellationToken.wait_async, Channel.receive_async])
@lasts(1.0)
async def test_a_wait_that_is_over_leaves_no_time_to_move_to(wait):
    source = CancellationToken() if wait is CancellationToken.wait_async else Channel()
    with trio.move_on_after(1):
        await wait(source, 1000)
    await trio.to_thread.run_sync(time.sleep, 0.01)  # the clock moves, if there is where to


@lasts(1.0)
async def test_a_call_that_is_cancelled_leaves_no_time_to_move_to():
    clock = current_clock()
    calls = [clock.call_at(clock.monotonic() + 1000, list) for _ in range(2)]
    await trio.sleep(1)
    assert calls[0].cancel()
    assert not calls[0].cancel()
    assert in_thread(calls[1].cancel).result(PATIENCE)
    await trio.to_thread.run_sync(time.sleep, 0.01)


@lasts(95.0)
async def test_threads_wait_on_its_time():
    ticker = Ticker(TEN, token=CancellationToken(timeout=95))
    numbers = await trio.to_thread.run_sync(lambda: [tick.number for tick in ticker])
    assert numbers == [*range(1, 11)]


def test_a_thread_that_waits_on_it_when_its_run_ends_does_not_hang():
    async def main():
        token = CancellationToken(timeout=1000)
        thread = in_thread(token.wait)
        with trio.fail_after(PATIENCE):
            while not current_clock()._run.at_end:
                await trio.lowlevel.checkpoint()
        return thread

    thread = trio.run(main, clock=trio.testing.MockClock())
    with pytest.raises(RuntimeError, match="the run of trio has ended"):
        thread.result(PATIENCE)


@pytest.mark.parametrize("threshold", [0, math.inf])
def test_what_was_made_before_the_run_ends_its_waits_in_real_time(threshold):
    token = CancellationToken(timeout=0.01)

    async def main():
        channel, began = Channel(clock=SystemClock()), trio.current_time()
        assert await token.wait_async()
        with pytest.raises(TimeoutError):
            await channel.receive_async(timeout=0.01)
        ticker = AsyncTicker(ConstantBackOff(0.01), clock=SystemClock())
        assert [(await ticker.receive()).number for _ in range(2)] == [1, 2]
        return trio.current_time() - began

    clock = trio.testing.MockClock(autojump_threshold=threshold)
    assert trio.run(main, clock=clock) == 0.0


def test_a_real_wait_that_is_left_at_the_end_of_the_run_does_nothing_more():
    async def main():
        channel = Channel(clock=SystemClock())
        trio.lowlevel.spawn_system_task(channel.receive_async, 0.01)
        await trio.testing.wait_all_tasks_blocked()

    trio.run(main, clock=trio.testing.MockClock())
    later = CancellationToken(timeout=0.02)  # called back after it, in the same thread
    called = Channel(1)
    later.on_cancel(lambda: called.send_nowait("called"))
    assert called.receive(PATIENCE) == "called"


def test_which_clock_is_the_current_one():
    async def main():
        clock = current_clock()
        assert clock is current_clock()
        return clock, await trio.to_thread.run_sync(current_clock)

    assert run(main) == (SystemClock(), SystemClock())
    (clock, in_worker), _ = run_at_once(main)
    assert "MockClock" in repr(clock)
    assert in_worker is SystemClock()
    assert abs(clock.time() - time.time()) < PATIENCE
    with VirtualClock(strict=False) as virtual:
        assert run(main)[0] is virtual

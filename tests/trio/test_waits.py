"""Tickers, tokens, channels, ``select`` and schedules under trio, beside threads and asyncio."""

import math
import queue
import weakref

import pytest
import trio
import trio.testing

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    Channel,
    ChannelClosed,
    ConstantBackOff,
    Schedule,
    SystemClock,
    TickerClosed,
    Timer,
    ZeroBackOff,
    attempts,
    hedge_call_async,
    merge,
    retry_call_async,
    select_async,
    with_max_retries,
)
from backoff_ticker.waiting import current_loop
from tests.helpers import PATIENCE, collect_garbage, eventually, in_thread, python, waiters_of
from tests.trio.runs import faces, in_a_run, lasts, run

NEVER = ConstantBackOff(3600)


# One object for all


def test_one_cancel_wakes_two_runs_two_loops_and_a_thread():
    token = CancellationToken()
    futures = [*faces(lambda: token.wait_async(PATIENCE)), in_thread(token.wait, PATIENCE)]
    eventually(lambda: len(waiters_of(token._wait_set())) == 5)
    token.cancel("stop")
    assert [future.result(PATIENCE) for future in futures] == [True] * 5


@in_a_run
async def test_a_cancel_wakes_many_tasks_of_a_run():
    token = CancellationToken()
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(token.wait_async)
        await trio.testing.wait_all_tasks_blocked()
        await trio.to_thread.run_sync(token.cancel)


@pytest.mark.parametrize("capacity", [0, 1, math.inf])
def test_a_channel_between_runs_loops_and_threads(capacity):
    channel, items = Channel(capacity), queue.SimpleQueue()

    async def send():
        for number in range(100):
            await channel.send_async(number)

    async def receive():
        async for item in channel:
            items.put(item)

    def receive_here():
        for item in channel:
            items.put(item)

    receivers = [*faces(receive), in_thread(receive_here)]
    senders = [*faces(send), in_thread(lambda: [channel.send(number) for number in range(100)])]
    for sender in senders:
        sender.result(PATIENCE)
    channel.close()
    for receiver in receivers:
        receiver.result(PATIENCE)
    assert sorted(items.get_nowait() for _ in range(500)) == sorted([*range(100)] * 5)


def test_one_schedule_is_worked_off_and_drained_by_two_runs_and_two_loops():
    schedule, keys = Schedule(), queue.SimpleQueue()
    schedule.add_all(range(100))

    async def work():
        async for job in schedule:
            with job:
                keys.put(job.key)
            if keys.qsize() == 100:
                schedule.close()
        assert await schedule.drain_async(PATIENCE)

    for face in faces(work):
        face.result(PATIENCE)
    assert sorted(keys.get_nowait() for _ in range(100)) == list(range(100))


@in_a_run
async def test_a_worker_thread_and_its_run():
    token, channel = CancellationToken(), Channel(0)

    def work():
        for number in range(20):
            channel.send(number)
            assert trio.from_thread.run(CancellationToken(timeout=0.001).wait_async)
        channel.close()
        return token.wait(PATIENCE)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, work)
        assert [item async for item in channel] == list(range(20))
        token.cancel()


# Waits of one run


@lasts(190.0)
async def test_a_ticker_ends_and_is_stopped():
    ticker = AsyncTicker(with_max_retries(ConstantBackOff(60), 3))
    assert [tick.number async for tick in ticker] == [1, 2, 3, 4]
    ticker = AsyncTicker(NEVER)
    await ticker.receive()
    with pytest.raises(TimeoutError):
        await ticker.receive(timeout=10)

    async def stop():
        await trio.testing.wait_all_tasks_blocked()
        ticker.stop()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(stop)
        with pytest.raises(TickerClosed):
            await ticker.receive()


@lasts(20.0)
async def test_select_and_merge():
    jobs, token, timer = Channel(1), CancellationToken(), Timer()
    ticker = AsyncTicker(with_max_retries(ConstantBackOff(10), 2))
    assert (await select_async(ticker, jobs, token))[0] is ticker
    jobs.send_nowait("job")
    assert await select_async(jobs, token) == (jobs, "job")
    timer.start(5)
    assert (await select_async(timer, jobs))[0] is timer
    jobs.close()
    seen = [source async for source, _ in merge(ticker, jobs)]
    assert (seen.count(ticker), seen.count(jobs)) == (3, 1)


@lasts(60.0)
async def test_time_limits():
    channel, token = Channel(0), CancellationToken()
    for wait in (
        lambda: channel.send_async(1, timeout=10),
        lambda: channel.receive_async(timeout=10),
        lambda: select_async(channel, token, timeout=10),
        lambda: Schedule().receive_async(timeout=10),
    ):
        with pytest.raises(TimeoutError):
            await wait()
    assert await token.wait_async(10) is False
    assert await CancellationToken(timeout=10).wait_async() is True


def test_a_wait_that_is_cancelled_stays_registered_nowhere():
    token, channel, ticker = CancellationToken(), Channel(0), AsyncTicker(NEVER)

    async def main():
        await ticker.receive()
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(token.wait_async)
                nursery.start_soon(channel.receive_async)
                nursery.start_soon(ticker.receive)
                nursery.start_soon(select_async, token, ticker)
            await trio.testing.wait_all_tasks_blocked()
            assert len(waiters_of(token._wait_set())) == 40
            nursery.cancel_scope.cancel()

    run(main)
    sets = [token._wait_set(), channel._buffer, ticker._readers]
    assert [waiters_of(wait_set) for wait_set in sets] == [[], [], []]


@pytest.mark.parametrize("is_first", [True, False])
@in_a_run
async def test_a_cancel_that_meets_an_item_loses_nothing(is_first):
    """Both come before the receiver runs again."""
    channel, received = Channel(math.inf), []

    async def receive():
        received.append(await channel.receive_async())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive)
        await trio.testing.wait_all_tasks_blocked()
        if is_first:
            nursery.cancel_scope.cancel()
        channel.send_nowait("item")
        nursery.cancel_scope.cancel()
    assert [*received, *(channel.receive_nowait() for _ in range(len(channel)))] == ["item"]


@in_a_run
async def test_a_wait_in_a_thread_of_trio_is_refused():
    with pytest.raises(RuntimeError, match="would block the event loop"):
        CancellationToken().wait()
    with pytest.raises(RuntimeError, match="would block the event loop"):
        Channel().receive()


def test_an_error_in_a_callback_of_a_clock_does_not_end_the_run(unraisable):
    async def main():
        clock = SystemClock()
        clock.call_at(clock.monotonic(), lambda: 1 / 0, loop=current_loop())
        while not unraisable:
            await trio.lowlevel.checkpoint()

    run(main)
    assert [type(each.exc_value) for each in unraisable] == [ZeroDivisionError]


def test_nothing_of_a_run_stays():
    token = CancellationToken()

    async def main():
        await token.wait_async(0.001)
        return weakref.ref(current_loop())

    link = run(main)
    collect_garbage()
    assert link() is None


# Checkpoints


def calls():
    """Return calls that need not wait, by name."""
    channel, unbounded, ticker = Channel(9), Channel(math.inf), AsyncTicker(ZeroBackOff())
    for each in (channel, unbounded):
        for item in range(9):
            each.send(item)
    queue, fleet = Schedule(), Schedule(every=3600)
    grouped = Schedule(group=lambda key: key % 2, limit=9)
    for each in (queue, fleet, grouped):
        each.add_all(range(9), over=0)
    done, closed = CancellationToken(), Channel(1)
    done.cancel()
    closed.close()

    async def closed_channel():
        with pytest.raises(ChannelClosed):
            await closed.receive_async()

    async def chosen():
        return (await select_async(fleet))[1]

    def worked_off(receive):
        async def call():
            with await receive():
                pass

        return call

    def failing_once(call):
        async def retried():
            fails = iter([True, False])

            async def operation():
                if next(fails):
                    raise OSError

            await call(operation, ZeroBackOff())

        return retried

    async def loop(operation, backoff):
        async for attempt in attempts(backoff):
            async with attempt:
                await operation()

    return {
        "receive_async": channel.receive_async,
        "receive_async, unbounded": unbounded.receive_async,
        "receive_async, closed": closed_channel,
        "send_async": lambda: Channel(1).send_async(0),
        "send_async, unbounded": lambda: Channel(math.inf).send_async(0),
        "async for of a channel": channel.__anext__,
        "AsyncTicker": AsyncTicker(ZeroBackOff()).receive,
        "async for of an AsyncTicker": ticker.__anext__,
        "wait_async": done.wait_async,
        "wait_async, no time": lambda: CancellationToken().wait_async(0),
        "select_async": lambda: select_async(channel),
        "select_async of what is not ready, too": lambda: select_async(Channel(0), ticker),
        "select_async of an end": lambda: select_async(closed, done),
        "select_async of a Schedule": worked_off(chosen),
        "merge": merge(channel, unbounded).__anext__,
        "Schedule": worked_off(queue.receive_async),
        "async for of a Schedule": worked_off(queue.__aiter__().__anext__),
        "async for of one with every": worked_off(fleet.__aiter__().__anext__),
        "async for of one with a group": worked_off(grouped.__aiter__().__anext__),
        "drain_async": Schedule().drain_async,
        "a retry": failing_once(retry_call_async),
        "a hedged call": failing_once(hedge_call_async),
        "attempts": failing_once(loop),
    }


@pytest.mark.parametrize("name", calls())
@in_a_run
async def test_every_call_is_a_checkpoint(name):
    call = calls()[name]
    for _ in range(3):
        with trio.testing.assert_checkpoints():
            await call()
    with trio.CancelScope() as scope:
        scope.cancel()
        await call()
    assert scope.cancelled_caught


# A program that does not use trio

PROGRAM = """
import asyncio, sys
from backoff_ticker import *

async def main():
    channel, token = Channel(1), CancellationToken(timeout=0.001)
    await channel.send_async(1)
    async for tick in AsyncTicker(with_max_retries(ConstantBackOff(0.001), 1), token=token):
        pass
    try:
        async with token.scope():
            await asyncio.sleep(60)
    except Cancelled:
        pass
    await hedge_call_async(lambda: asyncio.sleep(0))
    await retry_call_async(lambda: asyncio.sleep(0), timeout=5)
    Ticker(ConstantBackOff(60)).send_to(asyncio.Queue())

asyncio.run(main())
print(sorted(name for name in sys.modules if "trio" in name or name in ("sniffio", "anyio")))
"""


def test_a_program_without_trio_imports_nothing_of_it():
    ran = python("-c", PROGRAM)
    assert (ran.stdout, ran.stderr) == ("['backoff_ticker.waiting._trio']\n", "")

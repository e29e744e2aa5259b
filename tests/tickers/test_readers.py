"""Several readers of one ticker, who wait, time out and leave: in threads and in event loops."""

import asyncio
import gc
import weakref
from datetime import timedelta

import pytest

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    CloseReason,
    ConstantBackOff,
    TickerClosed,
)
from backoff_ticker.waiting import LoopWaiter
from tests.channels.ends import still_waits
from tests.channels.test_loops import LoopThatGoes
from tests.helpers import (
    PATIENCE,
    LoopThread,
    collect_garbage,
    in_thread,
    turns,
    wait_until_collected,
    waiters_of,
)
from tests.interleaving import each_interleaving
from tests.retries.faces import in_a_loop
from tests.stress.tools import Gate
from tests.tickers.made_policies import EVERY_PACE, first_done, reader_that_waits, reason_of, ticked
from tests.tickers.made_timers import WatchedClock


@pytest.mark.parametrize("timeout", [0, 5, 5.0, timedelta(seconds=5)])
def test_a_receive_that_times_out_loses_no_tick(face, clock, timeout):
    ticker = face.ticker(ConstantBackOff(10), clock=clock)
    face.receive(ticker, timeout)
    late = face.start_receive(ticker, timeout)
    if timeout:
        clock.advance(5)
    error = late.exception(PATIENCE)
    assert type(error) is TimeoutError
    assert clock.pending() == []
    clock.advance_to(1010)
    assert face.receive(ticker, 0).number == 2


@EVERY_PACE
@pytest.mark.parametrize("readers", [2, 7])
def test_each_tick_goes_to_exactly_one_of_those_who_wait(face, clock, readers, pace):
    ticker = ticked(face, ConstantBackOff(10), clock=clock, pace=pace)
    waiting = [face.start_receive(ticker) for _ in range(readers)]
    for number in range(2, readers + 2):
        clock.advance(10)
        taken = first_done(waiting)
        waiting.remove(taken)
        tick = taken.result()
        assert (tick.number, tick.due) == (number, 1000 + 10 * (number - 1))
        assert not any(future.done() for future in waiting)
    assert len(clock.pending()) == 0


def watching(face, clock):
    """Return how many readers watch the time; the clock counts those of a loop as one."""
    if face.name == "thread":
        return len(clock.pending())
    if face.name == "trio":
        return sum(call.callback is not None for _, _, call in face.thread.loop._calls)
    return sum(not timer.cancelled() for timer in face.thread.loop._scheduled)


@pytest.mark.parametrize("readers", [2, 3, 8])
def test_readers_that_wait_do_nothing_meanwhile(face, clock, readers):
    counting = WatchedClock(clock)
    ticker = ticked(face, ConstantBackOff(10), clock=counting)
    waiting = [face.start_receive(ticker) for _ in range(readers)]
    clock.settle()
    counting.readings = 0
    clock.advance(10)
    waiting.remove(first_done(waiting))
    assert counting.readings < 60
    counting.readings = 0
    clock.advance(9)
    assert counting.readings == 0
    assert watching(face, clock) == 1
    ticker.stop()
    assert [reason_of(future) for future in waiting] == ["stopped"] * (readers - 1)


def test_a_leader_that_times_out_at_the_due_time_takes_the_tick_or_passes_it_on(face, clock):
    ticker = ticked(face, ConstantBackOff(10), clock=clock)
    leader = reader_that_waits(face, clock, ticker, 10)
    other = reader_that_waits(face, clock, ticker, 10)
    clock.advance(10)
    outcomes = [leader.exception(PATIENCE), other.exception(PATIENCE)]
    assert sorted(type(error).__name__ for error in outcomes) == ["NoneType", "TimeoutError"]


@pytest.mark.parametrize("resolved", [False, True])
def test_a_leader_whose_task_is_cancelled_passes_on(loop, clock, resolved):
    """Also if its wake-up has come already and it has not run since."""
    ticker = AsyncTicker(ConstantBackOff(10), clock=clock)

    async def main():
        await ticker.receive()
        leader = asyncio.create_task(ticker.receive())
        other = asyncio.create_task(ticker.receive())
        was_resolved = asyncio.get_running_loop().create_future()

        def cancel():
            was_resolved.set_result(leader._fut_waiter.done())
            leader.cancel()

        await turns(3)
        # At the same time as the leader's own timer the loop calls both in one go, in this order.
        asyncio.get_running_loop().call_at(1010 if resolved else 1005, cancel)
        await asyncio.wait([leader])
        return await was_resolved, leader.cancelled(), (await other).number

    outcome = loop.submit(main())
    clock.advance(10)
    assert outcome.result(PATIENCE) == (resolved, True, 2)
    assert len(clock.pending()) == 0


@pytest.mark.parametrize("how", ["stopped", "closed"])
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_a_loop_that_is_gone_holds_up_nobody_else(loop, clock, how):
    ticker = AsyncTicker(ConstantBackOff(10), clock=clock)
    ticker.receive_nowait()
    gone = LoopThatGoes(ticker.receive(), how)
    second = loop.submit(ticker.receive())
    still_waits(clock, second)
    clock.advance(10)
    assert second.result(PATIENCE).number == 2
    third = loop.submit(ticker.receive())
    still_waits(clock, third)
    ticker.stop()
    assert reason_of(third) is CloseReason.STOPPED
    assert not gone.task.done()
    gone.end()


def test_a_reader_that_waits_for_tick_after_tick_leaves_no_object():
    """Else thousands of readers would make the interpreter collect garbage again and again."""

    async def main():
        counts = []
        async for tick in AsyncTicker(ConstantBackOff(0.0001)):
            if tick.number in (10, 60):
                collect_garbage()
                counts.append(len(gc.get_objects()))
            if tick.number == 60:
                break
        return counts

    # What other threads make meanwhile counts, too; what a reader leaves is left each time.
    assert min(after - before for before, after in (asyncio.run(main()) for _ in range(3))) <= 0


def bound(token):
    """Return a ticker whose first tick was taken, on a token."""
    ticker = AsyncTicker(ConstantBackOff(10), token=token)
    ticker.receive_nowait()
    return ticker


async def until_parked(task):
    await turns(2)
    assert not task.done()


@in_a_loop
async def test_a_reader_stays_in_the_set_of_the_token_while_it_works():
    """And it is woken from there in its next wait; a ticker that is dropped leaves it."""
    token = CancellationToken()
    ticker = bound(token)
    seen = []
    for _ in range(3):
        reading = asyncio.create_task(ticker.receive())
        await until_parked(reading)
        seen.append(waiters_of(token._wait_set()))
        ticker.reset(immediately=True)
        await reading
        assert waiters_of(token._wait_set()) == seen[0]
        assert waiters_of(ticker._readers) == []
    assert seen == [seen[0]] * 3
    assert len(seen.pop()) == 1
    seen.clear()
    del ticker
    assert token._wait_set().first is None
    ticker = bound(token)
    with pytest.raises(TimeoutError):
        await ticker.receive(0.001)
    reading = asyncio.create_task(ticker.receive())
    await until_parked(reading)
    token.cancel()
    with pytest.raises(TickerClosed):
        await reading


def test_a_loop_that_is_dropped_while_a_reader_works_is_collected():
    token = CancellationToken()
    ticker = bound(token)

    async def waits_once(ticker):
        with pytest.raises(TimeoutError):
            await ticker.receive(0.001)

    loop = asyncio.new_event_loop()
    while waiters_of(token._wait_set()) == []:  # the time-out may have come before the wait
        loop.run_until_complete(waits_once(ticker))
    loop.close()
    link = weakref.ref(loop)
    del loop
    wait_until_collected(link)
    asyncio.run(waits_once(ticker))
    del ticker
    collect_garbage()
    assert waiters_of(token._wait_set()) == []


@pytest.fixture
def real_loop():
    made = LoopThread()
    yield made
    made.close()
    assert made.errors == []


def read_in(loop, ticker):
    """Take the first tick, and start a reader that waits for the second one."""
    loop.run(ticker.receive())
    reading = loop.submit(ticker.receive())
    loop.settle()
    return reading


def test_a_reader_that_rests_as_a_thread_wakes_it_and_then_waits_again_stays_in_line(
    real_loop, monkeypatch
):
    """That thread stands still twice: the reader was in line, and then could not be woken."""
    ticker = AsyncTicker(ConstantBackOff(3600))
    reading = read_in(real_loop, ticker)
    in_line, at_rest = Gate(), Gate()
    wake = LoopWaiter.wake

    def wake_slowly(waiter):
        monkeypatch.setattr(LoopWaiter, "wake", wake)
        in_line.stand()
        woken = wake(waiter)
        at_rest.stand()
        return woken

    monkeypatch.setattr(LoopWaiter, "wake", wake_slowly)
    telling = in_thread(ticker.failure)
    in_line.wait_until_reached()
    ticker.reset(immediately=True)
    assert reading.result(PATIENCE).number == 2
    in_line.open()
    at_rest.wait_until_reached()
    reading = real_loop.submit(ticker.receive())
    real_loop.settle()
    at_rest.open()
    telling.result(PATIENCE)
    ticker.stop()
    assert reason_of(reading) == "stopped"


def test_a_thread_that_wakes_a_reader_may_find_it_at_rest_at_any_moment(real_loop, monkeypatch):
    def begin():
        ticker = AsyncTicker(ConstantBackOff(3600))
        reading = read_in(real_loop, ticker)

        def take():
            ticker.reset(immediately=True)
            return reading.result(PATIENCE).number

        return ticker._readers.wake_firsts, take

    for outcomes in each_interleaving(begin, monkeypatch):
        assert outcomes == (None, 2)

"""Tickers with a timer: many readers, resets and outcomes, and the timer of a virtual clock."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from backoff_ticker import (
    CLOSED,
    STOP,
    AsyncTicker,
    Channel,
    ConstantBackOff,
    Pace,
    Ticker,
    Timer,
    WouldBlock,
    select,
    select_async,
)
from backoff_ticker.testing import VirtualClock
from tests.channels.ends import still_waits
from tests.helpers import PATIENCE, in_thread
from tests.tickers.made_policies import Counting, Scripted
from tests.tickers.made_timers import Fake

EVERY_PACE = pytest.mark.parametrize("pace", list(Pace))


def test_one_fire_is_one_tick_for_one_of_many_readers(face: Any, clock: VirtualClock) -> None:
    timer = Fake()
    ticker = face.ticker(ConstantBackOff(10), timer=timer)
    face.receive(ticker)
    readers = [face.start_receive(ticker) for _ in range(4)]
    readers += [in_thread(lambda: select(ticker, Channel())[1]) for _ in range(2)]
    for fired in range(1, 7):
        clock.settle()
        assert sum(reader.done() for reader in readers) == fired - 1
        timer.fire(float(fired))
    taken = sorted(reader.result(PATIENCE) for reader in readers)
    assert [(tick.number, tick.time) for tick in taken] == [(n, n - 1) for n in range(2, 8)]
    assert timer.delays == [10] * 7


def test_it_is_one_of_the_sources_of_select(face: Any, clock: VirtualClock) -> None:
    timer = Fake()
    ticker = face.ticker(Counting(), timer=timer)
    other: Channel[str] = Channel(1)
    assert select(ticker, other)[1].number == 1
    selecting = in_thread(lambda: [select(ticker, other) for _ in range(3)])
    for act in (lambda: timer.fire(3.5), lambda: other.send_nowait("item"), ticker.stop):
        still_waits(clock, selecting)
        act()
    (first, tick), *rest = selecting.result(PATIENCE)
    assert (first, tick.number, tick.time) == (ticker, 2, 3.5)
    assert rest == [(other, "item"), (ticker, CLOSED)]


def test_a_select_starts_no_timer_again_that_is_a_little_late(
    face: Any, clock: VirtualClock
) -> None:
    """Also where late ticks are skipped: the tick has a reader before the timer fires."""
    timer = Fake()
    ticker = face.ticker(ConstantBackOff(10), timer=timer, pace=Pace.SKIP)
    face.receive(ticker)
    clock.advance(10.5)
    selecting = in_thread(lambda: select(ticker, Channel())[1])
    still_waits(clock, selecting)
    assert timer.delays == [10]
    timer.fire()
    tick = selecting.result(PATIENCE)
    assert (tick.number, tick.due, tick.missed) == (2, 1010, 0)
    assert timer.delays == [10, 9.5]


def test_its_ticks_can_be_sent(face: Any, clock: VirtualClock) -> None:
    timer = Fake()
    ticker = face.ticker(ConstantBackOff(10), timer=timer)
    ticks: Channel[Any] = Channel(float("inf"))
    ticker.send_to(ticks)
    for number in range(1, 4):
        clock.settle()
        assert len(ticks) == number
        timer.fire(float(number))
    clock.settle()
    ticker.stop()
    clock.settle()
    assert [tick.time for tick in ticks] == [clock.time(), 1, 2, 3]
    assert timer.stops == 1


# Told by its readers


@EVERY_PACE
def test_a_reset_starts_it_anew_for_a_full_first_delay(
    face: Any, clock: VirtualClock, pace: Pace
) -> None:
    timer = Fake()
    ticker = face.ticker(Counting(), timer=timer, pace=pace)
    face.receive(ticker)
    asking = face.start_receive(ticker)
    still_waits(clock, asking)
    clock.advance(0.5)
    ticker.reset()
    still_waits(clock, asking)
    assert timer.delays == [1, 1]
    timer.fire(8.0)
    tick = asking.result(PATIENCE)
    assert (tick.number, tick.time, tick.delay) == (2, 8.0, 1)
    ticker.reset(ConstantBackOff(60))
    asking = face.start_receive(ticker)
    still_waits(clock, asking)
    assert timer.delays[-1] == 60
    assert timer.delays.count(60) == 1
    ticker.stop()


@EVERY_PACE
@pytest.mark.parametrize("passed", [0, 0.5])
def test_a_fire_before_a_reset_brings_nothing_after_it(
    clock: VirtualClock, pace: Pace, passed: float
) -> None:
    """Also where the reset comes in the moment of the tick before."""
    timer = Fake()
    ticker = Ticker(ConstantBackOff(10), timer=timer, pace=pace)
    ticker.receive()
    with pytest.raises(WouldBlock):
        ticker.receive_nowait()
    clock.advance(passed)
    timer.fire()
    ticker.reset()
    with pytest.raises(WouldBlock):
        ticker.receive_nowait()
    assert timer.delays == [10, 10]
    timer.fire(9.0)
    assert ticker.receive_nowait().time == 9.0


@EVERY_PACE
def test_an_immediate_reset_stops_it_and_needs_no_fire(
    face: Any, clock: VirtualClock, pace: Pace
) -> None:
    timer = Fake()
    ticker = face.ticker(Counting(), timer=timer, pace=pace)
    face.receive(ticker)
    asking = face.start_receive(ticker)
    still_waits(clock, asking)
    clock.advance(0.5)
    ticker.reset(immediately=True)
    tick = asking.result(PATIENCE)
    assert (tick.number, tick.time, tick.delay) == (2, clock.time(), 0)
    assert timer.stops == 1
    asking = face.start_receive(ticker)
    still_waits(clock, asking)
    assert timer.delays == [1, 1]
    ticker.stop()


def test_a_success_starts_it_for_what_is_left_of_the_new_delay(
    face: Any, clock: VirtualClock
) -> None:
    timer = Fake()
    ticker = face.ticker(Counting(), timer=timer)
    for _ in range(2):
        face.receive(ticker)
        timer.fire()
    face.receive(ticker)
    assert timer.delays == [1, 2, 3]
    clock.advance(0.25)
    ticker.success()
    assert timer.delays == [1, 2, 3, 0.75]
    timer.fire()
    assert face.receive(ticker).delay == 1


class Hearing(Scripted):
    """A feedback policy: 1 s after a success, 5 s after a failure."""

    def success(self, timestamp: float | None = None) -> float:
        return 1.0

    def failure(self, timestamp: float | None = None) -> float:
        return 5.0

    def next_backoff(self) -> float:
        return self.failure()


@pytest.mark.parametrize(
    ("outcome", "delay"), [("success", 1.0), ("failure", 5.0), ("no word", 5.0)]
)
def test_for_a_policy_that_hears_the_outcome_it_is_started_then(
    face: Any, clock: VirtualClock, outcome: str, delay: float
) -> None:
    timer = Fake()
    ticker = face.ticker(Hearing(), timer=timer)
    for started in range(3):
        face.receive(ticker)
        assert len(timer.delays) == started
        if outcome != "no word":
            getattr(ticker, outcome)()
            assert len(timer.delays) == started + 1
        asking = face.start_receive(ticker)
        still_waits(clock, asking)
        assert timer.delays == [delay] * (started + 1)
        timer.fire()
        assert asking.result(PATIENCE).delay == delay
        ticker.reset(immediately=True)


# The timer of the clock itself


def ticks_of(delays: list[float], waits: list[float], pace: Pace, *, timed: bool) -> list[Any]:
    """What a reader sees who works so long after each tick."""
    with VirtualClock(1000.0, epoch=5000.0) as clock:
        timer = Timer(clock=clock) if timed else None
        ticker = Ticker(Scripted(*delays, then=STOP), pace=pace, timer=timer)
        seen: list[Any] = []

        def read() -> None:
            for work, tick in zip([*waits, 0.0], ticker, strict=False):
                # A timer that is started late sends the time at which it fired, not the due one.
                time = None if pace in (Pace.BURST, Pace.SKIP) else tick.time
                seen.append((clock.monotonic(), *tick._replace(time=time)))
                if work:
                    clock.sleep(work)

        clock.run(read)
        seen.append(ticker.close_reason)
        ticker.stop()
    return seen


QUARTERS = st.integers(0, 40).map(lambda quarters: quarters / 4)


@pytest.mark.parametrize("pace", list(Pace))
@settings(derandomize=True)
@given(delays=st.lists(QUARTERS, max_size=5), waits=st.lists(QUARTERS, max_size=6))
def test_the_timer_of_the_clock_changes_nothing(
    pace: Pace, delays: list[float], waits: list[float]
) -> None:
    assert ticks_of(delays, waits, pace, timed=True) == ticks_of(delays, waits, pace, timed=False)


@pytest.mark.parametrize("selects", [False, True])
def test_a_timer_that_fires_for_the_next_ticker_wakes_no_reader_of_the_last(selects: bool) -> None:
    """That reader was told of the end, and has not left the line of the timer's channel yet."""

    async def main() -> None:
        timer = Fake()
        one, other = (AsyncTicker(ConstantBackOff(60), timer=timer) for _ in range(2))
        await one.receive()
        await other.receive()
        ended = asyncio.create_task(select_async(one, Channel()) if selects else anext(one))
        await asyncio.sleep(0.001)
        reading = asyncio.create_task(other.receive())
        await asyncio.sleep(0.001)
        one.stop()
        timer.fire()
        tick = await asyncio.wait_for(reading, PATIENCE)
        assert (tick.number, tick.time) == (2, 7.5)
        await asyncio.wait([ended])
        assert selects or isinstance(ended.exception(), StopAsyncIteration)

    asyncio.run(main())

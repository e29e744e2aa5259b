"""Tickers whose delays somebody else's timer measures: when it is started, stopped and heard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    CloseReason,
    ConstantBackOff,
    Pace,
    StopBackOff,
    Ticker,
    WouldBlock,
    with_max_retries,
)
from tests.channels.ends import still_waits
from tests.helpers import PATIENCE
from tests.tickers.made_policies import Scripted, reason_of
from tests.tickers.made_timers import Fake, Instant

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock

EVERY_PACE = pytest.mark.parametrize("pace", list(Pace))


def nothing_is_due(ticker: Any) -> None:
    with pytest.raises(WouldBlock):
        ticker.receive_nowait()


@EVERY_PACE
def test_a_timer_of_the_users_drives_a_ticker(face: Any, clock: VirtualClock, pace: Pace) -> None:
    """No time passes at all."""
    timer = Fake()
    ticker = face.ticker(ConstantBackOff(10), timer=timer, pace=pace)
    assert timer.delays == []
    first = face.receive(ticker)
    assert (first.number, first.time) == (1, clock.time())
    for number in range(2, 6):
        asking = face.start_receive(ticker)
        still_waits(clock, asking)
        timer.fire(100.5 * number)
        tick = asking.result(PATIENCE)
        assert (tick.number, tick.time, tick.delay) == (number, 100.5 * number, 10)
        assert float(tick) == 100.5 * number
        assert tick.lateness == 0
    assert clock.monotonic() == 1000
    ticker.stop()
    assert clock.pending() == []


@pytest.mark.parametrize("pace", [Pace.RECEIPT, Pace.RETURN])
def test_it_is_started_once_with_each_delay_of_the_policy(
    face: Any, clock: VirtualClock, pace: Pace
) -> None:
    delays = [0.1, 3.0, 0.7, 1e-9, 86400.5]
    timer = Fake()
    ticker = face.ticker(Scripted(*delays), timer=timer, pace=pace)
    for number in range(1, 6):
        face.receive(ticker)
        assert timer.delays == delays[: number if pace is Pace.RECEIPT else number - 1]
        clock.advance(0.3)
        nothing_is_due(ticker)
        nothing_is_due(ticker)
        assert ticker.next_delay == delays[number - 1]
        assert timer.delays == delays[:number]
        timer.fire()
    assert timer.stops == 0


def test_on_a_schedule_it_is_started_for_what_is_left_of_the_delay(
    face: Any, clock: VirtualClock
) -> None:
    timer = Fake()
    ticker = face.ticker(ConstantBackOff(10), timer=timer, pace=Pace.BURST)
    face.receive(ticker)
    assert timer.delays == [10]
    clock.advance(13)
    timer.fire()
    assert face.receive(ticker).due == 1010
    assert timer.delays == [10, 7]
    clock.advance(7)
    timer.fire()
    assert face.receive(ticker).due == 1020
    assert timer.delays == [10, 7, 10]


def test_where_late_ticks_are_skipped_it_is_started_again_for_the_next(
    face: Any, clock: VirtualClock
) -> None:
    timer = Fake()
    ticker = face.ticker(ConstantBackOff(10), timer=timer, pace=Pace.SKIP)
    face.receive(ticker)
    clock.advance(13)
    timer.fire()
    nothing_is_due(ticker)
    assert timer.delays == [10, 7]
    clock.advance(7)
    timer.fire()
    tick = face.receive(ticker)
    assert (tick.due, tick.missed) == (1020, 1)
    assert timer.delays == [10, 7, 10]


def test_a_slow_reader_of_a_burst_gets_ticks_for_which_nothing_is_left(clock: VirtualClock) -> None:
    timer = Instant()
    ticker = Ticker(ConstantBackOff(10), timer=timer, pace=Pace.BURST)
    ticker.receive()
    clock.advance(35)
    assert [ticker.receive().due for _ in range(3)] == [1000, 1010, 1020]
    assert timer.delays == [10, 0, 0, 0]


@EVERY_PACE
def test_it_is_never_started_for_the_first_tick(face: Any, clock: VirtualClock, pace: Pace) -> None:
    timer = Fake()
    ticker = face.ticker(StopBackOff(), timer=timer, pace=pace)
    timer.fire()
    clock.advance(5)
    tick = face.receive(ticker)
    assert tick.number == 1
    assert tick.time != 7.5
    assert timer.delays == []
    assert reason_of(face.start_receive(ticker)) is CloseReason.EXHAUSTED


def test_its_fire_counts_however_early_and_however_late(face: Any, clock: VirtualClock) -> None:
    timer = Fake()
    ticker = face.ticker(ConstantBackOff(10), timer=timer)
    face.receive(ticker)
    clock.advance(4)
    timer.fire()
    early = face.receive(ticker)
    assert (early.due, early.lateness) == (1004, 0)
    clock.advance(100)
    nothing_is_due(ticker)
    timer.fire()
    late = face.receive(ticker)
    assert (late.number, late.due, late.lateness) == (3, 1014, 90)


def test_what_was_sent_before_the_start_is_dropped(face: Any, clock: VirtualClock) -> None:
    timer = Fake()
    timer.fire()
    ticker = face.ticker(ConstantBackOff(10), timer=timer)
    face.receive(ticker)
    nothing_is_due(ticker)
    timer.fire(9.0)
    assert face.receive(ticker).time == 9.0


@pytest.mark.parametrize("capacity", [0, 5, float("inf")])
def test_a_channel_of_another_capacity_will_do(
    face: Any, clock: VirtualClock, capacity: float
) -> None:
    timer = Fake(capacity)
    ticker = face.ticker(ConstantBackOff(10), timer=timer)
    face.receive(ticker)
    for number in (2, 3):
        asking = face.start_receive(ticker)
        still_waits(clock, asking)
        timer.fire()
        assert asking.result(PATIENCE).number == number
    ticker.stop()


@EVERY_PACE
def test_a_timer_may_fire_inside_its_start(face: Any, clock: VirtualClock, pace: Pace) -> None:
    timer = Instant()
    ticker = face.ticker(with_max_retries(ConstantBackOff(10), 4), timer=timer, pace=pace)
    times = [tick.time for tick in face.iterate(ticker).result(PATIENCE)]
    assert times == [clock.time(), 1, 2, 3, 4]
    assert len(timer.delays) == 4
    assert timer.stops == 1

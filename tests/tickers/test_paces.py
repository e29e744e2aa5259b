"""The four paces: the timelines of their docstrings, then the edges of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    ConstantBackOff,
    Pace,
    Ticker,
    TickerClosed,
    WouldBlock,
    ZeroBackOff,
    with_max_retries,
)
from tests import effort
from tests.helpers import PATIENCE, SetClock
from tests.tickers.made_policies import Counting, Scripted

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock

TIMELINES = {
    Pace.RECEIPT: [(0, 0, 0), (25, 10, 0), (35, 35, 0), (45, 45, 0)],
    Pace.RETURN: [(0, 0, 0), (35, 35, 0), (45, 45, 0)],
    Pace.BURST: [(0, 0, 0), (25, 10, 0), (25, 20, 0), (30, 30, 0), (40, 40, 0)],
    Pace.SKIP: [(0, 0, 0), (30, 30, 2), (40, 40, 0)],
}


def nothing_is_due(ticker: Any) -> None:
    with pytest.raises(WouldBlock):
        ticker.receive_nowait()


def wake_late(clock: VirtualClock, seconds: float, *, late: float) -> None:
    """Let time pass until a waiting reader wakes up, and looks at the clock only ``late`` later."""
    clock.settle()
    with clock.trap("monotonic") as trap:
        clock.advance(seconds)
        trap.wait()
        clock.advance(late)


@pytest.mark.parametrize("pace", list(Pace))
def test_the_timeline_in_the_docstring(face: Any, clock: VirtualClock, pace: Pace) -> None:
    """A policy of constant 10 s, a reader that works from 0 s to 25 s and not at all afterwards."""
    ticker = face.ticker(ConstantBackOff(10), clock=clock, pace=pace)
    seen = []
    for _ in TIMELINES[pace]:
        ask = face.start_receive(ticker)
        due = TIMELINES[pace][len(seen)][0] + 1000
        if due > clock.monotonic():
            clock.advance_to(due - 0.001)
            assert not ask.done()
            clock.advance_to(due)
        tick = ask.result(PATIENCE)
        assert tick.lateness == clock.monotonic() - tick.due
        seen.append((clock.monotonic() - 1000, tick.due - 1000, tick.missed))
        if len(seen) == 1:
            clock.advance_to(1025)
    assert seen == TIMELINES[pace]


# Pace.RECEIPT


def test_receipt_is_the_default(face: Any) -> None:
    assert face.ticker(ZeroBackOff()).pace is Pace.RECEIPT


def test_receipt_keeps_the_due_time_whoever_asks_and_when(face: Any, clock: VirtualClock) -> None:
    ticker = face.ticker(ConstantBackOff(10), clock=clock)
    clock.advance(3)
    assert ticker.receive_nowait().due == 1000
    clock.advance(4)
    nothing_is_due(ticker)
    clock.advance(6)
    assert ticker.receive_nowait().due == 1013


@pytest.mark.parametrize("pace", list(Pace))
def test_the_policy_is_asked_when_the_tick_is_taken(
    face: Any, clock: VirtualClock, pace: Pace
) -> None:
    policy = Scripted(then=10.0)
    ticker = face.ticker(policy, clock=clock, pace=pace)
    for taken in range(1, 5):
        assert policy.asked == taken - 1
        assert ticker.receive_nowait().number == taken
        nothing_is_due(ticker)
        assert policy.asked == taken
        clock.advance(10)


# Pace.RETURN


def test_return_counts_from_the_ask(face: Any, clock: VirtualClock) -> None:
    ticker = face.ticker(ConstantBackOff(10), clock=clock, pace=Pace.RETURN)
    ticker.receive_nowait()
    clock.advance(100)
    nothing_is_due(ticker)
    clock.advance(9.5)
    nothing_is_due(ticker)
    clock.advance(0.5)
    assert ticker.receive_nowait().due == 1110


def test_return_is_not_restarted_by_a_reader_that_times_out(face: Any, clock: VirtualClock) -> None:
    ticker = face.ticker(ConstantBackOff(10), clock=clock, pace=Pace.RETURN)
    face.receive(ticker)
    for _ in range(4):
        ask = face.start_receive(ticker, 2)
        clock.settle()
        clock.advance(2)
        assert isinstance(ask.exception(PATIENCE), TimeoutError)
    ask = face.start_receive(ticker)
    clock.settle()
    clock.advance(2)
    assert ask.result(PATIENCE).due == 1010


def test_return_does_not_count_a_look_at_the_ticker_as_an_ask(
    face: Any, clock: VirtualClock
) -> None:
    ticker = face.ticker(ConstantBackOff(10), clock=clock, pace=Pace.RETURN)
    ticker.receive_nowait()
    clock.advance(100)
    assert (ticker.closed, ticker.close_reason) == (False, None)
    assert "open" in repr(ticker)
    nothing_is_due(ticker)
    clock.advance_to(1110)
    assert ticker.receive_nowait().due == 1110


def test_return_fixes_the_first_tick_at_the_first_ask(face: Any, clock: VirtualClock) -> None:
    ticker = face.ticker(ConstantBackOff(10), clock=clock, pace=Pace.RETURN)
    clock.advance(7)
    assert ticker.receive_nowait().due == 1007


# Pace.BURST


def test_burst_starts_its_schedule_at_the_first_receive(face: Any, clock: VirtualClock) -> None:
    ticker = face.ticker(ConstantBackOff(10), clock=clock, pace=Pace.BURST)
    clock.advance(7)
    assert ticker.receive_nowait().due == 1007
    clock.advance(30)
    assert [ticker.receive_nowait().due for _ in range(3)] == [1017, 1027, 1037]
    nothing_is_due(ticker)


def test_burst_delivers_every_late_tick_and_misses_none(face: Any, clock: VirtualClock) -> None:
    ticker = face.ticker(Counting(), clock=clock, pace=Pace.BURST)
    face.receive(ticker)
    clock.advance(100)
    ticks = [face.receive(ticker) for _ in range(13)]
    assert [tick.due for tick in ticks] == [1000 + n * (n + 1) / 2 for n in range(1, 14)]
    assert [tick.number for tick in ticks] == list(range(2, 15))
    assert {tick.missed for tick in ticks} == {0}
    nothing_is_due(ticker)


@pytest.mark.parametrize("behind", [False, True])
def test_burst_drifts_less_than_a_millisecond_in_a_million_ticks(behind: bool) -> None:
    count = effort.rounds(30_000, 1_000_000)
    clock = SetClock()
    ticker = Ticker(ConstantBackOff(0.1), clock=clock, pace=Pace.BURST)
    take = ticker.receive_nowait
    due = take().due
    if behind:
        clock.now = 101_001.0
    for _ in range(count):
        if not behind:
            clock.now += 0.1000001
        due = take().due
    assert abs(due - (1000 + 0.1 * count)) < 0.001


def test_skip_does_not_drift_over_a_million_slots(face: Any, clock: VirtualClock) -> None:
    ticker = face.ticker(ConstantBackOff(0.1), clock=clock, pace=Pace.SKIP)
    ticker.receive_nowait()
    clock.advance(100_000.05)
    waiting = face.start_receive(ticker)
    clock.settle()
    clock.advance(0.1)
    tick = waiting.result(PATIENCE)
    assert tick.missed == 1_000_000
    assert abs(tick.due - 101_000.1) < 0.001


# Pace.SKIP


def test_skip_starts_its_schedule_at_the_first_receive(face: Any, clock: VirtualClock) -> None:
    ticker = face.ticker(ConstantBackOff(10), clock=clock, pace=Pace.SKIP)
    clock.advance(7)
    first = ticker.receive_nowait()
    assert (first.due, first.missed) == (1007, 0)
    clock.advance(25)
    nothing_is_due(ticker)
    clock.advance_to(1037)
    tick = ticker.receive_nowait()
    assert (tick.due, tick.missed, tick.number, tick.lateness) == (1037, 2, 2, 0)


def test_skip_gives_a_late_reader_the_slot_of_that_very_moment(
    face: Any, clock: VirtualClock
) -> None:
    ticker = face.ticker(ConstantBackOff(10), clock=clock, pace=Pace.SKIP)
    ticker.receive_nowait()
    clock.advance(30)
    tick = face.receive(ticker)
    assert (tick.due, tick.missed) == (1030, 2)


def test_skip_gives_a_reader_that_waited_the_slot_it_waited_for(
    face: Any, clock: VirtualClock
) -> None:
    ticker = face.ticker(ConstantBackOff(10), clock=clock, pace=Pace.SKIP)
    face.receive(ticker)
    waiting = face.start_receive(ticker)
    wake_late(clock, 10, late=7)
    tick = waiting.result(PATIENCE)
    assert (tick.due, tick.missed, tick.lateness) == (1010, 0, 7)


def test_skip_counts_each_slot_passed_by_once(face: Any, clock: VirtualClock) -> None:
    """However often somebody asks in between without taking the tick."""
    ticker = face.ticker(ConstantBackOff(10), clock=clock, pace=Pace.SKIP)
    ticker.receive_nowait()
    for now in (1015, 1018, 1025, 1038):
        clock.advance_to(now)
        nothing_is_due(ticker)
    clock.advance_to(1040)
    tick = ticker.receive_nowait()
    assert (tick.due, tick.missed, tick.number) == (1040, 3, 2)


def test_skip_asks_the_policy_once_for_each_tick_delivered(face: Any, clock: VirtualClock) -> None:
    policy = Scripted(then=10.0)
    ticker = face.ticker(policy, clock=clock, pace=Pace.SKIP)
    ticker.receive_nowait()
    for late in range(1, 6):
        clock.advance(95)
        nothing_is_due(ticker)
        assert policy.asked == late
        clock.advance(5)
        assert ticker.receive_nowait().number == late + 1
        assert policy.asked == late + 1


def test_skip_follows_the_grid_of_the_current_delay(face: Any, clock: VirtualClock) -> None:
    ticker = face.ticker(Scripted(10.0, 4.0, 7.0), clock=clock, pace=Pace.SKIP)
    seen = []
    ticker.receive_nowait()
    for due in (1030, 1042, 1077):
        clock.advance_to(due - 2)
        nothing_is_due(ticker)
        clock.advance_to(due)
        tick = ticker.receive_nowait()
        seen.append((tick.due, tick.delay, tick.missed))
    assert seen == [(1030, 10, 2), (1042, 4, 2), (1077, 7, 4)]
    with pytest.raises(TickerClosed):
        ticker.receive_nowait()


def test_skip_adds_up_what_passed_at_the_taking_and_before_the_next_ask(
    face: Any, clock: VirtualClock
) -> None:
    ticker = face.ticker(ConstantBackOff(10), clock=clock, pace=Pace.SKIP)
    face.receive(ticker)
    waiting = face.start_receive(ticker)
    wake_late(clock, 10, late=25)
    assert waiting.result(PATIENCE).due == 1010
    clock.advance_to(1055)
    nothing_is_due(ticker)
    clock.advance_to(1060)
    tick = ticker.receive_nowait()
    assert (tick.due, tick.missed) == (1060, 4)


@pytest.mark.parametrize("pace", list(Pace))
@pytest.mark.parametrize("delay", [0.0, 5e-324, 1e-300])
def test_a_delay_too_short_to_count_is_no_delay(
    face: Any, clock: VirtualClock, pace: Pace, delay: float
) -> None:
    policy = with_max_retries(Scripted(then=delay), 3)
    ticker = face.ticker(policy, clock=clock, pace=pace)
    face.receive(ticker)
    clock.advance(1e9)
    assert [face.receive(ticker).number for _ in range(3)] == [2, 3, 4]


@pytest.mark.parametrize("pace", list(Pace))
def test_the_greatest_delay_is_a_wait_like_any_other(
    face: Any, clock: VirtualClock, pace: Pace
) -> None:
    greatest = 1.7976931348623157e308
    ticker = face.ticker(ConstantBackOff(greatest), clock=clock, pace=pace)
    face.receive(ticker)
    waiting = face.start_receive(ticker)
    clock.settle()
    assert not waiting.done()
    ticker.stop()
    assert isinstance(waiting.exception(PATIENCE), TickerClosed)

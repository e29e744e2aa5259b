"""When ticks fall due: the pure rules for any numbers, and the four paces of a ticker."""

import copy
import math
import pickle
from datetime import UTC, datetime
from fractions import Fraction

import pytest
from hypothesis import assume, example, given, strategies as st

from backoff_ticker import (
    ConstantBackOff,
    Pace,
    Tick,
    Ticker,
    TickerClosed,
    ZeroBackOff,
    with_max_retries,
)
from backoff_ticker.clock import later
from backoff_ticker.tickers import catch_up
from tests import effort
from tests.helpers import PATIENCE, SetClock
from tests.tickers.made_policies import (
    EVERY_PACE,
    Scripted,
    nothing_is_due,
    reader_that_waits,
    ticked,
)


@pytest.mark.parametrize(
    ("due", "delay", "now", "expected"),
    [
        (110, 10, 100, (110, 0)),
        (110, 10, 110, (110, 0)),
        (110, 10, 110.5, (120, 1)),
        (110, 10, 120, (120, 1)),
        (110, 10, 125, (130, 2)),
        (110, 10, 1110, (1110, 100)),
        (0, 0.5, 0.75, (1.0, 2)),
        (0, 0.7, 359.8, (359.8, 514)),  # although 514 * 0.7 is a little less in floats
        (110, 1000, 111, (1110, 1)),
        (110, 1e300, 111, (1e300, 1)),
        (110, 0, 125, (125, 0)),
        (110, 5e-324, 125, (125, 0)),
        (110, 1e-300, 125, (125, 0)),
        (125, 0, 125, (125, 0)),
        (130, 0, 125, (130, 0)),
    ],
)
def test_late_ticks_are_skipped(due, delay, now, expected):
    assert skip(due - delay, delay, now) == expected


def skip(slot, delay, now):
    """Return when the tick after ``slot`` is due with ``Pace.SKIP``, and how many were missed."""
    return catch_up(later(slot, delay), delay, now)


def test_a_tick_is_a_tuple_of_seven():
    tick = Tick(3, 1_700_000_000.25, 50.5, 2.0, 0.125, 4, 5)
    assert tick == (3, 1_700_000_000.25, 50.5, 2.0, 0.125, 4, 5)
    assert tick._fields == ("number", "time", "due", "delay", "lateness", "missed", "since_success")
    assert float(tick) == 1_700_000_000.25
    assert tick.datetime == datetime(2023, 11, 14, 22, 13, 20, 250_000, UTC)
    assert "number=3" in repr(tick)
    for twin in (copy.copy(tick), copy.deepcopy(tick), pickle.loads(pickle.dumps(tick))):
        assert (type(twin), twin) == (Tick, tick)
    assert not hasattr(tick, "__dict__")
    assert Tick(*tick[:6]).since_success == 0  # one that was pickled, or is made, without them


# For any numbers


def nanoseconds(seconds):
    """Return the nearest time that a clock can show."""
    return later(seconds, 0.0)


LARGEST = 1.7976931348623157e308
any_float = st.floats(allow_nan=False, allow_infinity=False)
any_delay = st.floats(0, allow_nan=False, allow_infinity=False)


@given(st.floats(0, 1e6), st.floats(1e-3, 1e3), st.integers(0, 10**6))
@example(-0.1, 0.1, 3)
@example(-0.1, 0.1, 7)
def test_a_slot_whose_time_is_now_is_taken(slot, delay, place):
    """Whatever a division makes of it."""
    now = nanoseconds(nanoseconds(slot + delay) + place * delay)
    caught, missed = skip(slot, delay, now)
    assert caught == now
    assert missed <= place


@given(st.integers(0, 10**6), st.integers(1, 10**4), st.integers(0, 10**9))
def test_skipping_is_exact_where_floats_are(slot, delay, now):
    steps = max(0, math.ceil(Fraction(now - slot - delay, delay)))
    assert skip(float(slot), float(delay), float(now)) == (slot + delay * (steps + 1), steps)


@given(any_float.map(nanoseconds), any_delay, any_float.map(nanoseconds))
@example(-1.0, 1e-300, 0.0)
@example(-1e300, 1.0, 1.0)
@example(-1e16, 0.5, 1.0)
@example(0.0, 5e-324, LARGEST)
@example(-LARGEST, 1.0, LARGEST)
@example(-LARGEST, LARGEST, LARGEST)
def test_skipping_is_no_search_step_by_step(slot, delay, now):
    assume(math.isfinite(slot + delay))
    caught, missed = skip(slot, delay, now)
    assert caught >= max(now, nanoseconds(slot + delay))
    assert missed >= 0


runs = st.lists(st.tuples(st.floats(1e-3, 1e6), st.floats(0, 1e6)), min_size=1, max_size=30)


@given(st.floats(0, 1e9), runs)
def test_due_times_rise_strictly(start, run):
    """Whatever the delays, and however late each tick is taken."""
    slot = taken = start
    for delay, late in run:
        due, _ = skip(slot, delay, taken)
        assert due > slot
        assert due >= taken
        slot, taken = due, max(due, taken) + late


TIMELINES = {
    Pace.RECEIPT: [(0, 0, 0), (25, 10, 0), (35, 35, 0), (45, 45, 0)],
    Pace.RETURN: [(0, 0, 0), (35, 35, 0), (45, 45, 0)],
    Pace.BURST: [(0, 0, 0), (25, 10, 0), (25, 20, 0), (30, 30, 0), (40, 40, 0)],
    Pace.SKIP: [(0, 0, 0), (30, 30, 2), (40, 40, 0)],
}


def wake_late(clock, seconds, *, late):
    """Let time pass until a waiting reader wakes up, and looks at the clock only ``late`` later."""
    clock.settle()
    with clock.trap("monotonic") as trap:
        clock.advance(seconds)
        trap.wait()
        clock.advance(late)


@EVERY_PACE
def test_the_timeline_in_the_docstring(face, clock, pace):
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


@EVERY_PACE
def test_the_policy_is_asked_when_the_tick_is_taken(face, clock, pace):
    policy = Scripted(then=10.0)
    ticker = face.ticker(policy, clock=clock, pace=pace)
    for taken in range(1, 5):
        assert policy.asked == taken - 1
        assert ticker.receive_nowait().number == taken
        nothing_is_due(ticker)
        assert policy.asked == taken
        clock.advance(10)


# Pace.RETURN


def test_return_is_not_restarted_by_a_reader_that_times_out(face, clock):
    ticker = ticked(face, ConstantBackOff(10), clock=clock, pace=Pace.RETURN)
    for _ in range(4):
        ask = reader_that_waits(face, clock, ticker, 2)
        clock.advance(2)
        assert isinstance(ask.exception(PATIENCE), TimeoutError)
    ask = reader_that_waits(face, clock, ticker)
    clock.advance(2)
    assert ask.result(PATIENCE).due == 1010


def test_return_does_not_count_a_look_at_the_ticker_as_an_ask(face, clock):
    ticker = face.ticker(ConstantBackOff(10), clock=clock, pace=Pace.RETURN)
    ticker.receive_nowait()
    clock.advance(100)
    assert (ticker.closed, ticker.close_reason) == (False, None)
    assert "open" in repr(ticker)
    nothing_is_due(ticker)
    clock.advance_to(1110)
    assert ticker.receive_nowait().due == 1110


# Pace.BURST


@pytest.mark.parametrize("behind", [False, True])
def test_burst_drifts_less_than_a_millisecond_in_a_million_ticks(behind):
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


# Pace.SKIP


def test_skip_gives_a_reader_that_waited_the_slot_it_waited_for(face, clock):
    ticker = ticked(face, ConstantBackOff(10), clock=clock, pace=Pace.SKIP)
    waiting = face.start_receive(ticker)
    wake_late(clock, 10, late=7)
    tick = waiting.result(PATIENCE)
    assert (tick.due, tick.missed, tick.lateness) == (1010, 0, 7)


def test_skip_follows_the_grid_of_the_current_delay_from_the_first_receive(face, clock):
    ticker = face.ticker(Scripted(10.0, 4.0, 7.0), clock=clock, pace=Pace.SKIP)
    clock.advance(7)
    first = ticker.receive_nowait()
    assert (first.due, first.missed) == (1007, 0)
    seen = []
    for due in (1037, 1049, 1084):
        clock.advance_to(due - 2)
        nothing_is_due(ticker)
        clock.advance_to(due)
        tick = ticker.receive_nowait()
        seen.append((tick.due, tick.delay, tick.missed, tick.lateness))
    assert seen == [(1037, 10, 2, 0), (1049, 4, 2, 0), (1084, 7, 4, 0)]
    with pytest.raises(TickerClosed):
        ticker.receive_nowait()


@EVERY_PACE
@pytest.mark.parametrize("delay", [0.0, 5e-324, 1e-300])
def test_a_delay_too_short_to_count_is_no_delay(face, clock, pace, delay):
    policy = with_max_retries(Scripted(then=delay), 3)
    ticker = ticked(face, policy, clock=clock, pace=pace)
    clock.advance(1e9)
    assert [face.receive(ticker).number for _ in range(3)] == [2, 3, 4]


@EVERY_PACE
def test_the_greatest_delay_is_a_wait_like_any_other(face, clock, pace):
    greatest = 1.7976931348623157e308
    ticker = ticked(face, ConstantBackOff(greatest), clock=clock, pace=pace)
    waiting = reader_that_waits(face, clock, ticker)
    assert not waiting.done()
    ticker.stop()
    assert isinstance(waiting.exception(PATIENCE), TickerClosed)


def test_receipt_is_the_default(face):
    assert face.ticker(ZeroBackOff()).pace is Pace.RECEIPT

"""When ticks fall due: the pure rules, first as tables, then for any numbers."""

from __future__ import annotations

import copy
import math
import pickle
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from backoff_ticker import CloseReason, Pace, Tick
from backoff_ticker.tickers._tick import catch_up

# Tables


@pytest.mark.parametrize(
    ("pace", "after"),
    [
        (Pace.RECEIPT, (135, 125, 0)),
        (Pace.RETURN, (None, None, 0)),
        (Pace.BURST, (110, 100, 0)),
        (Pace.SKIP, (130, 100, 2)),
    ],
)
def test_what_follows_a_tick_of_100_taken_at_125_with_a_delay_of_10(
    pace: Pace, after: tuple[Any, ...]
) -> None:
    assert pace.due_after(100, 125, 10) == after


@pytest.mark.parametrize("pace", [Pace.RECEIPT, Pace.BURST, Pace.SKIP])
def test_what_follows_a_tick_taken_in_time(pace: Pace) -> None:
    assert pace.due_after(100, 100, 10) == (110, 100, 0)


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
        (0, 0.7, 359.8, (360.5, 515)),  # 514 * 0.7 is rounded to less than 359.8
        (110, 1000, 111, (1110, 1)),
        (110, 1e300, 111, (1e300, 1)),
        (110, 0, 125, (125, 0)),
        (110, 5e-324, 125, (125, 0)),
        (110, 1e-300, 125, (125, 0)),
        (125, 0, 125, (125, 0)),
        (130, 0, 125, (130, 0)),
    ],
)
def test_catch_up(due: float, delay: float, now: float, expected: tuple[float, int]) -> None:
    assert catch_up(due, delay, now) == expected


def test_a_pace_has_the_names_of_the_documentation() -> None:
    assert [pace.name for pace in Pace] == ["RECEIPT", "RETURN", "BURST", "SKIP"]


def test_a_tick_is_a_tuple_of_seven() -> None:
    tick = Tick(3, 1_700_000_000.25, 50.5, 2.0, 0.125, 4, 5)
    assert tick == (3, 1_700_000_000.25, 50.5, 2.0, 0.125, 4, 5)
    assert tick._fields == ("number", "time", "due", "delay", "lateness", "missed", "failures")
    assert float(tick) == 1_700_000_000.25
    assert tick.datetime == datetime(2023, 11, 14, 22, 13, 20, 250_000, UTC)
    assert "number=3" in repr(tick)
    for twin in (copy.copy(tick), copy.deepcopy(tick), pickle.loads(pickle.dumps(tick))):
        assert (type(twin), twin) == (Tick, tick)
    assert not hasattr(tick, "__dict__")
    assert Tick(*tick[:6]).failures == 0  # one that was pickled, or is made, without them


def test_a_close_reason_survives_pickling() -> None:
    for reason in CloseReason:
        assert pickle.loads(pickle.dumps(reason)) is reason


# For any numbers

moments = st.floats(0, 1e12)
waits = st.floats(0, 1e9)
LARGEST = 1.7976931348623157e308
any_float = st.floats(allow_nan=False, allow_infinity=False)
any_delay = st.floats(0, allow_nan=False, allow_infinity=False)


@given(st.floats(0, 1e9), st.floats(1e-6, 1e9), st.floats(0, 1e9))
def test_catch_up_finds_the_first_slot_of_the_grid(due: float, delay: float, now: float) -> None:
    caught, missed = catch_up(due, delay, now)
    if due < now and now + delay == now:
        assert (caught, missed) == (now, 0)
    else:
        assert caught == due + missed * delay
        assert missed == 0 or due + (missed - 1) * delay < now


@given(st.floats(0, 1e6), st.floats(1e-3, 1e3), st.integers(0, 10**6))
@example(0.0, 0.1, 3)
@example(0.0, 0.1, 7)
def test_catch_up_takes_a_slot_whose_time_is_now(due: float, delay: float, place: int) -> None:
    """Whatever a division makes of it."""
    now = due + place * delay
    caught, missed = catch_up(due, delay, now)
    assert caught == now
    assert missed <= place


@given(st.integers(0, 10**6), st.integers(1, 10**4), st.integers(0, 10**9))
def test_catch_up_is_exact_where_floats_are(due: int, delay: int, now: int) -> None:
    steps = max(0, math.ceil(Fraction(now - due, delay)))
    assert catch_up(float(due), float(delay), float(now)) == (due + steps * delay, steps)


class Counted(float):
    """A due time that counts how often something is added to it, and loses patience."""

    additions = 0

    def __add__(self, other: float) -> float:
        self.additions += 1
        assert self.additions < 100, "it searches step by step"
        return float(self) + other


@given(any_float, any_delay, any_float)
@example(-1.0, 1e-300, 0.0)
@example(-1e300, 1.0, 1.0)
@example(-1e16, 0.5, 1.0)
@example(0.0, 5e-324, LARGEST)
@example(-LARGEST, 1.0, LARGEST)
@example(-LARGEST, LARGEST, LARGEST)
def test_catch_up_is_fast_for_any_floats(due: float, delay: float, now: float) -> None:
    caught, missed = catch_up(Counted(due), delay, now)
    assert caught >= now
    assert caught >= due
    assert missed >= 0


paces = st.sampled_from([Pace.RECEIPT, Pace.BURST, Pace.SKIP])
runs = st.lists(st.tuples(st.floats(1e-3, 1e6), st.floats(0, 1e6)), min_size=1, max_size=30)


@given(paces, st.floats(0, 1e9), runs)
def test_due_times_rise_strictly(pace: Pace, start: float, run: list[tuple[float, float]]) -> None:
    """Whatever the delays, and however late each tick is taken."""
    rule = pace.due_after
    slot = taken = start
    for delay, late in run:
        due, origin, _ = rule(slot, taken, delay)
        assert due is not None and origin is not None
        assert due > slot
        assert origin in (slot, taken)
        if pace is not Pace.BURST:
            assert due >= taken
        slot, taken = due, max(due, taken) + late


@given(st.floats(0, 1e6), st.floats(1e-3, 1e3), st.lists(st.floats(0, 1e4), max_size=30))
def test_skip_stays_on_the_grid(start: float, delay: float, lates: list[float]) -> None:
    """Slots passed by and slots delivered add up to the place on the grid."""
    rule = Pace.SKIP.due_after
    slot, taken, place = start, start, 0
    for late in lates:
        due, _, missed = rule(slot, taken, delay)
        assert due is not None
        place += missed + 1
        assert due == pytest.approx(start + place * delay, rel=1e-9)
        slot, taken = due, due + late

"""Exponential back-off: the vectors of its two sources, its draws and its parameters."""

from __future__ import annotations

import math
import random
import time
from datetime import timedelta

import pytest
from hypothesis import given, strategies as st

from backoff_ticker import STOP, BackOff, ExponentialBackOff
from tests.helpers import readable_id
from tests.policies.policy_doubles import ask, steps
from tests.policies.policy_strategies import LARGEST
from tests.policies.random_doubles import StubRandom


def sequence(count, **options):
    return ask(ExponentialBackOff(max_elapsed_time=None, **options), count)


def first_draw(drawn, **options):
    return sequence(1, rng=StubRandom(drawn), **options)[0]


# The interval


def test_the_sequence_of_go_without_jitter():
    assert sequence(14, randomization_factor=0) == [
        0.5,
        0.75,
        1.125,
        1.6875,
        2.53125,
        3.796875,
        5.6953125,
        8.54296875,
        12.814453125,
        19.2216796875,
        28.83251953125,
        43.248779296875,
        60.0,
        60.0,
    ]


def test_the_sequence_of_the_java_test():
    options = {"initial_interval": 0.5, "multiplier": 2, "max_interval": 5}
    expected = [0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0]
    assert sequence(10, randomization_factor=0, **options) == expected
    policy = ExponentialBackOff(randomization_factor=0.1, **options)
    intervals = []
    for _ in expected:
        intervals.append(policy.current_interval)
        policy.next_backoff()
    assert intervals == expected


def test_the_defaults_are_those_of_the_sources():
    policy = ExponentialBackOff()
    assert policy.initial_interval == 0.5
    assert policy.randomization_factor == 0.5
    assert policy.multiplier == 1.5
    assert policy.max_interval == 60.0
    assert policy.max_elapsed_time == 900.0
    assert policy.look_ahead is True


def test_parameters_go_in_the_published_order():
    rng = StubRandom(0.0)
    policy = ExponentialBackOff(1, 0.25, 2, 8, 100, False, rng)
    assert ask(policy, 5) == [0.75, 1.5, 3.0, 6.0, 6.0]
    assert policy.max_elapsed_time == 100.0
    assert policy.look_ahead is False
    assert rng.draws == 5


def test_durations_may_be_timedeltas():
    policy = ExponentialBackOff(
        initial_interval=timedelta(milliseconds=500),
        max_interval=timedelta(minutes=1),
        max_elapsed_time=timedelta(minutes=15),
    )
    assert policy.initial_interval == 0.5
    assert policy.max_interval == 60.0
    assert policy.max_elapsed_time == 900.0


def test_reset_begins_with_the_first_interval():
    policy = ExponentialBackOff(randomization_factor=0)
    first = ask(policy, 4)
    policy.reset()
    assert policy.current_interval == 0.5
    assert ask(policy, 4) == first


# The draw


@pytest.mark.parametrize(
    ("drawn", "delay"),
    [(0.0, 0.25), (0.25, 0.375), (0.5, 0.5), (0.75, 0.625), (0.999999999, 0.75)],
)
def test_a_draw_is_uniform_around_the_interval(drawn, delay):
    assert first_draw(drawn) == pytest.approx(delay, rel=1e-8)
    assert first_draw(drawn) < 0.75


def test_a_factor_close_to_one_comes_close_to_zero_and_not_below():
    least = first_draw(0.0, initial_interval=1, randomization_factor=0.999)
    assert least == pytest.approx(0.001)
    assert first_draw(0.0, initial_interval=5e-324, randomization_factor=0.999) >= 0.0


def test_each_delay_draws_once():
    rng = StubRandom(0.5)
    sequence(7, rng=rng)
    assert rng.draws == 7


def test_the_maximum_caps_the_interval_and_not_the_jittered_delay():
    delays = sequence(20, rng=StubRandom(0.999999999))
    assert delays[-1] == pytest.approx(90.0)
    assert max(delays) < 90.0


def test_the_jitter_does_not_feed_back_into_the_interval():
    policy = ExponentialBackOff(rng=StubRandom(0.0))
    assert ask(policy, 3) == [0.25, 0.375, 0.5625]
    assert policy.current_interval == 1.6875


# Overflow


def test_an_interval_that_overflows_is_the_maximum():
    policy = ExponentialBackOff(LARGEST / 2, 0, 2.1, LARGEST, None)
    assert policy.next_backoff() == LARGEST / 2
    assert policy.current_interval == LARGEST
    assert policy.next_backoff() == LARGEST


def test_a_great_multiplier_does_not_overflow():
    expected = [0.5, LARGEST / 2, LARGEST]
    options = {"randomization_factor": 0, "multiplier": LARGEST, "max_interval": LARGEST}
    assert sequence(3, **options) == expected


@pytest.mark.parametrize(
    ("drawn", "share"), [(0.0, 0.5), (0.25, 0.75), (0.5, 1.0), (0.75, 1.0), (0.999999999, 1.0)]
)
def test_a_draw_that_overflows_saturates_at_the_largest_float(drawn, share):
    delay = first_draw(drawn, initial_interval=LARGEST, max_interval=LARGEST)
    assert delay / LARGEST == pytest.approx(share)
    assert math.isfinite(delay)


@pytest.mark.parametrize("cap", [LARGEST, math.inf, None])
def test_a_late_attempt_costs_what_attempt_one_costs(cap):
    options = {"multiplier": 1.5, "max_interval": cap, "max_elapsed_time": None}
    young, old = ExponentialBackOff(**options), ExponentialBackOff(**options)
    for _ in range(10_000):
        old.next_backoff()
    assert old.current_interval == LARGEST
    assert steps(old.next_backoff) <= steps(young.next_backoff)


# The parameters


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"initial_interval": 0}, "initial_interval must be > 0, not 0"),
        ({"initial_interval": timedelta(0)}, "initial_interval must be > 0, not datetime."),
        ({"randomization_factor": 1}, "randomization_factor must be >= 0 and < 1, not 1"),
        ({"randomization_factor": -0.1}, "randomization_factor must be >= 0 and < 1, not -0.1"),
        ({"multiplier": 0.99}, "multiplier must be >= 1, not 0.99"),
        ({"multiplier": 0}, "multiplier must be >= 1, not 0"),
        ({"multiplier": -2}, "multiplier must be >= 1, not -2"),
        ({"max_interval": 0.499}, "max_interval must be >= initial_interval (0.5), not 0.499"),
        ({"initial_interval": 61}, "max_interval must be >= initial_interval (61), not 60.0"),
    ],
)
def test_what_the_java_builder_refuses_is_refused(options, message):
    with pytest.raises(ValueError) as caught:
        ExponentialBackOff(**options)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "options",
    [
        {"multiplier": 1},
        {"multiplier": 1e300},
        {"randomization_factor": 0.999},
        {"randomization_factor": 0},
        {"max_interval": 0.5},
        {"max_elapsed_time": 0.001},
    ],
)
def test_what_the_java_builder_accepts_is_accepted(options):
    policy = ExponentialBackOff(**options)
    assert {name: getattr(policy, name) for name in options} == options
    assert (policy.next_backoff() is STOP) == ("max_elapsed_time" in options)


@pytest.mark.parametrize("look_ahead", [1, 0, None, "yes"])
def test_look_ahead_must_be_a_bool(look_ahead):
    with pytest.raises(TypeError) as caught:
        ExponentialBackOff(look_ahead=look_ahead)
    assert str(caught.value) == f"look_ahead must be a bool, not {look_ahead!r}"


@pytest.mark.parametrize(
    "rng", [42, 0, "seed", random, random.Random, random.random], ids=readable_id
)
def test_rng_must_be_a_generator(rng):
    with pytest.raises(TypeError) as caught:
        ExponentialBackOff(rng=rng)
    assert str(caught.value) == f"rng must be a random.Random or None, not {rng!r}"


def test_a_clock_must_tell_the_time_that_is_needed():
    ExponentialBackOff(clock=time)  # the module has a function of that name
    with pytest.raises(TypeError, match=r"clock must have a method monotonic\(\), not be 5"):
        ExponentialBackOff(clock=5)


def test_it_keeps_the_contract_of_a_policy_and_is_small():
    assert isinstance(ExponentialBackOff(), BackOff)
    assert not hasattr(ExponentialBackOff(), "__dict__")


def test_it_prints_as_it_is_made():
    policy = ExponentialBackOff(1, 0.25, 2, 8, None, look_ahead=False)
    twin = eval(repr(policy), {"ExponentialBackOff": ExponentialBackOff})
    assert repr(twin) == repr(policy)
    assert "initial_interval=1.0" in repr(policy)


# Properties

moderate = st.floats(1e-9, 1e6)


@given(
    initial=moderate,
    factor=st.floats(0, 1, exclude_max=True),
    multiplier=st.floats(1, 1e6),
    headroom=st.floats(1, 1e12),
    drawn=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=50),
)
def test_every_draw_is_within_its_bounds_and_the_interval_grows_to_its_cap(
    initial, factor, multiplier, headroom, drawn
):
    rng = StubRandom(0.0)
    cap = initial * headroom
    policy = ExponentialBackOff(initial, factor, multiplier, cap, None, rng=rng)
    for number in drawn:
        interval = policy.current_interval
        rng.drawn = number
        delay = policy.next_backoff()
        rounding = interval * 1e-15
        assert interval * (1 - factor) - rounding <= delay <= interval * (1 + factor) + rounding
        assert delay >= 0.0
        assert interval <= policy.current_interval <= cap
        assert policy.current_interval == pytest.approx(min(interval * multiplier, cap), rel=1e-12)

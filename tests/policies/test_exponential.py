"""Exponential back-off: its parameters, elapsed time, clocks and generators."""

from __future__ import annotations

import copy
import json
import math
import pickle
import random
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from random import SystemRandom

import pytest
from hypothesis import given, strategies as st

from backoff_ticker import (
    STOP,
    CancellationToken,
    ExponentialBackOff,
    Ticker,
    TickerClosed,
    with_max_retries,
    with_token,
)
from tests.helpers import SetClock, readable_id
from tests.policies.policy_doubles import InDict, ask, steps
from tests.policies.policy_strategies import LARGEST
from tests.policies.random_doubles import StubRandom

# The interval


def test_parameters_go_in_the_published_order():
    rng = StubRandom(0.0)
    policy = ExponentialBackOff(1, 0.25, 2, 8, 100, False, rng)
    assert ask(policy, 5) == [0.75, 1.5, 3.0, 6.0, 6.0]
    assert policy.max_elapsed_time == 100.0
    assert policy.look_ahead is False
    assert rng.draws == 5


# Overflow


def test_an_interval_that_overflows_is_the_maximum():
    policy = ExponentialBackOff(LARGEST / 2, 0, 2.1, LARGEST, None)
    assert policy.next_backoff() == LARGEST / 2
    assert policy.current_interval == LARGEST
    assert policy.next_backoff() == LARGEST


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


# In use


def constant(interval, limit, clock, **options):
    """Return a policy whose delays are ``interval`` and whose interval shows if it advanced."""
    return ExponentialBackOff(interval, 0, 2, 1000, limit, clock=clock, **options)


# The limit of elapsed time


def test_looking_ahead_equality_passes(clock):
    policy = constant(2, 3, clock)
    clock.advance(1)
    assert policy.next_backoff() == 2.0


def test_looking_ahead_stops_before_a_delay_that_would_pass_the_limit(clock):
    policy = constant(2, 3, clock)
    clock.advance(1.001)
    assert policy.next_backoff() is STOP


def test_looking_ahead_draws_and_advances_also_when_it_stops(clock):
    rng = StubRandom(0.5)
    policy = ExponentialBackOff(2, 0.5, 2, 1000, 1, rng=rng, clock=clock)
    assert policy.next_backoff() is STOP
    assert rng.draws == 1
    assert policy.current_interval == 4.0


def test_looking_back_equality_passes(clock):
    policy = constant(2, 1, clock, look_ahead=False)
    clock.advance(1)
    assert policy.next_backoff() == 2.0


def test_looking_back_stops_once_the_limit_has_passed(clock):
    policy = constant(2, 1, clock, look_ahead=False)
    clock.advance(1.001)
    assert policy.next_backoff() is STOP


def test_looking_back_neither_draws_nor_advances_when_it_stops(clock):
    rng = StubRandom(0.5)
    policy = ExponentialBackOff(2, 0.5, 2, 1000, 1, look_ahead=False, rng=rng, clock=clock)
    clock.advance(2)
    assert policy.next_backoff() is STOP
    assert rng.draws == 0
    assert policy.current_interval == 2.0


@pytest.mark.parametrize("look_ahead", [True, False])
def test_stop_repeats_until_reset(clock, look_ahead):
    policy = constant(2, 3, clock, look_ahead=look_ahead)
    clock.advance(10)
    assert ask(policy, 3) == [STOP] * 3
    policy.reset()
    assert policy.elapsed_time == 0.0
    assert policy.next_backoff() == 2.0


@pytest.mark.parametrize("limit", [None, 0, 0.0])
@pytest.mark.parametrize("look_ahead", [True, False])
def test_none_and_zero_are_no_limit(clock, limit, look_ahead):
    policy = constant(2, limit, clock, look_ahead=look_ahead)
    clock.advance(1e12)
    assert policy.next_backoff() == 2.0
    assert policy.max_elapsed_time is None


# Whose clock


def bare(policy):
    return policy


def wrapped_by_us(policy):
    return with_max_retries(with_token(policy, CancellationToken()), 99)


def wrapped_by_a_user(policy):
    return InDict(policy)


def wrapped_by_both(policy):
    return with_max_retries(wrapped_by_a_user(wrapped_by_us(wrapped_by_a_user(policy))), 50)


DEPTHS = [bare, wrapped_by_us, wrapped_by_a_user, wrapped_by_both]


@pytest.mark.parametrize("wrap", DEPTHS)
def test_a_ticker_lends_its_clock_at_any_depth(clock, wrap):
    policy = ExponentialBackOff(2, 0, 1, 2, max_elapsed_time=5)
    ticker = Ticker(wrap(policy), clock=clock)
    clock.advance(100)
    ticker.reset()
    clock.advance(2)
    assert ticker.receive_nowait().delay == 2.0
    clock.advance(2)
    assert ticker.receive_nowait().delay == 2.0
    with pytest.raises(TickerClosed):
        ticker.receive_nowait()


@pytest.mark.parametrize("wrap", DEPTHS)
def test_a_clock_of_its_own_is_kept(clock, wrap):
    own = SetClock()
    ticker = Ticker(wrap(constant(2, 5, own)), clock=clock)
    own.advance(4)
    ticker.receive_nowait()
    assert ticker.closed
    ticker = Ticker(wrap(constant(2, 5, own)), clock=clock)
    clock.advance(4)
    ticker.receive_nowait()
    assert not ticker.closed


# Generators


def test_a_ticker_draws_from_the_generator_of_the_user(clock):
    ticker = Ticker(ExponentialBackOff(max_elapsed_time=None, rng=random.Random(7)), clock=clock)
    delays = []
    for _ in range(20):
        delays.append(ticker.receive_nowait().delay)
        clock.advance(1000)
    assert delays[1:] == ask(ExponentialBackOff(rng=random.Random(7)), 19)


@pytest.mark.parametrize("twin_of", [copy.copy, copy.deepcopy])
def test_unseeded_copies_do_not_draw_in_step(twin_of):
    policy = ExponentialBackOff()
    twin = twin_of(policy)
    assert ask(policy, 20) != ask(twin, 20)


def test_unpickled_twins_of_an_unseeded_policy_do_not_draw_in_step():
    """As when one policy is sent to the workers of a process pool."""
    pickled = pickle.dumps(ExponentialBackOff())
    assert ask(pickle.loads(pickled), 20) != ask(pickle.loads(pickled), 20)


def test_a_seed_of_the_global_generator_fixes_nothing():
    state = random.getstate()
    try:
        random.seed(1)
        first = ask(ExponentialBackOff(), 20)
        random.seed(1)
        assert ask(ExponentialBackOff(), 20) != first
    finally:
        random.setstate(state)


# Forked children


ROOT = Path(__file__).parents[2]

FORK = """
import json, os, random
from backoff_ticker import ExponentialBackOff

unseeded = ExponentialBackOff(1, 0.5, 1, 1)
seeded = ExponentialBackOff(1, 0.5, 1, 1, rng=random.Random(7))
unseeded.next_backoff(), seeded.next_backoff()

def drawn():
    policies = (unseeded, seeded)
    return [[policy.next_backoff() for _ in range(5)] for policy in policies]

def child():
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, json.dumps(drawn()).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        text = answer.read()
    assert os.waitpid(pid, 0)[1] == 0
    return json.loads(text)

print(json.dumps([child(), child(), drawn()]))
"""


@pytest.fixture(scope="module")
def forked():
    """What two forked children and then their parent drew, unseeded and seeded."""
    done = subprocess.run(
        [sys.executable, "-c", FORK],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_forked_children_and_their_parent_draw_different_numbers(forked):
    unseeded = [draws[0] for draws in forked]
    numbers = {number for draws in unseeded for number in draws}
    assert len(numbers) == 15


def test_the_generator_of_a_user_is_left_alone_in_a_forked_child(forked):
    first, second, parent = (draws[1] for draws in forked)
    assert first == second == parent


def test_a_generator_of_any_subclass_is_taken():
    assert 0.5 <= ExponentialBackOff(1, rng=SystemRandom()).next_backoff() <= 1.5

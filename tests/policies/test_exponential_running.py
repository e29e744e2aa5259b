"""Exponential back-off in use: elapsed time, clocks, copies and generators."""

from __future__ import annotations

import copy
import pickle
import random

import pytest

from backoff_ticker import (
    STOP,
    CancellationToken,
    ExponentialBackOff,
    SystemClock,
    Ticker,
    TickerClosed,
    with_max_retries,
    with_token,
)
from tests.helpers import SetClock
from tests.policies.policy_doubles import InDict, ask
from tests.policies.random_doubles import StubRandom


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


def test_looking_ahead_takes_the_drawn_delay_and_not_the_interval(clock):
    rng = StubRandom(0.0)
    policy = ExponentialBackOff(2, 0.5, 1, 2, 1.5, rng=rng, clock=clock)
    assert policy.next_backoff() == 1.0
    rng.drawn = 0.75
    assert policy.next_backoff() is STOP
    rng.drawn = 0.25
    assert policy.next_backoff() == 1.5


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


def test_elapsed_time_runs_from_construction_and_from_reset(clock):
    policy = ExponentialBackOff(clock=clock)
    clock.advance(5)
    assert policy.elapsed_time == 5.0
    policy.next_backoff()
    assert policy.elapsed_time == 5.0
    policy.reset()
    assert policy.elapsed_time == 0.0
    clock.advance(2.5)
    assert policy.elapsed_time == 2.5


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


def test_where_nobody_runs_it_the_current_clock_counts():
    policy = ExponentialBackOff()
    before = SystemClock().monotonic()
    policy.reset()
    elapsed = policy.elapsed_time
    assert 0.0 <= elapsed <= SystemClock().monotonic() - before


# Copies


def test_a_copy_is_independent(clock):
    policy = ExponentialBackOff(randomization_factor=0, max_elapsed_time=100, clock=clock)
    policy.next_backoff()
    twin = copy.copy(policy)
    assert twin.current_interval == 0.75
    twin.next_backoff()
    twin.max_interval = 1.0
    clock.advance(5)
    twin.reset()
    assert policy.current_interval == 0.75
    assert policy.max_interval == 60.0
    assert policy.elapsed_time == 5.0
    assert twin.elapsed_time == 0.0


def test_a_copy_has_every_parameter(clock):
    policy = ExponentialBackOff(
        1, 0.25, 2, 8, 100, look_ahead=False, rng=random.Random(1), clock=clock
    )
    twin = copy.copy(policy)
    assert type(twin) is ExponentialBackOff
    assert repr(twin) == repr(policy)
    clock.advance(101)
    assert twin.next_backoff() is STOP


# Generators


def test_equal_seeds_give_equal_sequences():
    first, second, other = (ExponentialBackOff(rng=random.Random(seed)) for seed in (7, 7, 8))
    expected = ask(first, 20)
    assert ask(second, 20) == expected
    assert ask(other, 20) != expected


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


def test_an_unpickled_policy_goes_on_where_its_seeded_original_was():
    policy = ExponentialBackOff(rng=random.Random(7))
    policy.next_backoff()
    twin = pickle.loads(pickle.dumps(policy))
    assert ask(twin, 20) == ask(policy, 20)


def test_a_seed_of_the_global_generator_fixes_nothing():
    state = random.getstate()
    try:
        random.seed(1)
        first = ask(ExponentialBackOff(), 20)
        random.seed(1)
        assert ask(ExponentialBackOff(), 20) != first
    finally:
        random.setstate(state)


def test_an_unseeded_policy_leaves_the_global_generator_alone():
    state = random.getstate()
    ask(ExponentialBackOff(), 20)
    assert random.getstate() == state

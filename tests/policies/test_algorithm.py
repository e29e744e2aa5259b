"""The feedback policies in use: refused timestamps, limits, clocks, copies, tickers."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from backoff_ticker import (
    STOP,
    LILDBackOff,
    LIMDBackOff,
    SystemClock,
    Ticker,
)
from tests.policies.policy_strategies import LARGEST
from tests.policies.random_doubles import StubRandom


def state(policy):
    return policy.attempts, policy.last_delay, policy._timestamp


def test_every_first_failure_has_the_same_delay_and_next_backoff_is_a_failure(make):
    assert make().failure() == 2.0
    policy = make()
    assert policy.next_backoff() == 2.0
    assert policy.attempts == 1


def test_a_timestamp_that_goes_back_is_refused_and_nothing_has_changed(make):
    policy = make(rng=random.Random(3), jitter_factor=0.2)
    policy.failure(10.0)
    before, draws = state(policy), policy._rng.getstate()
    for call in (policy.failure, policy.success):
        with pytest.raises(ValueError, match=r"timestamp must not be less .*\(10\.0\), not 9\.5"):
            call(9.5)
    assert state(policy) == before
    assert policy._rng.getstate() == draws
    assert policy.failure(10.0) is not STOP


def test_the_clock_gives_the_timestamp(make, clock):
    policy = make(consider_actual_delay=True)
    first = policy.failure()
    clock.advance(1e6)
    assert policy.failure() == 0.0
    assert policy._timestamp == clock.time()
    with pytest.raises(ValueError):
        policy.failure(clock.time() - 1)
    assert first > 0


def test_a_clock_that_is_set_back_is_refused_as_in_the_source(make, clock):
    policy = make()
    policy.failure()
    clock.set_back(60)
    with pytest.raises(ValueError, match="timestamp must not be less"):
        policy.failure()


def test_a_clock_that_is_set_back_does_not_end_a_ticker(make, clock):
    ticker, start, told = Ticker(make(clock=None), clock=clock), clock.time(), []
    for number in (1, 2, 3):
        clock.advance(100)
        assert ticker.receive_nowait().number == number
        ticker.failure()
        told.append(ticker.backoff._timestamp)
        clock.set_back(60 + 100 * number)
    assert told == [start + 100] * 3


def test_after_a_timestamp_that_was_given_the_clock_must_not_be_behind(make, clock):
    policy = make()
    policy.failure(clock.time() + 5)
    with pytest.raises(ValueError, match="timestamp must not be less"):
        policy.failure()


def test_attempts_count_failures_in_a_row(make):
    policy = make(max_attempts=3)
    assert [policy.failure() is STOP for _ in range(4)] == [False, False, True, True]
    assert policy.attempts == 4
    policy.success()
    assert policy.attempts == 0
    assert [policy.failure() is STOP for _ in range(3)] == [False, False, True]


def test_what_stops_does_not_move_the_timestamp(make, clock):
    policy = make(max_actual_duration=5)
    start = clock.time()
    policy.failure(start + 1)
    assert policy.failure(start + 5) is STOP
    assert state(policy)[::2] == (1, start + 1)
    assert policy.failure(start + 4) is not STOP


def test_both_limits_bind_and_the_time_does_so_first(make, clock):
    policy = make(max_actual_duration=4, max_attempts=3)
    start = clock.time()
    assert policy.failure(start) is not STOP
    assert policy.failure(start + 2) is not STOP
    assert policy.failure(start + 4) is STOP
    assert policy.attempts == 2


def test_the_start_is_construction_and_reset(make, clock):
    policy = make(max_actual_duration=5)
    clock.advance(5)
    assert policy.failure() is STOP
    policy.reset()
    assert state(policy) == (0, None, None)
    assert policy.failure() == 2.0


def test_after_reset_time_may_go_back(make):
    policy = make()
    policy.failure(1e12)
    policy.reset()
    assert policy.failure(0.0) == 2.0


def test_the_least_delay_wins_over_the_greatest(make):
    policy = make(min_delay=5, max_delay=3)
    assert (policy.failure(), policy.success()) == (5.0, 5.0)


def test_no_delay_is_below_zero_or_above_the_greatest(make):
    policy = make(max_delay=4)
    answers = [policy.failure() for _ in range(9)] + [policy.success() for _ in range(9)]
    assert min(answers) >= 0.0
    assert max(answers) <= 4.0


def test_the_jitter_draws_around_the_delay(make):
    for drawn, expected in [(0.0, 1.0), (0.5, 2.0), (0.75, 2.5)]:
        assert make(jitter_factor=0.5, rng=StubRandom(drawn)).failure() == expected


def test_without_jitter_nothing_is_drawn(make):
    rng = StubRandom(0.5)
    policy = make(rng=rng)
    policy.failure()
    policy.success()
    assert rng.draws == 0


def test_times_at_the_ends_of_the_floats_give_a_delay():
    policy = LILDBackOff(LARGEST, LARGEST, 1, consider_actual_delay=True)
    assert policy.failure(-LARGEST) == LARGEST
    assert policy.failure(LARGEST) == 0.0


def test_durations_may_be_timedeltas():
    policy = LILDBackOff(timedelta(seconds=2), timedelta(seconds=1), timedelta(seconds=-1))
    assert [policy.failure(), policy.failure(), policy.success()] == [2.0, 3.0, 2.0]


def test_consider_actual_delay_must_be_a_bool(make):
    with pytest.raises(TypeError, match="consider_actual_delay must be a bool, not 1"):
        make(consider_actual_delay=1)


def test_repr_shows_what_is_unusual():
    policy = LIMDBackOff(2, 4, 0.2, min_delay=1, max_attempts=3)
    assert repr(policy) == (
        "LIMDBackOff(initial_delay=2.0, delay_increment_on_failure=4.0, "
        "delay_multiple_on_success=0.2, max_attempts=3, min_delay=1.0)"
    )


def test_a_ticker_lends_its_clock_but_a_given_one_stays(make, clock):
    with Ticker(make(clock=None), clock=clock) as ticker:
        assert ticker.backoff._clock is clock
        assert ticker.backoff._start == clock.time()
    own = SystemClock()
    with Ticker(make(clock=own), clock=clock) as ticker:
        assert ticker.backoff._clock is own


def test_a_ticker_passes_on_success_and_counts_silence_as_failure(clock):
    ticker = Ticker(LIMDBackOff(2, 4, 0.5), clock=clock)
    waited = []
    for outcome in ("failure", "silence", "success", "success"):
        tick = ticker.receive_nowait()
        waited.append(tick.delay)
        if outcome != "silence":
            getattr(ticker, outcome)()
        with pytest.raises(Exception, match="no tick is due"):
            ticker.receive_nowait()
        clock.advance(10)
    waited.append(ticker.receive_nowait().delay)
    assert waited == [0.0, 2.0, 6.0, 3.0, 1.5]


def test_a_ticker_ends_when_the_policy_gives_up(make, clock):
    ticker = Ticker(make(max_attempts=3, clock=None), clock=clock)
    ticks = 0
    while True:
        try:
            ticker.receive_nowait()
        except Exception:
            if ticker.closed:
                break
            clock.advance(10)
        else:
            ticks += 1
    assert ticks == 3

"""The feedback policies in use: refused timestamps, clocks and tickers."""

import random

import pytest

from backoff_ticker import STOP, Ticker


def state(policy):
    return policy.attempts, policy.last_delay, policy._timestamp


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


def test_the_clock_gives_the_timestamp_and_must_not_be_set_back_as_in_the_source(make, clock):
    policy = make(consider_actual_delay=True)
    assert policy.failure() > 0
    clock.advance(1e6)
    assert policy.failure() == 0.0
    with pytest.raises(ValueError, match="timestamp must not be less"):
        policy.failure(clock.time() - 1)
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


def test_the_start_is_construction_and_reset(make, clock):
    policy = make(max_actual_duration=5)
    clock.advance(5)
    assert policy.failure() is STOP
    policy.reset()
    assert state(policy) == (0, None, None)
    assert policy.failure() == 1.0

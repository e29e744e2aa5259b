"""Limits around a policy: of retries, of elapsed time, of a delay."""

from __future__ import annotations

import copy
import pickle
from datetime import timedelta

import pytest

from backoff_ticker import (
    STOP,
    ConstantBackOff,
    ExponentialBackOff,
    FibonacciBackOff,
    LIMDBackOff,
    StopBackOff,
    SystemClock,
    Ticker,
    ZeroBackOff,
    delays,
    with_max_elapsed_time,
    with_max_interval,
    with_max_retries,
)
from backoff_ticker.policies import start_policy
from tests.helpers import SetClock
from tests.policies.policy_doubles import Feedback, Recording, ask

LIMITS = [lambda p: with_max_interval(p, 3), lambda p: with_max_elapsed_time(p, 3)]


# Retries


def test_so_many_delays_and_then_stop_until_reset():
    inner = Recording()
    policy = with_max_retries(inner, 2)
    assert ask(policy, 4) == [1.0, 2.0, STOP, STOP]
    assert inner.calls == ["next", "next"]
    policy.reset()
    assert inner.calls == ["next", "next", "reset"]
    assert policy.retries == 0
    assert ask(policy, 3) == [3.0, 4.0, STOP]


def test_no_retries_is_a_single_attempt():
    inner = Recording()
    assert ask(with_max_retries(inner, 0), 2) == [STOP, STOP]
    assert inner.calls == []


def test_the_count_rises_also_where_the_policy_inside_stops():
    inner = Recording([STOP, 7.0])
    policy = with_max_retries(inner, 2)
    assert ask(policy, 3) == [STOP, 7.0, STOP]
    assert policy.retries == 2


def test_of_two_limits_the_lower_counts():
    assert list(delays(with_max_retries(with_max_retries(ZeroBackOff(), 5), 3))) == [0.0] * 3
    assert list(delays(with_max_retries(with_max_retries(ZeroBackOff(), 3), 5))) == [0.0] * 3


def test_what_it_holds_can_be_read():
    inner = ConstantBackOff(1)
    policy = with_max_retries(inner, 3)
    policy.next_backoff()
    assert (policy.backoff, policy.max_retries, policy.retries) == (inner, 3, 1)


def test_a_success_of_a_feedback_policy_starts_the_count_anew():
    inner = Feedback()
    policy = with_max_retries(inner, 2)
    assert [policy.failure(10.0), policy.failure(), policy.failure()] == [5.0, 5.0, STOP]
    assert policy.success(20.0) == 0.5
    assert policy.retries == 0
    assert policy.failure() == 5.0
    assert inner.calls == [
        ("failure", 10.0),
        ("failure", None),
        ("success", 20.0),
        ("failure", None),
    ]


def test_what_the_policy_inside_refuses_to_hear_is_not_counted():
    policy = with_max_retries(LIMDBackOff(1, 1, 1), 2)
    policy.failure(5)
    for bad in (4, "x"):
        for tell in (policy.failure, policy.success):
            with pytest.raises((TypeError, ValueError)):
                tell(bad)
    assert policy.retries == 1
    assert policy.failure(6) == 2.0
    assert policy.failure(7) is STOP


def test_a_limit_survives_pickle_and_deepcopy():
    policy = with_max_retries(ConstantBackOff(2), 2)
    policy.next_backoff()
    for twin in (pickle.loads(pickle.dumps(policy)), copy.deepcopy(policy)):
        assert ask(twin, 2) == [2.0, STOP]


# Elapsed time


def test_it_stops_where_a_delay_would_end_after_the_limit_and_equality_passes(clock):
    policy = with_max_elapsed_time(ConstantBackOff(2), 3, clock=clock)
    clock.advance(1)
    assert policy.next_backoff() == 2.0
    clock.advance(0.001)
    assert ask(policy, 2) == [STOP, STOP]
    assert policy.elapsed_time == pytest.approx(1.001)


def test_the_policy_inside_is_asked_although_time_is_up(clock):
    inner = Recording([5.0, 1.0])
    policy = with_max_elapsed_time(inner, 3, clock=clock)
    assert ask(policy, 2) == [STOP, 1.0]
    assert inner.calls == ["next", "next"]


def test_reset_begins_the_time_anew_and_the_policy_inside_too(clock):
    inner = Recording()
    policy = with_max_elapsed_time(inner, 3, clock=clock)
    clock.advance(10)
    assert policy.next_backoff() is STOP
    policy.reset()
    assert policy.elapsed_time == 0.0
    assert inner.calls == ["next", "reset"]
    assert policy.next_backoff() == 2.0


@pytest.mark.parametrize("limit", [None, 0, 0.0, timedelta(0)])
def test_none_and_zero_are_no_limit(clock, limit):
    policy = with_max_elapsed_time(ConstantBackOff(2), limit, clock=clock)
    clock.advance(1e12)
    assert policy.next_backoff() == 2.0
    assert policy.max_elapsed_time is None


def test_a_failure_is_limited_and_a_success_is_not(clock):
    policy = with_max_elapsed_time(Feedback(), 3, clock=clock)
    assert policy.failure(7.0) is STOP
    assert policy.success(8.0) == 0.5
    assert policy.backoff.calls == [("failure", 7.0), ("success", 8.0)]


def test_a_ticker_lends_its_clock_but_a_given_one_stays(clock):
    with Ticker(with_max_elapsed_time(ConstantBackOff(1), 5), clock=clock) as ticker:
        assert ticker.backoff._clock is clock
    own = SystemClock()
    with Ticker(with_max_elapsed_time(ConstantBackOff(1), 5, clock=own), clock=clock) as ticker:
        assert ticker.backoff._clock is own


@pytest.mark.parametrize(
    "policy",
    [
        lambda clock: with_max_elapsed_time(ConstantBackOff(0.1), 0.3, clock=clock),
        lambda clock: ExponentialBackOff(0.1, 0, 1, 0.1, 0.3, clock=clock),
    ],
)
def test_equality_passes_although_floats_are_rounded(clock, policy):
    run = policy(clock)
    clock.now = 0.0
    run.reset()
    answers = []
    while (delay := run.next_backoff()) is not STOP:
        answers.append(delay)
        clock.advance(delay)
    assert answers == [0.1, 0.1, 0.1]


def test_no_delay_is_longer_than_the_limit_itself(clock):
    policy = with_max_elapsed_time(ConstantBackOff(0.3000000000000001), 0.3, clock=clock)
    assert policy.next_backoff() is STOP
    assert policy.bounds(1) is None


# A greatest delay


def test_every_delay_is_at_most_the_limit_jitter_included():
    policy = with_max_interval(ExponentialBackOff(1, 0.5, 2, 100, None), 3)
    drawn = ask(policy, 200)
    assert max(drawn) == 3.0
    assert min(drawn) < 3.0


def test_a_success_is_limited_too():
    policy = with_max_interval(Feedback(), 0.25)
    assert (policy.failure(), policy.success()) == (0.25, 0.25)


def test_stop_stays_stop():
    assert with_max_interval(StopBackOff(), 3).next_backoff() is STOP


class MonotonicOnly:
    """Tells one kind of time, and is no clock otherwise."""

    now = 100.0

    def monotonic(self):
        return self.now


class WallOnly:
    """Tells the other kind."""

    now = 100.0

    def time(self):
        return self.now


@pytest.mark.parametrize(
    ("make", "source", "other"),
    [
        (lambda c: ExponentialBackOff(2, 0, 1, 2, 3, clock=c), MonotonicOnly, WallOnly),
        (lambda c: with_max_elapsed_time(ConstantBackOff(2), 3, clock=c), MonotonicOnly, WallOnly),
        (lambda c: FibonacciBackOff(2, 2, max_actual_duration=3, clock=c), WallOnly, MonotonicOnly),
    ],
    ids=["exponential", "wrapper", "perl"],
)
def test_the_time_that_a_policy_reads_is_all_it_needs_of_a_clock(make, source, other):
    """Also in the copy that a ticker runs on a clock of its own."""
    time = source()
    policy = make(time)
    for run in (policy, start_policy("backoff", policy, SetClock())):
        run.reset()
        assert run.next_backoff() == 2.0
        time.now += 4
        assert run.next_backoff() is STOP
    with pytest.raises(TypeError, match=r"^clock must have a method (monotonic|time)\(\), not be "):
        make(other())

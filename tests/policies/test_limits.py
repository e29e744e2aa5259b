"""Limits around a policy: of retries, of elapsed time, of a delay, by a token."""

from types import SimpleNamespace

import pytest

from backoff_ticker import (
    STOP,
    CancellationToken,
    ConstantBackOff,
    ExponentialBackOff,
    FibonacciBackOff,
    LIMDBackOff,
    StopBackOff,
    Ticker,
    ZeroBackOff,
    chain,
    with_max_elapsed_time,
    with_max_retries,
    with_token,
)
from backoff_ticker.policies import start_policy
from tests.helpers import SetClock
from tests.policies.policy_doubles import Feedback, Guarded, Recording, ask


def test_a_success_of_a_feedback_policy_starts_the_count_anew():
    inner = Feedback()
    policy = with_max_retries(inner, 2)
    assert [policy.failure(10.0), policy.failure(), policy.failure()] == [5.0, 5.0, STOP]
    assert policy.success(20.0) == 0.5
    assert policy.retries == 0
    assert policy.failure() == 5.0
    assert [timestamp for _, timestamp in inner.calls] == [10.0, None, 20.0, None]


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


def test_it_stops_where_a_delay_would_end_after_the_limit_until_reset(clock):
    inner = Recording([2.0, 2.0, 1.0, 3.0, 3.5])
    policy = with_max_elapsed_time(inner, 3, clock=clock)
    clock.advance(1)
    assert policy.next_backoff() == 2.0  # equality passes
    clock.advance(0.5)
    assert policy.elapsed_time == 1.5
    assert ask(policy, 2) == [STOP, 1.0]  # the policy inside is asked all the same
    policy.reset()
    assert policy.elapsed_time == 0.0
    assert inner.calls == ["next", "next", "next", "reset"]
    assert ask(policy, 2) == [3.0, STOP]
    just_longer = with_max_elapsed_time(ConstantBackOff(0.3000000000000001), 0.3, clock=clock)
    assert just_longer.next_backoff() is STOP
    assert just_longer.bounds(1) is None


def test_a_failure_is_limited_and_a_success_is_not(clock):
    policy = with_max_elapsed_time(Feedback(), 3, clock=clock)
    assert policy.failure(7.0) is STOP
    assert policy.success(8.0) == 0.5
    assert policy.backoff.calls == [("failure", 7.0), ("success", 8.0)]


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


@pytest.mark.parametrize(
    ("make", "method"),
    [
        (lambda c: ExponentialBackOff(2, 0, 1, 2, 3, clock=c), "monotonic"),
        (lambda c: with_max_elapsed_time(ConstantBackOff(2), 3, clock=c), "monotonic"),
        (lambda c: FibonacciBackOff(2, 2, max_actual_duration=3, clock=c), "time"),
    ],
    ids=["exponential", "wrapper", "perl"],
)
def test_the_time_that_a_policy_reads_is_all_it_needs_of_a_clock(make, method):
    """Also in the copy that a ticker runs on a clock of its own."""
    now = 100.0
    policy = make(SimpleNamespace(**{method: lambda: now}))
    for run in (policy, start_policy("backoff", policy, SetClock())):
        run.reset()
        assert run.next_backoff() == 2.0
        now += 4
        assert run.next_backoff() is STOP
    other = {"monotonic": "time", "time": "monotonic"}[method]
    with pytest.raises(TypeError, match=rf"^clock must have a method {method}\(\), not be "):
        make(SimpleNamespace(**{other: lambda: now}))


def test_feedback_passes_through_a_token_until_it_is_cancelled():
    inner, token = Feedback(), CancellationToken()
    policy = with_token(inner, token)
    assert (policy.failure(1.0), policy.success(2.0)) == (5.0, 0.5)
    token.cancel()
    assert policy.failure() is STOP
    assert policy.success(3.0) is STOP
    assert inner.calls == [("failure", 1.0), ("success", 2.0)]


@pytest.mark.parametrize("token", [None, CancellationToken])
def test_what_is_no_token_is_refused(token):
    with pytest.raises(TypeError, match=f"^token must be a CancellationToken, not {token!r}$"):
        with_token(ZeroBackOff(), token)


def test_an_attribute_of_that_name_that_is_no_token_does_not_count():
    ticker = Ticker(Guarded("a secret of some service"), clock=SetClock())
    assert ticker.receive().number == 1
    assert not ticker.closed


@pytest.mark.parametrize("which", [0, 1])
def test_a_chain_combines_the_tokens_of_its_parts(which):
    tokens = one, other = CancellationToken(), CancellationToken()
    parts = with_token(ZeroBackOff(), one), StopBackOff(), Guarded(one)
    assert chain(*parts).token is one
    policy = chain(*parts, with_token(ZeroBackOff(), other))
    assert not policy.token.cancelled
    tokens[which].cancel()
    assert policy.token.cancelled

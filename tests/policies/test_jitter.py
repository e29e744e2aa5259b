"""Jitter around any policy: which range a delay is drawn from, and what is passed on."""

from __future__ import annotations

import copy

import pytest

from backoff_ticker import (
    STOP,
    ConstantBackOff,
    FibonacciBackOff,
    FullJitterBackOff,
    LIMDBackOff,
    StopBackOff,
    TruncatedExponentialBackOff,
    chain,
    delays,
    with_added_jitter,
    with_jitter,
    with_max_retries,
)
from tests.policies.policy_doubles import ask
from tests.policies.policy_strategies import LARGEST
from tests.policies.random_doubles import LAST_DRAW, StubRandom


@pytest.mark.parametrize(
    ("jitter", "least", "middle", "greatest"),
    [("full", 0.0, 4.0, 8.0), ("equal", 4.0, 6.0, 8.0), (0.25, 6.0, 8.0, 10.0)],
)
def test_each_kind_draws_from_its_range(jitter, least, middle, greatest):
    drawn = [
        with_jitter(ConstantBackOff(8), jitter, rng=StubRandom(number)).next_backoff()
        for number in (0.0, 0.5, LAST_DRAW)
    ]
    assert drawn == [least, middle, pytest.approx(greatest)]
    assert with_jitter(ConstantBackOff(8), jitter).bounds(1) == (least, greatest)


def test_added_jitter_never_shortens_a_delay():
    policy = with_added_jitter(ConstantBackOff(8), 2, rng=StubRandom(0.5))
    assert policy.next_backoff() == 9.0
    assert policy.bounds(1) == (8.0, 10.0)


@pytest.mark.parametrize(
    "make", [lambda inner, rng: with_jitter(inner, 0, rng), lambda i, r: with_added_jitter(i, 0, r)]
)
def test_none_draws_nothing(make):
    rng = StubRandom(0.5)
    assert ask(make(ConstantBackOff(8), rng), 3) == [8.0] * 3
    assert rng.draws == 0


@pytest.mark.parametrize(("wrap", "limit"), [(with_jitter, 0.9), (with_added_jitter, 1e308)])
def test_delays_saturate_at_the_largest_float(wrap, limit):
    policy = wrap(ConstantBackOff(LARGEST), limit, rng=StubRandom(LAST_DRAW))
    assert policy.next_backoff() <= LARGEST
    assert policy.bounds(1)[1] == LARGEST


def test_stop_is_stop_and_nothing_is_drawn():
    rng = StubRandom(0.5)
    assert with_jitter(StopBackOff(), rng=rng).next_backoff() is STOP
    assert with_added_jitter(StopBackOff(), 1, rng=rng).next_backoff() is STOP
    assert rng.draws == 0
    assert with_jitter(StopBackOff()).bounds(1) is None


def test_bounds_end_where_the_policy_inside_does():
    policy = with_jitter(with_max_retries(ConstantBackOff(4), 2), 0.5)
    assert [policy.bounds(n) for n in (1, 2, 3)] == [(2.0, 6.0), (2.0, 6.0), None]
    assert len(list(delays(policy))) == 2
    after = chain(policy, ConstantBackOff(9))
    assert after.bounds(3) == (9.0, 9.0)


def test_feedback_reaches_the_policy_inside_and_both_answers_are_drawn():
    policy = with_jitter(LIMDBackOff(2, 4, 0.5), 0.5, rng=StubRandom(0.0))
    assert [policy.failure(), policy.failure(), policy.success()] == [1.0, 3.0, 1.5]
    assert policy.backoff.last_delay == 3.0
    assert policy.failure(5e9) == 3.5
    assert not hasattr(with_jitter(ConstantBackOff(1)), "failure")


def test_a_copy_has_a_policy_of_its_own_and_draws_from_the_same_generator():
    rng = StubRandom(0.5)
    policy = with_jitter(FibonacciBackOff(1, 1), rng=rng)
    twin = copy.copy(policy)
    ask(policy, 5)
    assert (twin.backoff.attempts, rng.draws) == (0, 5)
    ask(twin, 1)
    assert rng.draws == 6


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: with_jitter(ConstantBackOff(1), "half"),
            ValueError,
            """jitter must be "full" or "equal", or a fraction, not 'half'""",
        ),
        (lambda: with_jitter(ConstantBackOff(1), 1), ValueError, "jitter must be >= 0 and < 1"),
        (lambda: with_jitter(ConstantBackOff(1), None), TypeError, "jitter must be"),
        (lambda: with_jitter(ConstantBackOff(1), True), TypeError, "jitter must be"),
        (lambda: with_jitter(5), TypeError, "backoff must be a BackOff"),
        (lambda: with_jitter(ConstantBackOff(1), rng=5), TypeError, "rng must be"),
        (lambda: with_added_jitter(ConstantBackOff(1), -1), ValueError, "max_jitter must be"),
        (lambda: FullJitterBackOff(1, 2, multiplier=0.5), ValueError, "multiplier must be >= 1"),
        (
            lambda: TruncatedExponentialBackOff(initial_backoff=float("nan")),
            ValueError,
            "initial_backoff must be",
        ),
    ],
)
def test_bad_input_names_the_parameter(make, error, message):
    with pytest.raises(error) as caught:
        make()
    assert message in str(caught.value)


def test_they_print_as_they_are_made():
    assert repr(with_jitter(ConstantBackOff(1))) == "with_jitter(ConstantBackOff(1.0), 'full')"
    assert (
        repr(with_added_jitter(ConstantBackOff(1), 2))
        == "with_added_jitter(ConstantBackOff(1.0), 2.0)"
    )

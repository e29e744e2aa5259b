"""Jitter: around any policy, and in those of AWS and Cloud Storage."""

import copy
import random

import pytest

from backoff_ticker import (
    ConstantBackOff,
    DecorrelatedJitterBackOff,
    EqualJitterBackOff,
    ExponentialBackOff,
    FullJitterBackOff,
    LIMDBackOff,
    with_added_jitter,
    with_jitter,
)
from tests.policies.policy_doubles import LAST_DRAW, StubRandom, ask


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


@pytest.mark.parametrize(
    "make", [lambda inner, rng: with_jitter(inner, 0, rng), lambda i, r: with_added_jitter(i, 0, r)]
)
def test_none_draws_nothing(make):
    rng = StubRandom(0.5)
    assert ask(make(ConstantBackOff(8), rng), 3) == [8.0] * 3
    assert rng.draws == 0


def test_feedback_reaches_the_policy_inside_and_both_answers_are_drawn():
    policy = with_jitter(LIMDBackOff(2, 4, 0.5), 0.5, rng=StubRandom(0.0))
    assert [policy.failure(), policy.failure(), policy.success()] == [1.0, 3.0, 1.5]
    assert policy.backoff.last_delay == 3.0
    assert policy.failure(5e9) == 3.5
    assert not hasattr(with_jitter(ConstantBackOff(1)), "failure")


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: with_jitter(ConstantBackOff(1), "half"),
            ValueError,
            """jitter must be "full" or "equal", or a fraction, not 'half'""",
        ),
        (lambda: FullJitterBackOff(2, 1.5), ValueError, "cap must be >= base (2), not 1.5"),
        (lambda: with_jitter(ConstantBackOff(1), rng=5), TypeError, "rng must be"),
    ],
)
def test_bad_input_names_the_parameter(make, error, message):
    with pytest.raises(error) as caught:
        make()
    assert message in str(caught.value)


def test_the_jitters_of_aws_are_those_around_a_plain_exponential_policy():
    """What a source names must be the same by either name here: full, equal, and multipliers."""
    for multiplier in (1.0, 1.5, 2.0, 3.0):
        plain = ExponentialBackOff(1, 0, multiplier, 20, None)
        for own, kind in ((FullJitterBackOff, "full"), (EqualJitterBackOff, "equal")):
            one = own(1, 20, rng=random.Random(7), multiplier=multiplier)
            other = with_jitter(plain, kind, rng=random.Random(7))
            copied = copy.copy(other)
            assert ask(one, 20) == pytest.approx(ask(copied, 20))
            assert [one.bounds(n) for n in range(1, 20)] == [other.bounds(n) for n in range(1, 20)]


def test_the_decorrelated_jitter_grows_by_its_multiplier_from_the_capped_delay():
    rng = StubRandom(LAST_DRAW)
    policy = DecorrelatedJitterBackOff(1, 10, rng=rng, multiplier=2)
    assert ask(policy, 5) == pytest.approx([2.0, 4.0, 8.0, 10.0, 10.0])
    assert policy.bounds(3) == (1.0, 8.0)
    rng.drawn = 0.25
    assert policy.next_backoff() == 1.0 + 19.0 / 4.0 == policy.last_delay
    steady = DecorrelatedJitterBackOff(5, None, rng=StubRandom(LAST_DRAW), multiplier=1)
    assert ask(steady, 3) == [5.0] * 3

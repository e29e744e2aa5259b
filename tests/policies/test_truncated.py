"""The truncated back-off of Cloud Storage."""

from __future__ import annotations

import random

import pytest

from backoff_ticker import (
    ExponentialBackOff,
    TruncatedExponentialBackOff,
    with_added_jitter,
    with_max_interval,
)
from tests.policies.policy_doubles import ask
from tests.policies.policy_strategies import LARGEST
from tests.policies.random_doubles import StubRandom


@pytest.mark.parametrize(
    ("drawn", "expected"),
    [
        (0.0, [1, 2, 4, 8, 16, 32, 32]),
        (0.5, [1.5, 2.5, 4.5, 8.5, 16.5, 32, 32]),
    ],
)
def test_cloud_storage_adds_before_the_cap(drawn, expected):
    policy = TruncatedExponentialBackOff(32, rng=StubRandom(drawn))
    assert ask(policy, 7) == expected
    policy.reset()
    assert ask(policy, 7) == expected


def test_cloud_storage_without_jitter_draws_nothing():
    rng = StubRandom(0.5)
    assert ask(TruncatedExponentialBackOff(max_jitter=0, rng=rng), 3) == [1, 2, 4]
    assert rng.draws == 0


def test_cloud_storage_bounds_as_published():
    policy = TruncatedExponentialBackOff(32)
    bounds = [policy.bounds(n) for n in range(1, 8)]
    assert bounds == [(1, 2), (2, 3), (4, 5), (8, 9), (16, 17), (32, 32), (32, 32)]
    assert TruncatedExponentialBackOff(LARGEST).bounds(5000) == (LARGEST, LARGEST)


def test_the_back_off_of_cloud_storage_is_added_jitter_under_a_cap():
    one = TruncatedExponentialBackOff(
        10, 0.5, rng=random.Random(7), initial_backoff=0.25, multiplier=3
    )
    plain = ExponentialBackOff(0.25, 0, 3, LARGEST, None)
    other = with_max_interval(with_added_jitter(plain, 0.5, rng=random.Random(7)), 10)
    assert [one.bounds(n) for n in range(1, 9)] == [other.bounds(n) for n in range(1, 9)]
    assert ask(one, 8) == pytest.approx(ask(other, 8))

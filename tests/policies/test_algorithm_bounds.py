"""Bounds of the feedback policies: step by step, then by a formula."""

from __future__ import annotations

import random

import pytest
from hypothesis import assume

from backoff_ticker import (
    STOP,
    ConstantFeedbackBackOff,
    ExponentialFeedbackBackOff,
    FibonacciBackOff,
    LILDBackOff,
    LIMDBackOff,
    MILDBackOff,
    MIMDBackOff,
)
from tests.helpers import SetClock, readable_id
from tests.policies.policy_strategies import (
    ADAPTIVE,
    FIXED,
    LARGEST,
    drawn_policy,
    for_each_kind,
    outcomes,
)
from tests.policies.random_doubles import LAST_DRAW, Seeded, StubRandom


@pytest.mark.parametrize(
    ("policy", "n", "expected"),
    [
        (LIMDBackOff(2, 4, 0.2), 3, (10, 10)),
        (LIMDBackOff(2, 4, 0.2), 10**6, (4 * 10**6 - 2, 4 * 10**6 - 2)),
        (LILDBackOff(20, -4, 1), 3, (12, 12)),
        (LILDBackOff(20, -4, 1, min_delay=1), 10**9, (1, 1)),
        (MIMDBackOff(3, 2, 0.5, max_delay=100), 10**9, (100, 100)),
        (MILDBackOff(3, 0.5, 1), 3, (0.75, 0.75)),
        (FibonacciBackOff(2, 3), 6, (21, 21)),
        (FibonacciBackOff(0, 0), 10**9, (0, 0)),
        (FibonacciBackOff(1, 1), 10**9, (LARGEST, LARGEST)),
        (ExponentialFeedbackBackOff(5, 3, max_delay=100), 10**9, (100, 100)),
        (ConstantFeedbackBackOff(2, jitter_factor=0.5), 7, (1, 3)),
        (LIMDBackOff(2, 4, 0.2, jitter_factor=0.5), 2, (2.5, 10.5)),
        (ConstantFeedbackBackOff(2, consider_actual_delay=True), 1, (2, 2)),
        (ConstantFeedbackBackOff(2, consider_actual_delay=True), 3, (0, 6)),
        (LILDBackOff(3, 1, 0, consider_actual_delay=True), 1, (6, 6)),
        (ConstantFeedbackBackOff(2, consider_actual_delay=True), 5000, (0, 10000)),
        (MIMDBackOff(3, 2, 0.5, max_delay=100), 10**300, (100, 100)),
        (LILDBackOff(20, -4, 1, min_delay=1), 10**300, (1, 1)),
        (MIMDBackOff(3, 2, 0.5), 10**9, (LARGEST, LARGEST)),
        (LIMDBackOff(2, 4, 0.2, max_attempts=3), 10**9, None),
    ],
    ids=readable_id,
)
def test_bounds_of_failures_in_a_row(policy, n, expected):
    assert policy.bounds(n) == expected


@pytest.mark.parametrize("jitter", [0.0, 0.3])
def test_bounds_of_far_calls_hold_what_a_run_gives(make, jitter):
    for drawn in (0.0, LAST_DRAW):
        policy = make(jitter_factor=jitter, rng=StubRandom(drawn), max_delay=1e9)
        for _ in range(1999):
            policy.failure()
        delay = policy.failure()
        least, greatest = policy.bounds(2000)
        assert least <= delay <= greatest
        assert delay == pytest.approx(least if drawn == 0.0 else greatest, rel=1e-9)


@pytest.mark.parametrize("seed", range(60))
def test_bounds_hold_in_a_long_run_where_a_formula_stands_for_the_steps(seed):
    rng = random.Random(seed)
    make = rng.choice(list(ADAPTIVE))
    linear = make in (LILDBackOff, LIMDBackOff)
    change = rng.choice([0.1, -0.01, 1e-9] if linear else [1.0, 1.001, 0.999, 1.0000001, 2.0])
    policy = make(
        rng.choice([0.1, 3.0, 1e6]),
        change,
        0.5,
        jitter_factor=rng.choice([0.0, 1e-12, 1e-9, 0.001, 0.3]),
        min_delay=rng.choice([0.0, 0.0, 0.25]),
        max_delay=rng.choice([None, None, 1e5]),
        consider_actual_delay=rng.random() < 0.3,
        rng=rng.choice([StubRandom(0.0), StubRandom(LAST_DRAW), Seeded(1)]),
        clock=SetClock(),
    )
    looked_at = {1, 2, 3, 10, 100, 999, 1000, 1001, 1002, 1010, 1500, 1999, 2000, 3000}
    for n in range(1, 3001):
        delay = policy.next_backoff()
        if n in looked_at:
            least, greatest = policy.bounds(n)
            assert least <= delay <= greatest, n


@for_each_kind(FIXED, outcomes=outcomes)
def test_bounds_count_failures_since_the_last_success(kind, data, outcomes):
    policy, _, _ = drawn_policy(data, kind)
    assume(not policy.consider_actual_delay)
    for good in outcomes:
        delay = policy.success() if good else policy.failure()
        if not good and delay is not STOP:
            least, greatest = policy.bounds(policy.attempts)
            assert least <= delay <= greatest


@pytest.mark.parametrize(
    ("policy", "far"),
    [
        # A power that no float holds, of which the delay is a small part.
        (MILDBackOff(1e-300, 1.5, -1), 2750),
        (MILDBackOff(5e-324, 2, -1), 2090),
        (MILDBackOff(5e-324, 3, -1), 1320),
        (MIMDBackOff(1, 2, 0.5), 1022),
        (MILDBackOff(1e-300, 1.1, -1, jitter_factor=0.3, rng=StubRandom(LAST_DRAW)), 4000),
        (LIMDBackOff(1e-300, 1e-300, 0.5, jitter_factor=0.3, rng=StubRandom(LAST_DRAW)), 4900),
        # A sum that is no longer rounded up.
        (LILDBackOff(2.0**53 - 500, 0.75, -1), 3000),
        (LILDBackOff(1, 1e-13, -1), 3000),
        # Three roundings a step.
        (MIMDBackOff(0.1, 1.0001, 0.5, jitter_factor=1e-3, rng=StubRandom(LAST_DRAW)), 20_000),
        (LIMDBackOff(0.1, 0.1, 0.5, jitter_factor=1e-9, rng=StubRandom(LAST_DRAW)), 20_000),
        (MIMDBackOff(1, 1.3, 0.5, consider_actual_delay=True, clock=SetClock()), 1050),
    ],
    ids=readable_id,
)
def test_bounds_hold_where_rounding_and_overflow_matter(policy, far):
    looked_at = {1001, 1002, 1500, 2000, far - 1, far}
    for n in range(1, far + 1):
        delay = policy.next_backoff()
        if n in looked_at:
            least, greatest = policy.bounds(n)
            assert least <= delay <= greatest, n
            assert greatest <= 1.001 * delay, n


def test_a_sum_that_rounding_has_stopped_does_not_count_as_endless():
    policy = LILDBackOff(1, 1, -1)
    least, greatest = policy.bounds(10**200)
    assert least <= 2.0**53 <= greatest


def test_a_delay_that_rounding_keeps_above_zero_is_within_its_bounds():
    policy = MILDBackOff(1, 0.6, 0.5)
    assert [policy.next_backoff() for _ in range(2000)][-1] == 5e-324
    assert 5e-324 <= policy.bounds(2000)[1] <= policy.bounds(10**9)[1] < 1e-300

"""No number of calls is too many: call 10**9 costs what an early one costs and never overflows."""

from __future__ import annotations

import math

import pytest

from backoff_ticker import (
    ConstantFeedbackBackOff,
    ExponentialBackOff,
    ExponentialFeedbackBackOff,
    FibonacciBackOff,
    LILDBackOff,
    LIMDBackOff,
    MILDBackOff,
    MIMDBackOff,
)
from tests.helpers import readable_id
from tests.policies.policy_doubles import ask, steps
from tests.policies.policy_strategies import FIXED, LARGEST, MANY, samples
from tests.policies.random_doubles import StubRandom


@pytest.mark.parametrize("policy", samples(), ids=readable_id)
def test_bounds_of_call_a_billion_cost_what_those_of_an_earlier_one_cost(policy):
    late = policy.bounds(MANY)
    assert late is None or 0.0 <= late[0] <= late[1] <= LARGEST
    assert steps(lambda: policy.bounds(MANY)) <= steps(lambda: policy.bounds(5000)) + 500


COUNTED = [
    *((policy, "retries") for policy in samples() if getattr(policy, "max_retries", MANY) >= MANY),
    *((policy, "attempts") for policy in samples()),
]


@pytest.mark.parametrize(
    ("policy", "count"),
    [(policy, name) for policy, name in COUNTED if hasattr(policy, name)],
    ids=readable_id,
)
def test_call_a_billion_costs_what_an_early_one_costs(policy, count):
    early = steps(policy.next_backoff)
    policy.reset()
    setattr(policy, count, MANY - 1)
    delay = policy.next_backoff()
    assert getattr(policy, count) == MANY
    if not hasattr(policy, "last_delay") or type(policy) in FIXED:  # else the delay before counts
        least, greatest = policy.bounds(MANY)
        assert least <= delay <= greatest
    assert 0.0 <= delay <= LARGEST
    assert steps(policy.next_backoff) <= early + 50


@pytest.mark.parametrize(
    ("policy", "greatest"),
    [
        (ExponentialBackOff(1, 0, 1e200, LARGEST, None), LARGEST),
        (ExponentialFeedbackBackOff(1, 1e200), LARGEST),
        (FibonacciBackOff(LARGEST / 2, LARGEST), LARGEST),
        (LILDBackOff(LARGEST, LARGEST, -1), LARGEST),
        (LIMDBackOff(LARGEST, 1, 0.5, consider_actual_delay=True), LARGEST),
        (MILDBackOff(1e200, 1e200, -1), LARGEST),
        (MIMDBackOff(1e200, LARGEST, 0.5, jitter_factor=0.5), LARGEST),
        (ConstantFeedbackBackOff(LARGEST, consider_actual_delay=True), LARGEST),
    ],
    ids=readable_id,
)
def test_delays_without_a_cap_saturate_at_the_largest_float(policy, greatest):
    assert max(ask(policy, 50)) == greatest
    assert policy.bounds(50)[1] == greatest
    assert math.isfinite(policy.bounds(MANY)[1])


def test_a_doubled_delay_saturates_before_its_jitter_in_bounds_too():
    options = {"consider_actual_delay": True, "jitter_factor": 0.5, "rng": StubRandom(0.0)}
    policy = MILDBackOff(LARGEST, 1, 0, **options)
    delay = policy.next_backoff()
    assert delay == LARGEST / 2
    assert policy.bounds(1) == (delay, LARGEST)

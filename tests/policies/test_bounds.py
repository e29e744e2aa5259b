"""``bounds(n)`` holds whatever is drawn, and caps are caps."""

from __future__ import annotations

import random

import pytest
from hypothesis import assume, given, settings, strategies as st

from backoff_ticker import (
    STOP,
    CancellationToken,
    ConstantBackOff,
    FibonacciBackOff,
    LILDBackOff,
    LIMDBackOff,
    chain,
    with_max_elapsed_time,
    with_max_interval,
    with_token,
)
from tests.helpers import ManualClock
from tests.policies.policy_doubles import ask
from tests.policies.policy_strategies import (
    ADAPTIVE,
    EVERY,
    FEEDBACK,
    FIXED,
    LARGEST,
    drawn_policy,
    for_each_kind,
    generators,
    moments,
    outcomes,
    run,
    samples,
    steps_of_time,
)
from tests.policies.random_doubles import LAST_DRAW, Seeded, StubRandom


@for_each_kind(EVERY, times=moments)
def test_every_draw_is_within_the_bounds(kind, data, times):
    policy, clock, _ = drawn_policy(data, kind)
    for n, delay in enumerate(run(policy, clock, times), 1):
        bounds = policy.bounds(n)
        if bounds is not None:
            assert 0.0 <= bounds[0] <= bounds[1] <= LARGEST
        if delay is not STOP:
            assert bounds is not None, n
            assert bounds[0] <= delay <= bounds[1], n


@for_each_kind(
    ["any", FibonacciBackOff, LIMDBackOff], ends_after=st.integers(0, 8), more=st.integers(1, 8)
)
def test_bounds_of_a_chain_hold_whenever_its_first_part_ends(kind, data, ends_after, more):
    generator, token = data.draw(generators), CancellationToken()
    first, _, _ = drawn_policy(data, "any", generator)
    second, _, _ = drawn_policy(data, kind, generator)
    policy = chain(with_token(first, token), second)
    for n in range(1, ends_after + more + 1):
        if n > ends_after:
            token.cancel()
        delay, bounds = policy.next_backoff(), policy.bounds(n)
        assert delay is STOP or (bounds is not None and bounds[0] <= delay <= bounds[1]), n


def test_bounds_of_a_chain_know_that_a_fibonacci_may_fall_at_first():
    token = CancellationToken()
    policy = chain(with_token(ConstantBackOff(9), token), FibonacciBackOff(5, 1))
    assert policy.next_backoff() == 9.0
    token.cancel()
    assert ask(policy, 2) == [5.0, 1.0]
    assert policy.bounds(3) == (1.0, 9.0)


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
        clock=ManualClock(),
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


@for_each_kind(FEEDBACK, outcomes=outcomes, steps=steps_of_time)
def test_no_log_gives_what_is_no_delay_or_past_a_cap(kind, data, outcomes, steps):
    policy, clock, _ = drawn_policy(data, kind)
    most = LARGEST if policy.max_delay is None else max(policy.max_delay, policy.min_delay)
    for good, passed in zip(outcomes, [*steps, *[0.0] * 30], strict=False):
        clock.now += passed
        delay = policy.success() if good else policy.failure()
        assert delay is STOP or policy.min_delay <= delay <= most
        assert good <= (delay is not STOP)


@given(data=st.data(), cap=st.floats(0, 100), times=moments)
@settings(deadline=None)
def test_hard_caps_hold(data, cap, times):
    inner, clock, _ = drawn_policy(data, "any")
    policy = with_max_interval(inner, cap)
    for n, delay in enumerate(run(policy, clock, times), 1):
        assert delay is STOP or delay <= cap
        assert policy.bounds(n) is None or policy.bounds(n)[1] <= cap


@given(data=st.data(), limit=st.floats(1e-3, 100), times=moments)
@settings(deadline=None)
def test_no_delay_ends_past_a_limit_of_elapsed_time(data, limit, times):
    inner, clock, _ = drawn_policy(data, "any")
    policy = with_max_elapsed_time(inner, limit, clock)
    for passed, delay in zip(times, run(policy, clock, times), strict=True):
        assert delay is STOP or passed + delay <= limit


@pytest.mark.parametrize("policy", samples(), ids=repr)
@pytest.mark.parametrize(
    ("n", "error"),
    [
        (0, ValueError),
        (-1, ValueError),
        (True, TypeError),
        (False, TypeError),
        (1.5, TypeError),
        (1.0, TypeError),
        ("1", TypeError),
        (None, TypeError),
    ],
)
def test_what_is_no_number_of_a_call_is_refused(policy, n, error):
    with pytest.raises(error) as caught:
        policy.bounds(n)
    assert str(caught.value).startswith("n must be")
    assert repr(n) in str(caught.value)

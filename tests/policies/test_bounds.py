"""``bounds(n)`` of every policy holds whatever is drawn, and caps are caps."""

from __future__ import annotations

import math
from itertools import islice

import pytest
from hypothesis import given, settings, strategies as st

from backoff_ticker import (
    STOP,
    CancellationToken,
    ConstantBackOff,
    ExponentialBackOff,
    FibonacciBackOff,
    LILDBackOff,
    LIMDBackOff,
    MILDBackOff,
    MIMDBackOff,
    StopBackOff,
    ZeroBackOff,
    chain,
    delays,
    with_max_elapsed_time,
    with_max_interval,
    with_max_retries,
    with_token,
)
from backoff_ticker.policies import successive_bounds
from tests.helpers import readable_id
from tests.policies.policy_doubles import Recording, ask
from tests.policies.policy_strategies import (
    EVERY,
    FEEDBACK,
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

ADAPTIVE_SAMPLES = [
    LILDBackOff(1, 2, -1),
    LIMDBackOff(0.1, 0.1, 0.5, jitter_factor=0.1),
    MILDBackOff(1, 1.0001, -1, consider_actual_delay=True),
    MIMDBackOff(1, 1.0001, 0.5, jitter_factor=0.1),
]


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
    assert policy.bounds(3) == (1.0, 9.0)
    token.cancel()
    assert ask(policy, 2) == [5.0, 1.0]
    assert policy.bounds(3) == (1.0, 6.0)  # the first part has stopped for good


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


@pytest.mark.parametrize("policy", samples(), ids=readable_id)
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


# Bounds one after the other


@for_each_kind(EVERY, count=st.integers(1, 30))
def test_successive_bounds_are_those_of_each_call(kind, data, count):
    policy, _, _ = drawn_policy(data, kind)
    expected = [policy.bounds(n) for n in range(1, count + 1)]
    assert list(islice(successive_bounds(policy), count)) == expected


@pytest.mark.parametrize("policy", samples(), ids=readable_id)
def test_successive_bounds_go_on_where_a_formula_stands_for_the_steps(policy):
    found = list(islice(successive_bounds(policy), 1100))
    for n in (1, 2, 3, 500, 999, 1000, 1001, 1002, 1100):
        assert found[n - 1] == policy.bounds(n), n


def test_successive_bounds_of_a_class_of_a_user():
    class Own(ConstantBackOff):
        def bounds(self, n):
            return None if n > 2 else (0.0, float(n))

    assert list(islice(successive_bounds(Own(1)), 3)) == [(0.0, 1.0), (0.0, 2.0), None]
    assert next(successive_bounds(Recording())) == (0.0, LARGEST)
    inside = [with_max_retries(Own(1), 1), chain(Own(1)), chain(Recording())]
    for policy in inside:  # they do not ask it
        found = [policy.bounds(1), next(successive_bounds(policy))]
        assert found == [(0.0, LARGEST)] * 2


def test_successive_bounds_of_a_chain_know_when_a_part_ends():
    policies = [
        chain(with_max_retries(ConstantBackOff(9), 3), LIMDBackOff(2, 4, 0.5), ConstantBackOff(1)),
        chain(StopBackOff(), LIMDBackOff(2, 4, 0.5, max_attempts=1), LIMDBackOff(1, 1, 0.5)),
        chain(LIMDBackOff(2, 4, 0.5, max_attempts=3), with_max_retries(ConstantBackOff(9), 2)),
        chain(with_token(LIMDBackOff(2, 4, 0.5), CancellationToken()), ConstantBackOff(9)),
        chain(with_max_retries(ZeroBackOff(), 10**300), ConstantBackOff(9)),
        chain(ZeroBackOff(), ConstantBackOff(9)),
    ]
    for policy in policies:
        expected = [policy.bounds(n) for n in range(1, 10)]
        assert list(islice(successive_bounds(policy), 9)) == expected


# Counts beyond floats


def test_counts_of_calls_are_exact_however_great():
    endless, one = ZeroBackOff(), ConstantBackOff(1)
    for most in (2**60, 10**400):
        policy = chain(with_max_retries(endless, most), one, with_token(one, CancellationToken()))
        assert [policy.bounds(n) for n in (most, most + 1)] == [(0.0, 0.0), (1.0, 1.0)]
        assert with_max_retries(policy, most).bounds(most + 1) is None
        assert policy._calls() == (math.inf, math.inf)
    limited = LIMDBackOff(1, 0, 1, max_attempts=10**400)
    assert chain(limited, endless).bounds(1) == (1.0, 1.0)
    assert chain(limited, endless).bounds(10**400) == (0.0, 0.0)
    assert limited.bounds(10**400) is None


@pytest.mark.parametrize("policy", samples(), ids=readable_id)
def test_bounds_of_a_call_that_no_float_can_count(policy):
    assert policy.bounds(10**400) == policy.bounds(10**5000) == policy.bounds(10**300)


# The same policy in two parts of a chain


def exponential():
    return ExponentialBackOff(randomization_factor=0, max_elapsed_time=None)


@pytest.mark.parametrize(
    "make",
    [
        lambda e: chain(with_max_retries(e, 2), e),
        lambda e: chain(with_max_retries(e, 2), with_max_retries(e, 2)),
        lambda e: chain(with_max_interval(with_max_retries(e, 2), 9), chain(ZeroBackOff(), e)),
        lambda e: chain(with_max_retries(Holding([e]), 2), ConstantBackOff(1), e),
        lambda e: chain(with_max_retries(e, 2), with_max_retries(Holding([e]), 1), StopBackOff()),
        lambda e: chain(with_max_elapsed_time(e, 1), e),
    ],
)
def test_bounds_hold_where_two_parts_of_a_chain_ask_one_policy(make):
    policy = make(exponential())
    each = list(islice(successive_bounds(policy), 8))
    for n, delay in enumerate(islice(delays(policy), 8), 1):
        assert policy.bounds(n)[0] <= delay <= policy.bounds(n)[1], n
        assert each[n - 1] == policy.bounds(n)


class Holding:
    """A user's wrapper that holds its policy in a list."""

    def __init__(self, held):
        self.held = held

    def next_backoff(self):
        return self.held[0].next_backoff()

    def reset(self):
        self.held[0].reset()


def test_bounds_of_a_shared_policy_are_known_in_its_first_turn_and_end():
    shared, part = exponential(), ConstantBackOff(3)
    policy = chain(with_max_retries(shared, 2), with_max_retries(shared, 2))
    assert [policy.bounds(n) for n in (1, 2, 3, 5)] == [(0.5,) * 2, (0.75,) * 2, (0, LARGEST), None]
    assert chain(with_max_retries(part, 1), part).bounds(2) == (3.0, 3.0)  # it has no state


# A token that is cancelled, and too many wrappers


def test_a_cancelled_token_leaves_nothing_but_stop():
    token = CancellationToken()
    policy = with_max_retries(with_token(ConstantBackOff(1), token), 3)
    each = successive_bounds(policy)
    assert policy.bounds(1) == next(each) == (1.0, 1.0)
    token.cancel()
    assert policy.bounds(1) is next(each) is None
    assert chain(policy, ConstantBackOff(9)).bounds(1) == (9.0, 9.0)

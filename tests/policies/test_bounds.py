"""``bounds(n)`` holds whatever is drawn, caps are caps, and no number of calls is too many."""

import copy
from itertools import islice

import pytest
from hypothesis import assume, strategies as st

from backoff_ticker import (
    STOP,
    CancellationToken,
    ConstantFeedbackBackOff,
    FibonacciBackOff,
    LILDBackOff,
    LIMDBackOff,
    MILDBackOff,
    MIMDBackOff,
    chain,
    delays,
    with_token,
)
from tests.helpers import SetClock, readable_id
from tests.policies.policy_doubles import LAST_DRAW, StubRandom, steps
from tests.policies.policy_strategies import (
    CLASSES,
    EVERY,
    FEEDBACK,
    FIXED,
    LARGEST,
    MANY,
    drawn_policy,
    for_each_kind,
    generators,
    moments,
    outcomes,
    run,
    samples,
    steps_of_time,
)


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


@for_each_kind(FEEDBACK, outcomes=outcomes, steps=steps_of_time)
def test_no_log_gives_what_is_no_delay_or_past_a_cap(kind, data, outcomes, steps):
    policy, clock, _ = drawn_policy(data, kind)
    most = LARGEST if policy.max_delay is None else max(policy.max_delay, policy.min_delay)
    for good, passed in zip(outcomes, [*steps, *[0.0] * 30], strict=False):
        clock.now += passed
        delay = policy.success() if good else policy.failure()
        assert delay is STOP or policy.min_delay <= delay <= most
        assert good <= (delay is not STOP)


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
    ("policy", "n", "expected"),
    [
        (LIMDBackOff(2, 4, 0.2), 100, (398, 398)),
        (LILDBackOff(20, -4, 1, min_delay=1), MANY, (1, 1)),
        (MIMDBackOff(3, 2, 0.5, max_delay=100), MANY, (100, 100)),
        (LIMDBackOff(2, 4, 0.2, jitter_factor=0.5), 2, (2.5, 10.5)),
        (LILDBackOff(3, 1, 0, consider_actual_delay=True), 1, (6, 6)),
        (LIMDBackOff(2, 4, 0.2, max_attempts=3), MANY, None),
        (FibonacciBackOff(0, 0), MANY, (0, 0)),
        (ConstantFeedbackBackOff(2, consider_actual_delay=True), 1, (2, 2)),
        (ConstantFeedbackBackOff(2, consider_actual_delay=True), 3, (0, 6)),
        (ConstantFeedbackBackOff(2, consider_actual_delay=True, max_delay=50), MANY, (0, 50)),
    ],
    ids=readable_id,
)
def test_bounds_of_failures_in_a_row(policy, n, expected):
    assert policy.bounds(n) == expected


@pytest.mark.parametrize(
    ("policy", "far"),
    [
        # A power that no float holds, of which the delay is a small part.
        (MILDBackOff(1e-300, 1.5, -1), 2750),
        (MILDBackOff(5e-324, 2, -1), 2090),
        # Sums that rounding stops, and that it does not round up.
        (LILDBackOff(2.0**53, 1, -1), 200),
        (LILDBackOff(2.0**53 - 500, 0.75, -1), 3000),
        # Delays that rounding keeps above zero.
        (MILDBackOff(1, 0.6, 0.5), 2000),
        # Several roundings a step.
        (MIMDBackOff(0.1, 1.0001, 0.5, jitter_factor=1e-3, rng=StubRandom(LAST_DRAW)), 20_000),
        (LIMDBackOff(0.1, 0.1, 0.5, jitter_factor=1e-9, rng=StubRandom(LAST_DRAW)), 20_000),
        (MIMDBackOff(1, 1.3, 0.5, consider_actual_delay=True, clock=SetClock()), 1050),
    ],
    ids=readable_id,
)
def test_bounds_hold_where_rounding_and_overflow_matter(policy, far):
    for n in range(1, far + 1):
        delay = policy.next_backoff()
        if n in (1, 2, 99, 100, 101, 200, far - 1, far):
            least, greatest = policy.bounds(n)
            assert least <= delay <= greatest, n


@pytest.mark.parametrize("policy", samples(), ids=readable_id)
def test_bounds_of_any_call_cost_the_same(policy):
    late = policy.bounds(MANY)
    assert late is None or 0.0 <= late[0] <= late[1] <= LARGEST
    assert steps(lambda: policy.bounds(MANY)) <= steps(lambda: policy.bounds(5000)) + 500
    assert policy.bounds(10**400) == policy.bounds(10**5000) == policy.bounds(10**300)


def counters():
    """Yield the samples that count calls, each with the name of its counter."""
    for policy in samples():
        for name in ("attempts", "retries"):
            if hasattr(policy, name) and getattr(policy, "max_retries", MANY) >= MANY:
                yield policy, name


@pytest.mark.parametrize(("policy", "count"), list(counters()), ids=readable_id)
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


@for_each_kind(EVERY, times=moments)
def test_reset_gives_the_same_run_again_with_the_same_seed(kind, data, times):
    policy, clock, generator = drawn_policy(data, kind)
    generator.seed(7)
    first = run(policy, clock, times)
    policy.reset()
    generator.seed(7)
    assert run(policy, clock, times) == first


@for_each_kind(CLASSES, before=moments, after=moments)
def test_a_copy_goes_on_as_the_policy_does(kind, data, before, after):
    policy, clock, generator = drawn_policy(data, kind)
    run(policy, clock, before)
    now, twin = clock.monotonic(), copy.copy(policy)
    generator.seed(7)
    first = run(policy, clock, after)
    clock.now = now
    generator.seed(7)
    assert run(twin, clock, after) == first


@for_each_kind(["any"], before=st.integers(0, 10))
def test_a_run_of_a_copy_is_a_fresh_run(kind, data, before):
    policy, clock, generator = drawn_policy(data, kind)
    run(policy, clock, [0.0] * before)
    generator.seed(7)
    copied = list(islice(delays(policy), 20))
    policy.reset()
    generator.seed(7)
    own = run(policy, clock, [0.0] * 20)
    assert copied == own[: own.index(STOP) if STOP in own else None]

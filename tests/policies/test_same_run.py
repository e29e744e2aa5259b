"""With the same seed a policy that was reset, and a copy, give the same run again."""

from __future__ import annotations

import copy
from itertools import islice

import pytest
from hypothesis import given, settings, strategies as st

from backoff_ticker import STOP, delays
from tests.policies.policy_strategies import (
    CLASSES,
    EVERY,
    cumulated,
    drawn_policy,
    run,
    steps_of_time,
)


@pytest.mark.parametrize("kind", EVERY)
@given(data=st.data(), times=steps_of_time)
@settings(deadline=None)
def test_reset_gives_the_same_run_again_with_the_same_seed(kind, data, times):
    policy, clock, generator = drawn_policy(data, kind)
    moments = cumulated(times)
    generator.seed(7)
    first = run(policy, clock, moments)
    policy.reset()
    generator.seed(7)
    assert run(policy, clock, moments) == first


@pytest.mark.parametrize("kind", CLASSES)
@given(data=st.data(), before=steps_of_time, after=steps_of_time)
@settings(deadline=None)
def test_a_copy_goes_on_as_the_policy_does(kind, data, before, after):
    policy, clock, generator = drawn_policy(data, kind)
    run(policy, clock, cumulated(before))
    now, twin = clock.now, copy.copy(policy)
    generator.seed(7)
    first = run(policy, clock, cumulated(after))
    clock.now = now
    generator.seed(7)
    assert run(twin, clock, cumulated(after)) == first


@pytest.mark.parametrize("kind", EVERY)
@given(data=st.data(), before=st.integers(0, 10))
@settings(deadline=None)
def test_a_run_of_a_copy_is_a_fresh_run(kind, data, before):
    policy, clock, generator = drawn_policy(data, kind)
    run(policy, clock, [0.0] * before)
    generator.seed(7)
    copied = list(islice(delays(policy), 20))
    policy.reset()
    generator.seed(7)
    own = run(policy, clock, [0.0] * 20)
    assert copied == own[: own.index(STOP) if STOP in own else None]

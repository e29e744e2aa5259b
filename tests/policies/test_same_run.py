"""With the same seed a policy that was reset, and a copy, give the same run again."""

from __future__ import annotations

import copy
from itertools import islice

from hypothesis import strategies as st

from backoff_ticker import STOP, delays
from tests.policies.policy_strategies import (
    CLASSES,
    EVERY,
    drawn_policy,
    for_each_kind,
    moments,
    run,
)


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


@for_each_kind(EVERY, before=st.integers(0, 10))
def test_a_run_of_a_copy_is_a_fresh_run(kind, data, before):
    policy, clock, generator = drawn_policy(data, kind)
    run(policy, clock, [0.0] * before)
    generator.seed(7)
    copied = list(islice(delays(policy), 20))
    policy.reset()
    generator.seed(7)
    own = run(policy, clock, [0.0] * 20)
    assert copied == own[: own.index(STOP) if STOP in own else None]

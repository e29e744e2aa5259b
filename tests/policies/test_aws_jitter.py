"""The three jitters of AWS."""

from __future__ import annotations

import copy
import random

import pytest

from backoff_ticker import (
    DecorrelatedJitterBackOff,
    EqualJitterBackOff,
    ExponentialBackOff,
    FullJitterBackOff,
    TruncatedExponentialBackOff,
    with_jitter,
)
from tests.policies.policy_doubles import ask
from tests.policies.policy_strategies import LARGEST
from tests.policies.random_doubles import LAST_DRAW, StubRandom

JITTERS = [FullJitterBackOff, EqualJitterBackOff, DecorrelatedJitterBackOff]


@pytest.mark.parametrize(
    ("cls", "drawn", "expected"),
    [
        (FullJitterBackOff, 0.0, [0, 0, 0, 0, 0]),
        (FullJitterBackOff, 0.5, [0.5, 1, 2, 4, 5]),
        (EqualJitterBackOff, 0.0, [0.5, 1, 2, 4, 5]),
        (EqualJitterBackOff, 0.5, [0.75, 1.5, 3, 6, 7.5]),
        (DecorrelatedJitterBackOff, 0.0, [1, 1, 1, 1, 1]),
        (DecorrelatedJitterBackOff, 0.5, [2, 3.5, 5.75, 9.125, 10]),
    ],
)
def test_the_formula_with_base_1_and_cap_10(cls, drawn, expected):
    assert ask(cls(1, 10, rng=StubRandom(drawn)), 5) == expected


def test_the_next_draw_of_the_decorrelated_jitter_builds_on_the_capped_delay():
    rng = StubRandom(LAST_DRAW)
    policy = DecorrelatedJitterBackOff(1, 10, rng=rng)
    ask(policy, 9)
    assert policy.last_delay == 10.0
    rng.drawn = 0.5
    assert policy.next_backoff() == 10.0
    rng.drawn = 0.0
    assert policy.next_backoff() == 1.0
    assert policy.last_delay == 1.0


@pytest.mark.parametrize("cls", JITTERS)
def test_reset_begins_anew(cls):
    policy = cls(1, 10, rng=StubRandom(0.5))
    first = ask(policy, 5)
    assert policy.retries == 5
    policy.reset()
    assert policy.retries == 0
    assert ask(policy, 5) == first


@pytest.mark.parametrize("cls", JITTERS)
def test_a_base_of_zero_never_waits(cls):
    assert ask(cls(0, None), 2000) == [0.0] * 2000


@pytest.mark.parametrize("cls", JITTERS)
def test_without_a_cap_delays_saturate_at_the_largest_float(cls):
    policy = cls(1, None, rng=StubRandom(LAST_DRAW))
    last = ask(policy, 3000)[-1]
    assert last <= LARGEST
    assert last == pytest.approx(LARGEST, rel=1e-9)
    assert policy.bounds(10**9)[1] == LARGEST


@pytest.mark.parametrize("cls", JITTERS)
def test_a_cap_below_the_base_is_refused(cls):
    with pytest.raises(ValueError, match=r"cap must be >= base \(2\), not 1.5"):
        cls(2, 1.5)


@pytest.mark.parametrize("cls", JITTERS)
def test_what_is_no_generator_is_refused(cls):
    with pytest.raises(TypeError, match=r"rng must be a random.Random or None, not 7"):
        cls(1, 2, rng=7)


def test_copies_share_a_generator_but_not_their_place():
    rng = random.Random(1)
    for policy in [*(cls(1, 10, rng=rng) for cls in JITTERS), TruncatedExponentialBackOff(rng=rng)]:
        policy.next_backoff()
        twin = copy.copy(policy)
        policy.next_backoff()
        assert (twin.retries, policy.retries) == (1, 2)
        assert twin._rng is policy._rng is rng


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


def test_the_decorrelated_jitter_grows_by_its_multiplier():
    policy = DecorrelatedJitterBackOff(1, 100, rng=StubRandom(LAST_DRAW), multiplier=2)
    assert ask(policy, 4) == pytest.approx([2.0, 4.0, 8.0, 16.0])
    assert policy.bounds(4) == (1.0, 16.0)
    steady = DecorrelatedJitterBackOff(5, None, rng=StubRandom(LAST_DRAW), multiplier=1)
    assert ask(steady, 3) == [5.0] * 3


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (FullJitterBackOff(1, 9, multiplier=3), "base=1.0, cap=9.0, multiplier=3.0"),
        (FullJitterBackOff(1, 9), "base=1.0, cap=9.0"),
        (DecorrelatedJitterBackOff(1, 9), "base=1.0, cap=9.0"),
        (DecorrelatedJitterBackOff(1, 9, multiplier=2), "base=1.0, cap=9.0, multiplier=2.0"),
        (
            TruncatedExponentialBackOff(initial_backoff=2),
            "maximum_backoff=64.0, max_jitter=1.0, initial_backoff=2.0",
        ),
    ],
)
def test_another_multiplier_is_printed(policy, text):
    assert repr(policy) == f"{type(policy).__name__}({text})"

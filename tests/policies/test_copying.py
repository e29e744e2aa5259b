"""How the copy that runs is made: what is copied with a policy, and what is not."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import random
import re

import pytest

from backoff_ticker import (
    BackOffWrapper,
    ExponentialBackOff,
    LIMDBackOff,
    Ticker,
    chain,
    with_jitter,
    with_max_retries,
)
from backoff_ticker.policies import copy_policy
from tests.policies.policy_doubles import Counting, InDict, Passing, Wrapper, ask, steps


class InSlot(Passing):
    __slots__ = ("inner",)

    def __init__(self, policy):
        self.inner = policy


@dataclasses.dataclass(frozen=True)
class Frozen(Passing):
    inner: object


def held_in(name, put, get):
    """Return a class that holds a policy in the container ``put(policy)``."""

    def init(self, policy):
        self.held = put(policy)

    inner = property(lambda self: get(self.held))
    return type(name, (Passing,), {"__init__": init, "inner": inner})


PLACES = [
    Wrapper,
    InSlot,
    Frozen,
    InDict,
    held_in("InList", lambda policy: [1, policy], lambda held: held[1]),
    held_in("InLongList", lambda policy: [policy, *range(1000)], lambda held: held[0]),
    held_in("InTuple", lambda policy: ("x", policy), lambda held: held[1]),
]


@pytest.mark.parametrize("wrap", PLACES)
@pytest.mark.parametrize("make_copy", [lambda p: copy_policy("backoff", p), copy.copy])
def test_a_policy_is_copied_where_a_wrapper_holds_it(wrap, make_copy):
    inner = Counting()
    policy = with_max_retries(wrap(inner), 100)
    inner.asked = 7
    run = make_copy(policy)
    assert type(run.backoff) is type(policy.backoff)
    assert ask(run, 3) == [7.0, 8.0, 9.0]
    run.reset()
    assert inner.asked == 7
    assert policy.next_backoff() == 7.0


def test_nothing_deeper_is_copied():
    policy = Wrapper(Counting())
    policy.deep = [[policy.inner], {"x": [policy.inner]}]
    policy.data = {"a": [1, (2, 3)]}
    run = copy_policy("backoff", policy)
    assert run.inner is not policy.inner
    assert run.deep is policy.deep
    assert run.data is policy.data


@pytest.mark.parametrize("container", [list, tuple, dict.fromkeys])
def test_data_that_a_policy_holds_costs_nothing(container):
    def cost(size):
        policy = Counting()
        policy.data = container(range(size))
        assert copy_policy("backoff", policy).data is policy.data
        return steps(lambda: Ticker(policy))

    assert cost(10**6) <= cost(1)


@pytest.mark.parametrize("inner", [Counting(), ExponentialBackOff()], ids=["a user's", "ours"])
def test_what_is_shared_in_the_original_is_shared_in_the_copy(inner):
    twin = copy.copy(chain(with_max_retries(inner, 1), with_max_retries(inner, 1), inner))
    first, second, third = twin.backoffs
    assert first.backoff is second.backoff is third
    assert third is not inner
    both = Wrapper(Counting())
    both.first = both.second = [both.inner]
    run = copy_policy("backoff", both)
    assert run.first is run.second
    assert run.first[0] is run.inner is not both.inner


def test_a_copy_method_is_honoured_wherever_the_policy_is():
    class Own(Wrapper):
        def __copy__(self):
            twin = Own(self.inner)
            twin.copied = True
            return twin

    class Shared(Counting):
        def __copy__(self):
            return self

    policy, shared = Own(Counting()), Shared()
    for run in (copy_policy("backoff", policy), copy.copy(with_max_retries(policy, 1)).backoff):
        assert run.copied
        assert run.inner is policy.inner
    assert copy_policy("backoff", shared) is shared
    assert copy_policy("backoff", InDict(shared)).inner is shared


class Stubborn(Counting):
    def __copy__(self):
        raise ZeroDivisionError("no copies")


class Forgetful(Counting):
    def __copy__(self):
        pass


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (Stubborn, "no copies"),
        (Forgetful, r"what its __copy__\(\) returns must be a BackOff.*, not None"),
    ],
)
def test_a_policy_that_cannot_be_copied_is_refused_with_the_reason(kind, reason):
    for policy in (kind(), InDict(kind()), with_max_retries(kind(), 1)):
        with pytest.raises(TypeError, match="^the_policy must be a BackOff that can be") as caught:
            copy_policy("the_policy", policy)
        assert re.fullmatch(reason, str(caught.value.__cause__))
    with pytest.raises((ZeroDivisionError, TypeError), match=reason):
        copy.copy(with_max_retries(kind(), 1))


class Holding(ExponentialBackOff):
    def __init__(self, held):
        super().__init__(2)
        self.held = [held]


class HoldingInSlots(Holding):
    __slots__ = ("__own", "unset")

    def __init__(self, held):
        super().__init__(held)
        self.__own = held

    def own(self):
        return self.__own


@pytest.mark.parametrize("kind", [Holding, HoldingInSlots])
def test_a_subclass_is_copied_with_all_its_attributes(kind):
    policy = kind(Counting())
    for twin in (copy.copy(policy), copy_policy("backoff", with_max_retries(policy, 1)).backoff):
        assert type(twin) is kind
        assert twin.bounds(1) == policy.bounds(1)
        assert twin.held[0] is not policy.held[0]
        if kind is HoldingInSlots:
            assert twin.own() is twin.held[0]
            assert not hasattr(twin, "unset")


def test_a_copy_has_the_same_generator_and_no_clock_is_bound(clock):
    rng = random.Random(1)
    policy = with_jitter(ExponentialBackOff(rng=rng), rng=rng)
    twin = copy.copy(policy)
    assert twin._rng is twin.backoff._rng is rng
    assert twin.backoff._clock is None
    assert copy_policy("backoff", policy, clock).backoff._clock is clock


class Own(BackOffWrapper):
    """A wrapper of a user's own."""


@pytest.mark.parametrize("wrap", [lambda p: with_max_retries(p, 5), chain, Own])
@pytest.mark.parametrize(
    "make_copy", [copy.copy, copy.deepcopy, lambda policy: pickle.loads(pickle.dumps(policy))]
)
def test_every_copy_of_a_wrapper_around_feedback_takes_feedback(wrap, make_copy):
    policy = wrap(LIMDBackOff(2, 4, 0.5))
    policy.failure()
    twin = make_copy(policy)
    assert type(twin) is type(policy)
    assert (twin.failure(), policy.failure(), policy.failure()) == (6.0, 6.0, 10.0)

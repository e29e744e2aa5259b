"""How the copy that runs is made, at any depth, and how its answers are checked."""

from __future__ import annotations

import dataclasses
import itertools
from datetime import timedelta

import pytest

from backoff_ticker import (
    ConstantBackOff,
    ExponentialBackOff,
    StopBackOff,
    ZeroBackOff,
    delays,
    with_max_retries,
)
from backoff_ticker.policies._running import (
    attributes,
    checked_delay,
    copy_policy,
    require_policy,
    start_policy,
)
from tests.policies.policy_doubles import InContainers, Passing, ask


class Counting:
    """A policy of 0.0, 1.0, 2.0 ... with its state in ``asked``."""

    def __init__(self):
        self.asked = 0

    def next_backoff(self):
        self.asked += 1
        return float(self.asked - 1)

    def reset(self):
        self.asked = 0


class InAttribute(Passing):
    def __init__(self, policy):
        self.inner = policy


class InSlot(Passing):
    __slots__ = ("inner",)

    def __init__(self, policy):
        self.inner = policy


class InInheritedSlot(InSlot):
    __slots__ = ()


class InPrivateSlot(Passing):
    __slots__ = "__hidden"  # noqa: PLC0205 - a lone string is a slot too

    def __init__(self, policy):
        self.__hidden = policy

    @property
    def inner(self):
        return self.__hidden


@dataclasses.dataclass(frozen=True)
class Frozen(Passing):
    inner: object


PLACES = [InAttribute, InSlot, InInheritedSlot, InPrivateSlot, InContainers, Frozen]


def through_everything(policy):
    for place in PLACES:
        policy = with_max_retries(place(policy), 100)
    return policy


@pytest.mark.parametrize("wrap", [*PLACES, through_everything])
def test_a_policy_is_copied_wherever_a_wrapper_holds_it(wrap):
    inner = Counting()
    policy = wrap(inner)
    inner.asked = 7
    run = copy_policy("backoff", policy)
    assert ask(run, 3) == [7.0, 8.0, 9.0]
    assert inner.asked == 7
    run.reset()
    assert inner.asked == 7
    assert policy.next_backoff() == 7.0


@pytest.mark.parametrize("wrap", [*PLACES, through_everything])
def test_a_run_begins_anew(clock, wrap):
    inner = Counting()
    policy = wrap(inner)
    inner.asked = 7
    assert start_policy("backoff", policy, clock).next_backoff() == 0.0
    assert inner.asked == 7


def test_a_policy_held_twice_is_one_policy_in_the_copy():
    class Twice(InAttribute):
        def __init__(self, policy):
            self.inner = policy
            self.same = [policy]

    run = copy_policy("backoff", Twice(Counting()))
    assert run.same[0] is run.inner


def test_policies_that_hold_each_other_are_copied():
    first = InAttribute(None)
    second = InAttribute(first)
    first.inner = second
    run = copy_policy("backoff", first)
    assert run is not first
    assert run.inner is not second
    assert run.inner.inner is run


def test_what_holds_no_policy_is_not_copied():
    class WithData(Counting):
        def __init__(self):
            super().__init__()
            self.data = {"a": [1, (2, 3)]}

    policy = WithData()
    assert copy_policy("backoff", policy).data is policy.data


def test_containers_with_a_policy_keep_what_else_they_hold():
    other = object()
    policy = InAttribute(Counting())
    policy.more = [other, {"k": other, "p": policy.inner}, ()]
    run = copy_policy("backoff", policy)
    assert run.more == [other, {"k": other, "p": run.inner}, ()]
    assert policy.more[1]["p"] is policy.inner


def test_a_class_that_returns_itself_is_shared(clock):
    class Shared(Counting):
        def __copy__(self):
            return self

    policy = InAttribute(Shared())
    run = start_policy("backoff", policy, clock)
    assert run is not policy
    run.next_backoff()
    assert policy.inner.asked == 1


def test_a_copy_method_of_the_user_is_taken_at_its_word():
    class Own(InAttribute):
        def __copy__(self):
            twin = Own(self.inner)
            twin.copied = True
            return twin

    policy = Own(Counting())
    run = copy_policy("backoff", policy)
    assert run.copied
    assert run.inner is policy.inner


def test_a_subclass_of_a_policy_of_the_package_is_copied_with_what_it_holds():
    class Holding(ExponentialBackOff):
        def __init__(self, held):
            super().__init__()
            self.held = [held]

    policy = Holding(Counting())
    run = copy_policy("backoff", policy)
    run.held[0].next_backoff()
    assert policy.held[0].asked == 0


@pytest.mark.parametrize("kind", [ConstantBackOff, ExponentialBackOff, ZeroBackOff])
def test_a_copy_is_of_the_same_class(kind):
    policy = kind(1) if kind is ConstantBackOff else kind()
    assert type(copy_policy("backoff", policy)) is kind


def test_a_policy_that_cannot_be_copied_is_refused_with_the_reason():
    class Stubborn(Counting):
        def __copy__(self):
            raise ZeroDivisionError("no copies")

    for policy in (Stubborn(), InContainers(Stubborn())):
        with pytest.raises(TypeError) as caught:
            copy_policy("the_policy", policy)
        assert str(caught.value).startswith("the_policy must be a BackOff that can be copied")
        assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize(
    "value",
    [None, 1.5, "x", object(), Counting, iter([1.0]), type("Half", (), {"reset": print})()],
)
def test_what_is_no_policy_is_refused_by_name(clock, value):
    for refuse in (
        lambda: require_policy("the_policy", value),
        lambda: copy_policy("the_policy", value),
        lambda: start_policy("the_policy", value, clock),
    ):
        with pytest.raises(TypeError) as caught:
            refuse()
        assert str(caught.value).startswith("the_policy must be a BackOff")
        assert str(caught.value).endswith(f"not {value!r}")


def test_attributes_are_found_in_the_dict_and_in_all_slots():
    class Base:
        __slots__ = ("__private", "unset")

        def __init__(self):
            self.__private = 1

    class Derived(Base):
        __slots__ = ("__dict__", "__weakref__", "own")

        def __init__(self):
            super().__init__()
            self.own = 2
            self.free = 3

    assert dict(attributes(Derived())) == {"_Base__private": 1, "own": 2, "free": 3}


# delays()


def test_delays_end_where_the_policy_stops():
    assert list(delays(with_max_retries(Counting(), 4))) == [0.0, 1.0, 2.0, 3.0]
    assert list(delays(StopBackOff())) == []


def test_delays_are_floats_without_an_end_if_the_policy_has_none():
    taken = list(itertools.islice(delays(ConstantBackOff(3)), 10_000))
    assert taken == [3.0] * 10_000
    assert {type(delay) for delay in taken} == {float}


def test_delays_run_on_a_fresh_copy_of_their_own():
    policy = with_max_retries(Counting(), 3)
    policy.next_backoff()
    first, second = delays(policy), delays(policy)
    assert [next(first), next(second), next(first), next(second)] == [0.0, 0.0, 1.0, 1.0]
    assert policy.retries == 1
    assert policy.backoff.asked == 1


def test_delays_copy_when_they_are_made():
    policy = Counting()
    iterator = delays(policy)
    policy.next_backoff = lambda: 99.0
    assert next(iterator) == 0.0


def test_delays_refuse_what_is_no_policy_at_once():
    with pytest.raises(TypeError) as caught:
        delays("x")
    assert str(caught.value).startswith("backoff must be a BackOff")


def test_an_error_of_the_policy_passes_and_ends_the_delays():
    class Failing(Counting):
        def next_backoff(self):
            raise ZeroDivisionError

    iterator = delays(Failing())
    with pytest.raises(ZeroDivisionError):
        next(iterator)
    assert list(iterator) == []


@pytest.mark.parametrize(
    ("answer", "delay"),
    [(2, 2.0), (timedelta(milliseconds=5), 0.005), (-0.0, 0.0), (5e-324, 5e-324)],
)
def test_an_answer_becomes_seconds(answer, delay):
    checked = checked_delay(ZeroBackOff(), answer)
    assert (checked, type(checked)) == (delay, float)


def test_stop_is_known_by_identity():
    class Equal(Counting):
        """Its answers are equal to everything, STOP included."""

        def next_backoff(self):
            return Equal.Anything(1)

        class Anything(float):
            __hash__ = None

            def __eq__(self, other):
                return True

            def __ne__(self, other):
                return False

    (delay,) = itertools.islice(delays(Equal()), 1)
    assert repr(delay) == "1.0"

"""How the copy that runs is made, at any depth."""

from __future__ import annotations

import copy
import dataclasses
import random

import pytest

from backoff_ticker import (
    ConstantBackOff,
    ExponentialBackOff,
    ZeroBackOff,
    chain,
    with_jitter,
    with_max_retries,
)
from backoff_ticker.policies._copying import attributes, copy_policy, require_policy
from backoff_ticker.policies._running import start_policy
from tests.helpers import readable_id
from tests.policies.policy_doubles import Counting, InContainers, Passing, ask, steps


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


@pytest.mark.parametrize("wrap", [*PLACES, through_everything])
def test_a_run_begins_anew(clock, wrap):
    inner = Counting()
    policy = wrap(inner)
    inner.asked = 7
    assert start_policy("backoff", policy, clock).next_backoff() == 0.0
    assert inner.asked == 7


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


# copy.copy()


@pytest.mark.parametrize("wrap", [*PLACES, through_everything])
def test_copy_copies_the_policies_inside_a_wrapper_as_a_run_does(wrap):
    inner = Counting()
    policy = with_max_retries(wrap(inner), 100)
    twin = copy.copy(policy)
    assert ask(twin, 3) == [0.0, 1.0, 2.0]
    assert (inner.asked, policy.retries, twin.retries) == (0, 0, 3)


def test_a_policy_held_twice_is_one_policy_in_a_copy():
    inner = Counting()
    twin = copy.copy(chain(with_max_retries(inner, 1), with_max_retries(inner, 1), inner))
    first, second, third = twin.backoffs
    assert first.backoff is second.backoff is third
    assert third is not inner


def test_a_copy_has_the_same_data_and_generator_and_no_clock_is_bound(clock):
    rng = random.Random(1)
    policy = with_jitter(ExponentialBackOff(rng=rng), rng=rng)
    twin = copy.copy(policy)
    assert twin._rng is twin.backoff._rng is rng
    assert twin.backoff._clock is None
    assert copy_policy("backoff", policy, clock).backoff._clock is clock


def test_a_copy_method_may_begin_with_that_of_the_package():
    class Own(ExponentialBackOff):
        def __init__(self, held):
            super().__init__()
            self.held = held

        def __copy__(self):
            twin = super().__copy__()
            twin.copied = True
            return twin

    policy = Own(Counting())
    for twin in (copy.copy(policy), copy_policy("backoff", with_max_retries(policy, 1)).backoff):
        assert twin.copied
        assert twin is not policy
        assert twin.held is not policy.held
    assert not hasattr(policy, "copied")


def test_a_subclass_of_what_cannot_change_is_copied():
    class Own(ConstantBackOff):
        def __init__(self, held):
            super().__init__(1)
            self.held = held

    policy = Own(Counting())
    twin = copy.copy(policy)
    assert twin is not policy
    assert twin.interval == 1.0
    assert twin.held is not policy.held


def test_what_a_copy_method_raises_is_raised_by_copy():
    class Stubborn(Counting):
        def __copy__(self):
            raise ZeroDivisionError("no copies")

    with pytest.raises(ZeroDivisionError, match="no copies"):
        copy.copy(with_max_retries(Stubborn(), 1))


def test_copy_shares_what_returns_itself():
    class Shared(Counting):
        def __copy__(self):
            return self

    policy = with_max_retries(Shared(), 1)
    assert copy.copy(policy).backoff is policy.backoff


# What is found out once for each class, or passed over


class ConstantInSlot(ConstantBackOff):
    __slots__ = ("held",)

    def __init__(self, held):
        super().__init__(1)
        self.held = held


class ConstantThatSaysSo(ConstantInSlot):
    __slots__ = ()
    _immutable = True


class OwnThatSaysSo(InAttribute):
    _immutable = True

    def __init__(self, held):
        super().__init__(held)
        self.held = held


@pytest.mark.parametrize("kind", [ConstantInSlot, ConstantThatSaysSo, OwnThatSaysSo])
def test_only_the_classes_of_the_package_are_their_own_copy(kind):
    policy = kind(Counting())
    outer = copy_policy("backoff", with_max_retries(policy, 1))
    for twin in (copy_policy("backoff", policy), outer.backoff):
        assert twin is not policy
        assert twin.held is not policy.held
        assert type(twin.held) is Counting


def test_what_cannot_change_is_shared_at_any_depth():
    constant = ConstantBackOff(1)
    twin = copy_policy("backoff", chain(with_max_retries(constant, 1), constant))
    assert twin.backoffs[0].backoff is twin.backoffs[1] is constant


def test_a_clock_that_is_none_is_refused_also_for_what_cannot_change():
    with pytest.raises(TypeError, match="clock must be a Clock"):
        start_policy("backoff", ZeroBackOff(), object())


def test_a_subclass_has_slots_of_its_own_after_its_base_was_copied():
    class Base(ExponentialBackOff):
        __slots__ = ("__held",)

        def __init__(self, held):
            super().__init__()
            self.__held = held

    class Derived(Base):
        __slots__ = ("__held", "unset")

        def __init__(self, held):
            super().__init__([held])
            self.__held = held

    for kind in (Base, Derived, Base):
        policy = kind(Counting())
        twin = copy_policy("backoff", policy)
        assert attributes(twin).keys() == attributes(policy).keys()
        assert not hasattr(twin, "unset")
        if kind is Derived:
            assert twin._Derived__held is twin._Base__held[0] is not policy._Derived__held


def made_anew(kind, slots):
    """Return a class with the same body and other slots, as decorators make it."""
    body = {name: value for name, value in vars(kind).items() if name != "__dict__"}
    return type(kind)(kind.__name__, kind.__bases__, {**body, "__slots__": slots})


def test_a_class_made_anew_with_slots_does_not_keep_the_names_of_the_old_one():
    class Own(ExponentialBackOff):
        def __init__(self, held):
            super().__init__()
            self.held = held

    plain = object.__new__(Own)
    ExponentialBackOff.__init__(plain)
    assert type(copy_policy("backoff", plain)) is Own
    assert "__slotnames__" in vars(Own)
    kind = made_anew(Own, ("held",))
    policy = object.__new__(kind)
    ExponentialBackOff.__init__(policy)
    policy.held = Counting()
    twin = copy_policy("backoff", policy)
    assert type(twin.held) is Counting
    assert twin.held is not policy.held


def test_a_subclass_takes_what_its_bases_take_when_it_is_made():
    class Named:
        def __init_subclass__(cls, label, **options):
            super().__init_subclass__(**options)
            cls.label = label

    class Own(ExponentialBackOff, Named, label="x"):
        pass

    assert copy_policy("backoff", Own()).label == "x"


def test_a_subclass_that_refuses_to_be_changed_is_copied():
    class Sealed(ExponentialBackOff):
        sealed = False

        def __setattr__(self, name, value):
            if self.sealed:
                raise AttributeError(name)
            super().__setattr__(name, value)

    policy = Sealed(initial_interval=2)
    policy.held = Counting()
    policy.sealed = True
    twin = copy_policy("backoff", policy)
    assert (twin.initial_interval, twin.sealed) == (2.0, True)
    assert twin.held is not policy.held


class CountingFloat(float):
    asked = 0
    next_backoff = Counting.next_backoff
    reset = Counting.reset


def test_a_policy_that_is_a_number_as_well_is_copied():
    policy = with_max_retries(CountingFloat(1), 3)
    run = copy_policy("backoff", policy)
    assert ask(run, 2) == [0.0, 1.0]
    assert run.backoff == 1.0
    assert policy.backoff.asked == 0


def test_a_value_whose_class_cannot_be_compared_is_passed_over():
    class Incomparable(type):
        def __eq__(cls, other):
            raise ZeroDivisionError

        __hash__ = None

    class Own(ExponentialBackOff):
        pass

    policy = Own()
    policy.held = [Incomparable("Odd", (), {})()]
    policy.alone = policy.held[0]
    twin = copy_policy("backoff", policy)
    assert twin.held is policy.held
    assert twin.alone is policy.alone


@pytest.mark.parametrize(
    ("policy", "most"),
    [
        (ZeroBackOff(), 30),
        (ConstantBackOff(1), 30),
        (ExponentialBackOff(), 160),
        (with_max_retries(ExponentialBackOff(), 5), 240),
    ],
    ids=readable_id,
)
def test_a_run_begins_in_few_steps(policy, most):
    start_policy("backoff", policy, None)
    assert steps(lambda: start_policy("backoff", policy, None)) <= most

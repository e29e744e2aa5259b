"""The policies without state."""

from __future__ import annotations

import copy
import pickle
from datetime import timedelta

import pytest

from backoff_ticker import STOP, BackOff, ConstantBackOff, StopBackOff, ZeroBackOff
from backoff_ticker.policies import copy_policy
from tests.helpers import readable_id
from tests.policies.policy_doubles import ask

STATELESS = [ConstantBackOff(2.5), ZeroBackOff(), StopBackOff()]


@pytest.mark.parametrize(
    ("policy", "delay"),
    [
        (ConstantBackOff(2.5), 2.5),
        (ConstantBackOff(3), 3.0),
        (ConstantBackOff(0), 0.0),
        (ConstantBackOff(timedelta(milliseconds=250)), 0.25),
        (ZeroBackOff(), 0.0),
    ],
)
def test_the_same_delay_comes_for_ever_as_a_float(policy, delay):
    asked = ask(policy, 1000)
    assert asked == [delay] * 1000
    assert {type(answer) for answer in asked} == {float}
    policy.reset()
    assert policy.next_backoff() == delay


def test_stop_back_off_stops_also_after_reset():
    policy = StopBackOff()
    assert policy.next_backoff() is STOP
    policy.reset()
    assert policy.next_backoff() is STOP


def test_the_interval_can_be_read_in_seconds():
    assert ConstantBackOff(timedelta(minutes=1)).interval == 60.0
    assert ConstantBackOff(7).interval == 7.0


def test_a_negative_zero_becomes_zero():
    assert str(ConstantBackOff(-0.0).next_backoff()) == "0.0"


@pytest.mark.parametrize("policy", STATELESS, ids=readable_id)
def test_they_keep_the_contract_of_a_policy(policy):
    assert isinstance(policy, BackOff)


@pytest.mark.parametrize("policy", STATELESS, ids=readable_id)
def test_what_cannot_change_is_its_own_copy(policy):
    assert copy.copy(policy) is policy
    assert copy_policy("backoff", policy) is policy


def test_the_interval_cannot_be_changed():
    """Copies are the object itself, so a change would reach every ticker that runs it."""
    with pytest.raises(AttributeError):
        ConstantBackOff(1).interval = 2


@pytest.mark.parametrize("policy", STATELESS, ids=readable_id)
def test_they_survive_pickle_and_deepcopy(policy):
    for twin in (pickle.loads(pickle.dumps(policy)), copy.deepcopy(policy)):
        assert type(twin) is type(policy)
        assert twin.next_backoff() == policy.next_backoff()


def test_they_print_as_they_are_made():
    assert [repr(policy) for policy in STATELESS] == [
        "ConstantBackOff(2.5)",
        "ZeroBackOff()",
        "StopBackOff()",
    ]


@pytest.mark.parametrize("policy", STATELESS, ids=readable_id)
def test_they_are_small(policy):
    assert not hasattr(policy, "__dict__")

"""Policies one after the other."""

import pytest

from backoff_ticker import STOP, FeedbackBackOff, StopBackOff, ZeroBackOff, chain, delays
from tests.policies.policy_doubles import Feedback, Recording, ask, constant


def test_one_after_the_other():
    policy = chain(constant(1, 2), constant(2, 1), StopBackOff(), constant(3, 2))
    assert ask(policy, 7) == [1.0, 1.0, 2.0, 3.0, 3.0, STOP, STOP]
    assert list(delays(policy)) == [1.0, 1.0, 2.0, 3.0, 3.0]


def test_what_has_stopped_is_not_asked_again_before_reset():
    first, second = Recording([STOP, 1.0]), Recording([2.0])
    policy = chain(first, second)
    assert ask(policy, 3) == [2.0, 2.0, 2.0]
    assert (first.calls, policy.position) == (["next"], 1)
    policy.reset()
    assert policy.position == 0
    assert (first.calls, second.calls) == (["next", "reset"], ["next"] * 3 + ["reset"])
    assert policy.next_backoff() == 1.0


def test_a_chain_needs_policies():
    with pytest.raises(TypeError, match="at least one policy"):
        chain()
    with pytest.raises(TypeError, match=r"argument 2 of chain\(\) must be a BackOff.*, not 3"):
        chain(ZeroBackOff(), 3)


def test_a_chain_takes_feedback_if_any_part_does():
    assert not isinstance(chain(ZeroBackOff()), FeedbackBackOff)
    assert isinstance(chain(ZeroBackOff(), Feedback()), FeedbackBackOff)


def test_the_part_whose_turn_it_is_hears_the_feedback():
    inner = Feedback()
    policy = chain(constant(1, 1), inner)
    assert policy.failure(1.0) == 1.0
    assert policy.success(2.0) == 1.0  # begins the first part anew
    assert inner.calls == []
    assert policy.failure(3.0) == 5.0
    assert policy.success(4.0) == 0.5
    assert inner.calls == [("failure", 3.0), ("success", 4.0)]

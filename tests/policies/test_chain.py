"""Policies one after the other."""

from __future__ import annotations

import copy

import pytest

from backoff_ticker import (
    STOP,
    CancellationToken,
    ConstantBackOff,
    FeedbackBackOff,
    StopBackOff,
    Ticker,
    ZeroBackOff,
    chain,
    delays,
    with_max_interval,
    with_max_retries,
    with_token,
)
from tests.policies.policy_doubles import Feedback, Recording, ask


def constant(seconds, count):
    return with_max_retries(ConstantBackOff(seconds), count)


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


def test_a_chain_whose_parts_have_stopped_stays_so():
    policy = chain(Recording([STOP, 1.0]), Recording([STOP, 2.0]))
    assert ask(policy, 3) == [STOP] * 3
    assert policy.position == 2
    assert copy.copy(policy).position == 2


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


def test_a_token_in_a_part_ends_a_ticker():
    token = CancellationToken()
    policy = chain(constant(0, 1), with_token(ConstantBackOff(300), token))
    assert policy.token is token
    ticker = Ticker(policy)
    ticker.receive()
    ticker.receive()
    token.cancel()
    assert list(ticker) == []


def test_a_part_that_is_also_inside_another_is_one_policy_in_every_copy():
    part = constant(1, 2)
    policy = chain(part, with_max_interval(part, 0.5))
    twin = copy.copy(policy)
    assert twin.backoffs[1].backoff is twin.backoffs[0]
    assert twin.backoffs[0] is not part
    assert list(delays(policy)) == [1.0, 1.0]
    assert ask(twin, 3) == [1.0, 1.0, STOP]
    assert ask(policy, 3) == [1.0, 1.0, STOP]

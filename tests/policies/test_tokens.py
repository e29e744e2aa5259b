"""The token of a policy: what ``with_token`` stops, and how a run finds it."""

from __future__ import annotations

import copy

import pytest

from backoff_ticker import (
    STOP,
    BackOffWrapper,
    CancellationToken,
    CloseReason,
    ConstantBackOff,
    StopBackOff,
    Ticker,
    ZeroBackOff,
    chain,
    with_jitter,
    with_max_elapsed_time,
    with_max_interval,
    with_max_retries,
    with_token,
)
from tests.helpers import SetClock, readable_id
from tests.policies.policy_doubles import Feedback, InDict, Passing, Recording, ask


def test_a_cancelled_token_stops_it_without_asking_the_policy_inside():
    inner, token = Recording(), CancellationToken()
    policy = with_token(inner, token)
    assert ask(policy, 1) == [1.0]
    token.cancel()
    assert ask(policy, 2) == [STOP, STOP]
    assert inner.calls == ["next"]


def test_reset_passes_through_a_token_and_revives_nothing():
    inner, token = Recording(), CancellationToken()
    policy = with_token(inner, token)
    token.cancel()
    policy.reset()
    assert inner.calls == ["reset"]
    assert policy.next_backoff() is STOP


@pytest.mark.parametrize("which", [0, 1])
def test_of_two_tokens_either_stops_it(which):
    tokens = CancellationToken(), CancellationToken()
    policy = with_token(with_token(ZeroBackOff(), tokens[0]), tokens[1])
    assert policy.next_backoff() == 0.0
    tokens[which].cancel()
    assert policy.token.cancelled
    assert policy.next_backoff() is STOP


def test_a_deadline_that_has_passed_stops_it(clock):
    policy = with_token(ZeroBackOff(), CancellationToken(clock=clock).child(timeout=5))
    clock.advance(4.999)
    assert policy.next_backoff() == 0.0
    clock.advance(0.001)
    assert policy.next_backoff() is STOP


def test_feedback_passes_through_a_token_until_it_is_cancelled():
    inner, token = Feedback(), CancellationToken()
    policy = with_token(inner, token)
    assert (policy.failure(1.0), policy.success(2.0)) == (5.0, 0.5)
    token.cancel()
    assert policy.failure() is STOP
    assert policy.success(3.0) is STOP
    assert inner.calls == [("failure", 1.0), ("success", 2.0)]


def test_a_copy_holds_the_same_token():
    token = CancellationToken()
    twin = copy.copy(with_token(ZeroBackOff(), token))
    assert twin.token is token


@pytest.mark.parametrize(
    "token", [None, "token", object(), True, CancellationToken], ids=readable_id
)
def test_what_is_no_token_is_refused(token):
    with pytest.raises(TypeError) as caught:
        with_token(ZeroBackOff(), token)
    assert str(caught.value) == f"token must be a CancellationToken, not {token!r}"


# How a run finds it


class Guarded(Recording):
    """A policy of a user with a token of its own."""

    def __init__(self, token):
        super().__init__()
        self.token = token


class Derived(BackOffWrapper):
    """A wrapper of a user that derives from the public base."""


HANDING_ON = {
    "max_retries": lambda inner: with_max_retries(inner, 3),
    "max_elapsed_time": lambda inner: with_max_elapsed_time(inner, 3),
    "max_interval": lambda inner: with_max_interval(inner, 3),
    "jitter": with_jitter,
    "chain": lambda inner: chain(ZeroBackOff(), inner),
    "derived": Derived,
    "with the attribute": InDict,
}


@pytest.mark.parametrize("wrap", HANDING_ON.values(), ids=HANDING_ON)
@pytest.mark.parametrize("make", [lambda token: with_token(ZeroBackOff(), token), Guarded])
def test_a_wrapper_hands_on_the_token_inside(wrap, make):
    token = CancellationToken()
    assert wrap(make(token)).token is token
    assert wrap(wrap(make(token))).token is token
    assert wrap(ZeroBackOff()).token is None


def test_a_wrapper_that_does_not_hand_it_on_hides_it():
    class Hiding(Passing):
        def __init__(self, inner):
            self.inner = inner

    ticker = Ticker(Hiding(with_token(ConstantBackOff(300), CancellationToken())), clock=SetClock())
    assert ticker._run.token is None


@pytest.mark.parametrize("which", [0, 1])
def test_a_chain_combines_the_tokens_of_its_parts(which):
    tokens = one, other = CancellationToken(), CancellationToken()
    parts = with_token(ZeroBackOff(), one), StopBackOff(), Guarded(one)
    assert chain(*parts).token is one
    policy = chain(*parts, with_token(ZeroBackOff(), other))
    assert not policy.token.cancelled
    tokens[which].cancel()
    assert policy.token.cancelled


@pytest.mark.parametrize("which", range(2))
def test_the_tokens_of_a_ticker_and_of_its_policy_both_end_it(which):
    tokens = CancellationToken(), CancellationToken()
    ticker = Ticker(with_max_retries(Guarded(tokens[0]), 9), token=tokens[1], clock=SetClock())
    ticker.receive()
    tokens[which].cancel()
    assert ticker.close_reason is CloseReason.CANCELLED


def test_an_attribute_of_that_name_that_is_no_token_does_not_count():
    ticker = Ticker(Guarded("a secret of some service"), clock=SetClock())
    assert ticker.receive().number == 1
    assert not ticker.closed

"""A token around a policy: what it stops, and how a run hears of it."""

from __future__ import annotations

import copy
import threading

import pytest

from backoff_ticker import (
    STOP,
    CancellationToken,
    ConstantBackOff,
    ExponentialBackOff,
    StopBackOff,
    ZeroBackOff,
    with_max_retries,
    with_token,
)
from backoff_ticker.policies._announce import announce, listening
from backoff_ticker.policies._token_backoff import TokenBackOff, token_policies
from tests.helpers import readable_id
from tests.policies.policy_doubles import Feedback, Recording, ask


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
    assert policy.next_backoff() is STOP


def test_a_deadline_that_has_passed_stops_it(clock):
    policy = with_token(ZeroBackOff(), CancellationToken(clock).child(timeout=5))
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
    token.cancel()
    assert twin.next_backoff() is STOP


@pytest.mark.parametrize(
    "token", [None, "token", object(), True, CancellationToken], ids=readable_id
)
def test_what_is_no_token_is_refused(token):
    with pytest.raises(TypeError) as caught:
        with_token(ZeroBackOff(), token)
    assert str(caught.value) == f"token must be a CancellationToken, not {token!r}"


# Announcing a token to the run that asks


def test_each_question_announces_the_tokens_at_any_depth():
    outer, inner = CancellationToken(), CancellationToken()
    policy = with_token(with_max_retries(with_token(ZeroBackOff(), inner), 5), outer)
    heard = []
    assert listening(policy.next_backoff, heard.append) == 0.0
    assert heard == [outer, inner]


def test_a_cancelled_token_is_announced_too():
    token = CancellationToken()
    token.cancel()
    heard = []
    assert listening(with_token(ZeroBackOff(), token).next_backoff, heard.append) is STOP
    assert heard == [token]


def test_a_failure_told_announces_as_a_question_does():
    token = CancellationToken()
    heard = []
    listening(with_token(Feedback(), token).failure, heard.append)
    assert heard == [token]


def test_a_success_told_announces_as_a_question_does():
    token = CancellationToken()
    heard = []
    listening(with_token(Feedback(), token).success, heard.append)
    assert heard == [token]


def test_a_copy_announces_although_its_original_need_not():
    token = CancellationToken()
    policy = with_max_retries(with_token(ZeroBackOff(), token), 5)
    policy.backoff.announces = False
    heard = []
    listening(policy.next_backoff, heard.append)
    assert heard == []
    listening(copy.copy(policy).next_backoff, heard.append)
    assert heard == [token]


def test_nobody_listens_before_after_or_in_other_threads():
    token = CancellationToken()
    heard = []

    def ask_in_another_thread():
        other = threading.Thread(target=announce, args=(token,))
        other.start()
        other.join()

    announce(token)
    listening(ask_in_another_thread, heard.append)
    announce(token)
    assert heard == []


def test_the_outer_listener_hears_again_after_an_inner_one_even_if_that_failed():
    first, second = CancellationToken(), CancellationToken()
    outer, inner = [], []

    def fail():
        announce(first)
        raise ZeroDivisionError

    def ask():
        with pytest.raises(ZeroDivisionError):
            listening(fail, inner.append)
        announce(second)

    listening(ask, outer.append)
    assert (inner, outer) == ([first], [second])


FIRST, SECOND = CancellationToken(), CancellationToken()


@pytest.mark.parametrize(
    ("policy", "tokens"),
    [
        (ZeroBackOff(), ()),
        (StopBackOff(), ()),
        (ConstantBackOff(1), ()),
        (ExponentialBackOff(), ()),
        (with_max_retries(with_max_retries(ZeroBackOff(), 1), 1), ()),
        (with_token(ZeroBackOff(), FIRST), (FIRST,)),
        (with_max_retries(with_token(ZeroBackOff(), FIRST), 1), (FIRST,)),
        (
            with_token(with_max_retries(with_token(ZeroBackOff(), FIRST), 1), SECOND),
            (SECOND, FIRST),
        ),
        (with_max_retries(Recording(), 1), None),
        (with_token(Recording(), FIRST), None),
        (type("Own", (ConstantBackOff,), {})(1), None),
        (type("Own", (TokenBackOff,), {})(ZeroBackOff(), FIRST), None),
    ],
)
def test_the_tokens_inside_are_known_where_no_policy_of_a_user_is(policy, tokens):
    found = token_policies(policy)
    assert (None if found is None else tuple(inner.token for inner in found)) == tokens

"""The wrappers: a limit of retries, a token, and how they pass on what is inside."""

from __future__ import annotations

import copy
import pickle
import threading

import pytest

from backoff_ticker import (
    STOP,
    BackOff,
    CancellationToken,
    ConstantBackOff,
    ExponentialBackOff,
    LIMDBackOff,
    StopBackOff,
    ZeroBackOff,
    delays,
    with_max_elapsed_time,
    with_max_interval,
    with_max_retries,
    with_token,
)
from backoff_ticker._announce import announce, listening
from backoff_ticker.policies._running import is_feedback
from backoff_ticker.policies._token_backoff import TokenBackOff, token_policies
from tests.policies.policy_doubles import Feedback, Recording, ask

# A limit of retries


def test_so_many_delays_and_then_stop_until_reset():
    inner = Recording()
    policy = with_max_retries(inner, 2)
    assert ask(policy, 4) == [1.0, 2.0, STOP, STOP]
    assert inner.calls == ["next", "next"]
    policy.reset()
    assert inner.calls == ["next", "next", "reset"]
    assert policy.retries == 0
    assert ask(policy, 3) == [3.0, 4.0, STOP]


def test_no_retries_is_a_single_attempt():
    inner = Recording()
    assert ask(with_max_retries(inner, 0), 2) == [STOP, STOP]
    assert inner.calls == []


def test_the_count_rises_also_where_the_policy_inside_stops():
    inner = Recording([STOP, 7.0])
    policy = with_max_retries(inner, 2)
    assert ask(policy, 3) == [STOP, 7.0, STOP]
    assert policy.retries == 2


def test_of_two_limits_the_lower_counts():
    assert list(delays(with_max_retries(with_max_retries(ZeroBackOff(), 5), 3))) == [0.0] * 3
    assert list(delays(with_max_retries(with_max_retries(ZeroBackOff(), 3), 5))) == [0.0] * 3


def test_a_huge_limit_is_as_good_as_none():
    assert ask(with_max_retries(ZeroBackOff(), 10**18), 3) == [0.0] * 3


def test_what_it_holds_can_be_read():
    inner = ConstantBackOff(1)
    policy = with_max_retries(inner, 3)
    policy.next_backoff()
    assert (policy.backoff, policy.max_retries, policy.retries) == (inner, 3, 1)


def test_a_success_of_a_feedback_policy_starts_the_count_anew():
    inner = Feedback()
    policy = with_max_retries(inner, 2)
    assert [policy.failure(10.0), policy.failure(), policy.failure()] == [5.0, 5.0, STOP]
    assert policy.success(20.0) == 0.5
    assert policy.retries == 0
    assert policy.failure() == 5.0
    assert inner.calls == [
        ("failure", 10.0),
        ("failure", None),
        ("success", 20.0),
        ("failure", None),
    ]


# A token


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
    assert inner.calls == [("failure", 1.0), ("success", 2.0)]


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


# What both share


@pytest.fixture(params=["max_retries", "token", "max_elapsed_time", "max_interval"])
def wrap(request):
    """Each of the wrappers as a function of the policy inside."""
    token = CancellationToken()
    wrappers = {
        "max_retries": lambda inner: with_max_retries(inner, 3),
        "token": lambda inner: with_token(inner, token),
        "max_elapsed_time": lambda inner: with_max_elapsed_time(inner, 3),
        "max_interval": lambda inner: with_max_interval(inner, 3),
    }
    return wrappers[request.param]


def test_a_wrapper_is_a_policy(wrap):
    assert isinstance(wrap(ZeroBackOff()), BackOff)


def test_a_wrapper_takes_feedback_exactly_if_the_policy_inside_does(wrap):
    assert is_feedback(wrap(Feedback())) is True
    assert is_feedback(wrap(wrap(Feedback()))) is True
    assert is_feedback(wrap(ZeroBackOff())) is False
    with pytest.raises(AttributeError) as caught:
        wrap(ZeroBackOff()).failure  # noqa: B018
    assert "has no attribute 'failure'" in str(caught.value)


@pytest.mark.parametrize("policy", [None, 1.0, "x", object(), ZeroBackOff, print], ids=repr)
def test_what_is_no_policy_is_refused(wrap, policy):
    with pytest.raises(TypeError) as caught:
        wrap(policy)
    message = str(caught.value)
    assert message.startswith("backoff must be a BackOff")
    assert message.endswith(f"not {policy!r}")


def test_a_copy_counts_for_itself():
    policy = with_max_retries(ZeroBackOff(), 2)
    policy.next_backoff()
    twin = copy.copy(policy)
    assert ask(twin, 2) == [0.0, STOP]
    assert (policy.retries, twin.retries) == (1, 2)


def test_a_copy_holds_the_same_token():
    token = CancellationToken()
    twin = copy.copy(with_token(ZeroBackOff(), token))
    assert twin.token is token
    token.cancel()
    assert twin.next_backoff() is STOP


@pytest.mark.parametrize("token", [None, "token", object(), True, CancellationToken], ids=repr)
def test_what_is_no_token_is_refused(token):
    with pytest.raises(TypeError) as caught:
        with_token(ZeroBackOff(), token)
    assert str(caught.value) == f"token must be a CancellationToken, not {token!r}"


def test_a_limit_survives_pickle_and_deepcopy():
    policy = with_max_retries(ConstantBackOff(2), 2)
    policy.next_backoff()
    for twin in (pickle.loads(pickle.dumps(policy)), copy.deepcopy(policy)):
        assert ask(twin, 2) == [2.0, STOP]


def test_wrappers_print_as_they_are_made():
    token = CancellationToken()
    assert repr(with_max_retries(ConstantBackOff(1), 2)) == (
        "with_max_retries(ConstantBackOff(1.0), 2)"
    )
    assert repr(with_token(ZeroBackOff(), token)) == f"with_token(ZeroBackOff(), {token!r})"


def test_a_copy_does_not_share_the_policy_inside(wrap):
    inner = ExponentialBackOff(1, 0, 2)
    outer = wrap(wrap(inner))
    twin = copy.copy(outer)
    assert twin.next_backoff() == 1.0
    assert inner.current_interval == 1.0
    assert twin.backoff.backoff.current_interval == 2.0
    assert type(twin) is type(outer)


def test_what_the_policy_inside_refuses_to_hear_is_not_counted():
    policy = with_max_retries(LIMDBackOff(1, 1, 1), 2)
    policy.failure(5)
    for bad in (4, "x"):
        with pytest.raises((TypeError, ValueError)):
            policy.failure(bad)
    assert policy.retries == 1
    assert policy.failure(6) == 2.0
    assert policy.failure(7) is STOP


def test_a_user_class_inside_may_take_no_timestamp():
    class Own(Recording):
        def failure(self):
            return 5.0

        def success(self):
            return 0.5

    policy = with_max_retries(Own(), 1)
    assert (policy.failure(), policy.failure(), policy.success()) == (5.0, STOP, 0.5)

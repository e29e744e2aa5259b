"""What the policies around others share, and chains, which ask one after the other."""

import math

import pytest

from backoff_ticker import (
    STOP,
    BackOffWrapper,
    CancellationToken,
    ConstantBackOff,
    ExponentialBackOff,
    FeedbackBackOff,
    LIMDBackOff,
    StopBackOff,
    Ticker,
    ZeroBackOff,
    chain,
    delays,
    with_added_jitter,
    with_jitter,
    with_max_elapsed_time,
    with_max_interval,
    with_max_retries,
    with_token,
)
from tests.helpers import readable_id
from tests.policies.policy_doubles import Feedback, Guarded, InDict, Recording, ask, constant
from tests.policies.policy_strategies import LARGEST

GROWING = ExponentialBackOff(1, 0, 2, 1000, None)
NINE = ConstantBackOff(9)
TOKEN = CancellationToken()
WRAPPERS = {
    "max_retries": lambda inner: with_max_retries(inner, 3),
    "token": lambda inner: with_token(inner, TOKEN),
    "max_elapsed_time": lambda inner: with_max_elapsed_time(inner, 3),
    "max_interval": lambda inner: with_max_interval(inner, 3),
    "jitter": lambda inner: with_jitter(inner, 0),
    "added_jitter": lambda inner: with_added_jitter(inner, 0),
    "chain": chain,
}


class Derived(BackOffWrapper):
    """A wrapper of a user's own that changes nothing."""


@pytest.fixture(params=WRAPPERS)
def wrap(request):
    """Each of the wrappers as a function of the policy inside; it leaves delays as they are."""
    return WRAPPERS[request.param]


def test_a_wrapper_takes_feedback_exactly_if_the_policy_inside_does(wrap):
    assert isinstance(wrap(Feedback()), FeedbackBackOff)
    assert isinstance(wrap(wrap(LIMDBackOff(1, 1, 1))), FeedbackBackOff)
    assert isinstance(chain(ZeroBackOff(), wrap(Feedback())), FeedbackBackOff)
    assert not isinstance(wrap(ZeroBackOff()), FeedbackBackOff)
    assert not isinstance(wrap(wrap(Recording())), FeedbackBackOff)
    with pytest.raises(AttributeError, match="has no attribute 'failure'"):
        wrap(ZeroBackOff()).failure  # noqa: B018


@pytest.mark.parametrize(
    "policy", [None, 1.0, ZeroBackOff, print, type("Half", (), {"reset": print})()], ids=readable_id
)
@pytest.mark.parametrize("use", [*WRAPPERS.values(), delays, Ticker])
def test_what_is_no_policy_is_refused(use, policy):
    with pytest.raises(TypeError) as caught:
        use(policy)
    message = str(caught.value)
    assert message.startswith(("backoff must be a BackOff", "argument 1 of chain() must be a B"))
    assert message.endswith(f"not {policy!r}")
    assert ("call what makes one" in message) is callable(policy)


@pytest.mark.parametrize("make", [lambda token: with_token(ZeroBackOff(), token), Guarded])
@pytest.mark.parametrize(
    "hand_on", [*(make for name, make in WRAPPERS.items() if name != "token"), Derived, InDict]
)
def test_a_wrapper_hands_on_the_token_inside(hand_on, make):
    token = CancellationToken()
    assert hand_on(make(token)).token is token
    assert hand_on(hand_on(make(token))).token is token
    assert hand_on(ZeroBackOff()).token is None


def test_a_user_class_inside_may_take_no_timestamp():
    class Own(Recording):
        def failure(self):
            return 5.0

        def success(self):
            return 0.5

    policy = with_max_retries(Own(), 1)
    assert (policy.failure(), policy.failure(), policy.success()) == (5.0, STOP, 0.5)


@pytest.mark.parametrize("method", ["next_backoff", "failure", "success"])
@pytest.mark.parametrize("bad", [math.nan, -1.0, None], ids=readable_id)
def test_a_bad_answer_inside_is_told_and_not_compared(wrap, method, bad):
    class Bad(Feedback):
        def next_backoff(self, timestamp=None):
            return bad

        failure = success = next_backoff

    with pytest.raises((TypeError, ValueError), match=r"what <.*Bad object.*> returns must"):
        getattr(wrap(Bad()), method)()


class Doubled(BackOffWrapper):
    limit = 7.0

    def transform(self, delay):
        return 2.0 * delay if delay <= self.limit else STOP


def test_a_wrapper_of_a_user_transforms_each_delay():
    assert list(delays(Doubled(GROWING))) == [2.0, 4.0, 8.0]
    policy = Doubled(LIMDBackOff(2, 4, 0.5))
    assert isinstance(policy, FeedbackBackOff)
    asked = [policy.failure(), policy.failure(), policy.success(), policy.failure()]
    assert asked == [4.0, 12.0, 6.0, 14.0]
    assert policy.failure() is STOP
    assert not isinstance(Doubled(GROWING), FeedbackBackOff)


def test_a_wrapper_of_a_user_may_transform_successes_in_another_way():
    class Own(Doubled):
        def transform_success(self, delay):
            return 3.0 * delay

    policy = Own(LIMDBackOff(2, 4, 0.5))
    assert [policy.failure(), policy.success()] == [4.0, 3.0]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (with_max_retries(GROWING, 2), [(1, 1), (2, 2), None, None]),
        (with_token(GROWING, CancellationToken()), [(1, 1), (2, 2), (4, 4)]),
        (with_max_interval(GROWING, 3), [(1, 1), (2, 2), (3, 3), (3, 3)]),
        (with_max_elapsed_time(GROWING, 3), [(1, 1), (2, 2), None, None]),
        (with_max_elapsed_time(ExponentialBackOff(2, 0.5, 1, 2, None), 2), [(1, 2), (1, 2)]),
        (with_max_elapsed_time(NINE, 9), [(9, 9), (9, 9)]),
        (chain(constant(9, 2), GROWING), [(9, 9), (9, 9), (1, 1), (2, 2)]),
        (chain(StopBackOff(), GROWING), [(1, 1), (2, 2)]),
        # How often the first part has used it is unknown; what has no state may be in several.
        (chain(with_max_retries(GROWING, 2), GROWING), [(1, 1), (2, 2), (0, LARGEST)]),
        (chain(with_max_retries(NINE, 1), with_max_interval(NINE, 8)), [(9, 9), (8, 8), (8, 8)]),
        (chain(chain(constant(9, 1), constant(8, 1)), GROWING), [(9, 9), (8, 8), (1, 1), (2, 2)]),
        # The first part may stop at any time: the second may be at any of its calls by then.
        (
            chain(with_max_elapsed_time(constant(9, 2), 99), GROWING),
            [(1, 9), (1, 9), (1, 4), (2, 8)],
        ),
        (chain(with_token(constant(9, 1), CancellationToken()), GROWING), [(1, 9), (1, 2), (2, 4)]),
        (with_max_retries(Recording(), 1), [(0, LARGEST), None]),
        (chain(Recording(), GROWING), [(0, LARGEST), (0, LARGEST)]),
        (with_max_retries(type("Own", (ConstantBackOff,), {})(1), 1), [(0, LARGEST), None]),
        (ExponentialBackOff(2, 0.5, 2, 8, 3), [(1, 3), (2, 3), None]),
        (ExponentialBackOff(2, 0.5, 2, 8, 3, look_ahead=False), [(1, 3), (2, 6), (4, 12)]),
        (
            chain(LIMDBackOff(2, 4, 0.2, max_attempts=3), constant(1, 1)),
            [(2, 2), (6, 6), (1, 1), None],
        ),
    ],
    ids=readable_id,
)
def test_bounds(policy, expected):
    assert [policy.bounds(n) for n in range(1, len(expected) + 1)] == expected


# Chains


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


def test_the_part_whose_turn_it_is_hears_the_feedback():
    inner = Feedback()
    policy = chain(constant(1, 1), inner)
    assert policy.failure(1.0) == 1.0
    assert policy.success(2.0) == 1.0  # begins the first part anew
    assert inner.calls == []
    assert policy.failure(3.0) == 5.0
    assert policy.success(4.0) == 0.5
    assert inner.calls == [("failure", 3.0), ("success", 4.0)]

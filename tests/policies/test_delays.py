"""A run of a policy: its delays, how answers are checked, and ``delay_after()`` some failures."""

import copy
import math
from datetime import timedelta
from itertools import islice

import pytest
from hypothesis import strategies as st

from backoff_ticker import (
    STOP,
    CancellationToken,
    ConstantBackOff,
    ExponentialBackOff,
    FeedbackBackOff,
    FullJitterBackOff,
    StopBackOff,
    TruncatedExponentialBackOff,
    ZeroBackOff,
    chain,
    delay_after,
    delays,
    with_max_elapsed_time,
    with_max_interval,
    with_max_retries,
    with_token,
)
from backoff_ticker.policies import copy_policy
from tests.helpers import readable_id
from tests.policies.policy_doubles import (
    LAST_DRAW,
    Counting,
    Feedback,
    InDict,
    Recording,
    StubRandom,
    ask,
    steps,
)
from tests.policies.policy_strategies import EVERY, MANY, drawn_policy, for_each_kind, run, samples


def test_delays_are_floats_until_the_policy_stops_if_it_does():
    assert list(delays(with_max_retries(Counting(), 4))) == [0.0, 1.0, 2.0, 3.0]
    assert list(delays(StopBackOff())) == []
    taken = list(islice(delays(ConstantBackOff(3)), 10_000))
    assert taken == [3.0] * 10_000
    assert {type(delay) for delay in taken} == {float}


def test_delays_run_on_a_fresh_copy_of_their_own():
    policy = with_max_retries(Counting(), 3)
    policy.next_backoff()
    first, second = delays(policy), delays(policy)
    assert [next(first), next(second), next(first), next(second)] == [0.0, 0.0, 1.0, 1.0]
    assert policy.retries == 1
    assert policy.backoff.asked == 1


class Answering(Counting):
    """A policy with one answer."""

    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def next_backoff(self):
        return self.answer

    def __repr__(self):
        return "Answering()"


@pytest.mark.parametrize(
    ("answer", "error"),
    [(None, TypeError), ("1", TypeError), (True, TypeError), (math.nan, ValueError)],
)
def test_a_bad_answer_is_an_error_that_names_the_policy(answer, error):
    with pytest.raises(error) as caught:
        next(delays(Answering(answer)))
    message = str(caught.value)
    assert message.startswith("what Answering() returns must be ")
    assert f", a timedelta or STOP, not {answer!r}" in message


@pytest.mark.parametrize(
    ("answer", "delay"), [(2, 2.0), (timedelta(milliseconds=5), 0.005), (-0.0, 0.0)]
)
def test_an_answer_becomes_seconds(answer, delay):
    assert repr(next(delays(Answering(answer)))) == repr(delay)


def test_delays_of_a_policy_with_a_clock_of_its_own_read_that(clock):
    policy = with_max_elapsed_time(ConstantBackOff(2), 5, clock)
    iterator = delays(policy)
    assert [next(iterator) for _ in range(9)] == [2.0] * 9
    clock.now += 4
    assert list(iterator) == []


@pytest.mark.parametrize(
    ("policy", "delay", "text"),
    [
        (ConstantBackOff(timedelta(milliseconds=250)), 0.25, "ConstantBackOff(0.25)"),
        (ConstantBackOff(3), 3.0, "ConstantBackOff(3.0)"),
        (ConstantBackOff(-0.0), 0.0, "ConstantBackOff(0.0)"),
        (ZeroBackOff(), 0.0, "ZeroBackOff()"),
        (StopBackOff(), STOP, "StopBackOff()"),
    ],
)
def test_what_has_no_state_always_says_the_same_and_is_its_own_copy(policy, delay, text):
    assert list(map(repr, ask(policy, 100))) == [repr(delay)] * 100
    policy.reset()
    assert policy.next_backoff() == delay
    assert repr(policy) == text
    assert copy.copy(policy) is policy
    assert copy_policy("backoff", policy) is policy


def test_the_interval_cannot_be_changed():
    """Copies are the object itself, so a change would reach every ticker that runs it."""
    with pytest.raises(AttributeError):
        ConstantBackOff(1).interval = 2


# ``delay_after()``: what ``delays()`` gives at that place, at a cost that does not grow

PLAIN = [policy for policy in samples() if not isinstance(policy, FeedbackBackOff)]


def replayed(policy, n):
    """Return the ``n``-th delay, or ``STOP``, of a run that is asked for each delay before it."""
    return next(islice(delays(policy), n - 1, None), STOP)


@for_each_kind(
    EVERY,
    n=st.integers(1, 50),
    draws=st.sampled_from([0.0, 0.5, LAST_DRAW]),
    has_clock=st.booleans(),
)
def test_it_is_the_nth_delay_of_a_run(kind, data, n, draws, has_clock):
    generator = StubRandom(draws)
    policy, clock, _ = drawn_policy(data, kind, generator)
    if not has_clock:  # so that delays count as waited
        policy = data.draw(EVERY[kind])(generator, None)
    assert delay_after(policy, n) == replayed(policy, n)
    assert clock.monotonic() == 1000.0


@for_each_kind(["any"], before=st.integers(0, 5), n=st.integers(1, 9))
def test_it_changes_nothing(kind, data, before, n):
    policy, clock, generator = drawn_policy(data, kind)
    run(policy, clock, [0.0] * before)
    twin = copy.copy(policy)
    delay_after(policy, n)
    generator.seed(7)
    expected = run(twin, clock, [0.0] * 9)
    generator.seed(7)
    assert run(policy, clock, [0.0] * 9) == expected


def test_a_cancelled_token_ends_the_run_of_its_policy():
    token = CancellationToken()
    policy = chain(with_token(ConstantBackOff(1), token), with_max_retries(ConstantBackOff(9), 2))
    assert delay_after(policy, MANY) == 1.0
    token.cancel()
    assert [delay_after(policy, n) for n in (1, 2, 3)] == [9.0, 9.0, STOP]
    assert delay_after(with_token(ConstantBackOff(1), token), 1) is STOP


def asks_again(policy):
    """Whether the delays before are drawn, too."""
    limits = [getattr(policy, name, None) for name in ("max_elapsed_time", "last_delay")]
    return any(limit is not None for limit in limits)


@pytest.mark.parametrize("policy", PLAIN, ids=readable_id)
def test_a_billion_failures_cost_few_steps(policy):
    most = 200_000 if asks_again(policy) else steps(lambda: delay_after(policy, 5)) + 100
    assert steps(lambda: delay_after(policy, MANY)) <= most
    for n in (MANY, 10**400):
        delay, bounds = delay_after(policy, n), policy.bounds(n)
        assert delay is STOP or bounds[0] <= delay <= bounds[1]


def test_a_policy_of_a_user_is_asked_for_each_delay():
    class Alternating(ConstantBackOff):
        asked = 0

        def next_backoff(self):
            self.asked += 1
            return float(self.asked % 2)

    assert [delay_after(Counting(), n) for n in (1, 2, 50)] == [0.0, 1.0, 49.0]
    assert delay_after(with_max_retries(InDict(Counting()), 7), 7) == 6.0
    assert [delay_after(Alternating(5), n) for n in (1, 2, 3)] == [1.0, 0.0, 1.0]
    assert delay_after(chain(with_max_retries(ZeroBackOff(), 2), Counting()), 4) == 1.0


def test_a_feedback_policy_is_told_of_each_failure():
    class Shared(Feedback):
        next_backoff = Recording.next_backoff

        def __copy__(self):
            return self

    policy = Shared()
    assert delay_after(policy, 2) == 5.0
    assert policy.calls == ["reset", ("failure", None), ("failure", None)]


@pytest.mark.parametrize(
    ("n", "error"), [(0, ValueError), (-1, ValueError), (True, TypeError), (1.0, TypeError)]
)
def test_what_is_no_number_of_a_failure_is_refused(n, error):
    with pytest.raises(error, match=f"^n must be an int >= 1, not {n!r}"):
        delay_after(ZeroBackOff(), n)


@pytest.mark.parametrize(
    "part",
    [
        ExponentialBackOff(1, 0, 2, None, None),
        TruncatedExponentialBackOff(None, 0),
        FullJitterBackOff(2, None, StubRandom(0.5)),
    ],
    ids=readable_id,
)
def test_a_policy_that_two_parts_of_a_chain_share_goes_on(part):
    policy = chain(with_max_retries(part, 2), with_max_interval(part, 20), StopBackOff())
    assert [delay_after(policy, n) for n in (1, 2, 3, 4, 9)] == [1.0, 2.0, 4.0, 8.0, 20.0]
    twice = with_max_retries(part, 3)
    policy = chain(with_max_retries(twice, 2), twice, with_max_retries(ConstantBackOff(9), 1))
    assert [delay_after(policy, n) for n in (2, 3, 4, 5)] == [2.0, 4.0, 9.0, STOP]


def test_an_answer_after_stop_does_not_count():
    policy = Recording([1.0, STOP, 3.0])
    assert [delay_after(policy, n) for n in (1, 2, 3)] == [1.0, STOP, STOP]

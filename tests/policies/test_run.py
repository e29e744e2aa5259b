"""A run of a policy: its delays, how its answers are checked, and policies without state."""

import copy
import itertools
import math
from datetime import timedelta

import pytest

from backoff_ticker import (
    STOP,
    ConstantBackOff,
    StopBackOff,
    ZeroBackOff,
    delays,
    with_max_elapsed_time,
    with_max_retries,
)
from backoff_ticker.policies import copy_policy
from tests.policies.policy_doubles import Counting, ask


def test_delays_are_floats_until_the_policy_stops_if_it_does():
    assert list(delays(with_max_retries(Counting(), 4))) == [0.0, 1.0, 2.0, 3.0]
    assert list(delays(StopBackOff())) == []
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

"""A run of a policy: its delays, and how its answers are checked."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest

from backoff_ticker import (
    ConstantBackOff,
    ConstantFeedbackBackOff,
    ExponentialBackOff,
    StopBackOff,
    Ticker,
    ZeroBackOff,
    chain,
    delays,
    with_max_elapsed_time,
    with_max_retries,
)
from backoff_ticker.policies import FrozenClock
from backoff_ticker.policies._run import checked_delay
from tests.helpers import readable_id
from tests.policies.policy_doubles import Counting
from tests.policies.policy_strategies import LARGEST
from tests.test_validation import NEGATIVE, NO_NUMBERS, NOT_FINITE, show


def test_delays_end_where_the_policy_stops():
    assert list(delays(with_max_retries(Counting(), 4))) == [0.0, 1.0, 2.0, 3.0]
    assert list(delays(StopBackOff())) == []


def test_delays_are_floats_without_an_end_if_the_policy_has_none():
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


def test_delays_copy_when_they_are_made():
    policy = Counting()
    iterator = delays(policy)
    policy.next_backoff = lambda: 99.0
    assert next(iterator) == 0.0


def test_delays_refuse_what_is_no_policy_at_once():
    with pytest.raises(TypeError) as caught:
        delays("x")
    assert str(caught.value).startswith("backoff must be a BackOff")


def test_an_error_of_the_policy_passes_and_ends_the_delays():
    class Failing(Counting):
        def next_backoff(self):
            raise ZeroDivisionError

    iterator = delays(Failing())
    with pytest.raises(ZeroDivisionError):
        next(iterator)
    assert list(iterator) == []


@pytest.mark.parametrize("answer", [*NO_NUMBERS, None, *NOT_FINITE, *NEGATIVE], ids=show)
def test_a_bad_answer_is_an_error_that_names_the_policy(answer):
    class Answering(Counting):
        def next_backoff(self):
            return answer

        def __repr__(self):
            return "Answering()"

    bad_type = answer is None or any(answer is value for value in NO_NUMBERS)
    with pytest.raises(TypeError if bad_type else ValueError) as caught:
        next(delays(Answering()))
    message = str(caught.value)
    assert message.startswith("what Answering() returns must be ")
    assert ", a timedelta or STOP, not " in message


@pytest.mark.parametrize(
    ("answer", "delay"),
    [(2, 2.0), (timedelta(milliseconds=5), 0.005), (-0.0, 0.0), (5e-324, 5e-324)],
)
def test_an_answer_becomes_seconds(answer, delay):
    checked = checked_delay(ZeroBackOff(), answer)
    assert (checked, type(checked)) == (delay, float)


# Limits of elapsed time


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (with_max_elapsed_time(ConstantBackOff(2), 7), [2.0, 2.0, 2.0]),
        (with_max_elapsed_time(ConstantBackOff(2), 6), [2.0, 2.0, 2.0]),
        (ExponentialBackOff(1, 0, 2, 60, 7), [1.0, 2.0, 4.0]),
        (ExponentialBackOff(1, 0, 2, 60, 6, look_ahead=False), [1.0, 2.0, 4.0]),
        (ConstantFeedbackBackOff(2, max_actual_duration=5), [2.0, 2.0, 2.0]),
        (chain(with_max_elapsed_time(ConstantBackOff(2), 3), StopBackOff()), [2.0]),
    ],
    ids=readable_id,
)
def test_delays_count_as_waited(policy, expected):
    assert list(delays(policy)) == expected == list(delays(policy))


def test_delays_end_where_those_of_a_ticker_end():
    policy = with_max_elapsed_time(ExponentialBackOff(1, 0, 2), 20)
    first, *ticks = Ticker(policy, clock=Jumping())
    assert (first.delay, list(delays(policy))) == (0.0, [tick.delay for tick in ticks])


class Jumping(FrozenClock):
    """A clock on which whoever waits is served at once."""

    def call_at(self, when, callback, *, loop=None):
        raise AssertionError("nobody needs a callback")

    def parker(self, what=""):
        return self

    def park(self, deadline):
        self.now = deadline
        return False


def test_delays_of_a_policy_with_a_clock_of_its_own_read_that(clock):
    policy = with_max_elapsed_time(ConstantBackOff(2), 5, clock)
    iterator = delays(policy)
    assert [next(iterator) for _ in range(9)] == [2.0] * 9
    clock.now += 4
    assert list(iterator) == []


def test_delays_beyond_all_floats_do_not_stop_the_clock_from_standing():
    policy = with_max_retries(with_max_elapsed_time(ConstantBackOff(1e308), LARGEST), 5)
    assert list(delays(policy)) == [1e308]


def test_stop_is_known_by_identity():
    class Equal(Counting):
        """Its answers are equal to everything, STOP included."""

        def next_backoff(self):
            return Equal.Anything(1)

        class Anything(float):
            __hash__ = None

            def __eq__(self, other):
                return True

            def __ne__(self, other):
                return False

    (delay,) = itertools.islice(delays(Equal()), 1)
    assert repr(delay) == "1.0"

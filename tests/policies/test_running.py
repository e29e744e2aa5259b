"""A run of a policy: its delays, and how its answers are checked."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest

from backoff_ticker import (
    ConstantBackOff,
    StopBackOff,
    ZeroBackOff,
    delays,
    with_max_retries,
)
from backoff_ticker.policies._running import checked_delay
from tests.policies.policy_doubles import Counting


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


@pytest.mark.parametrize(
    ("answer", "delay"),
    [(2, 2.0), (timedelta(milliseconds=5), 0.005), (-0.0, 0.0), (5e-324, 5e-324)],
)
def test_an_answer_becomes_seconds(answer, delay):
    checked = checked_delay(ZeroBackOff(), answer)
    assert (checked, type(checked)) == (delay, float)


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

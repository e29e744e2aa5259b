"""Results that are not accepted: ``until`` and ``retry_if``."""

from __future__ import annotations

from typing import Any

import pytest

from backoff_ticker import (
    Cancelled,
    ConstantBackOff,
    DeadlineExceeded,
    RejectedResult,
    RetryBudget,
    StopReason,
    ZeroBackOff,
    attempts,
)
from tests.retries.faces import BOTH, FOUR, SYNC
from tests.retries.made_policies import cancelled_token
from tests.retries.scripts import Recorded, Script, Takes, now

REJECTING = [{"until": lambda result: result >= 3}, {"retry_if": lambda result: result < 3}]


def test_it_is_called_until_a_result_is_accepted(face: Any) -> None:
    for options in REJECTING:
        script = Script(1, 2, 3, 4)
        assert face.run(script, ConstantBackOff(5), **options) == 3
        assert [when - script.times[0] for when in script.times] == [0, 5, 10]


@FOUR
def test_a_result_rejected_to_the_end_is_told_by_an_error(face: Any) -> None:
    for options in REJECTING:
        gave_up = Recorded()
        with pytest.raises(RejectedResult) as caught:
            face.run(Script(1, 2), ZeroBackOff(), max_attempts=2, on_give_up=gave_up, **options)
        assert caught.value.result == 2
        assert gave_up.last.reason is StopReason.MAX_ATTEMPTS
        assert gave_up.last.last_error is caught.value


@BOTH
def test_a_rejected_result_is_retried_whatever_on_says(face: Any) -> None:
    for on in (KeyError, (KeyError, OSError), lambda error: False):
        script = Script(1, 2, 3)
        assert face.run(script, ZeroBackOff(), on=on, until=lambda result: result == 3) == 3
        assert script.count == 3


@BOTH
def test_a_result_rejected_under_a_cancelled_token_is_the_cause(face: Any) -> None:
    with pytest.raises(Cancelled) as caught:
        face.run(Script(0), ConstantBackOff(1), until=bool, token=cancelled_token())
    assert isinstance(caught.value.__cause__, RejectedResult)
    assert caught.value.__cause__.result == 0


@SYNC
def test_a_late_result_is_looked_at_before_it_is_returned(face: Any) -> None:
    with pytest.raises(DeadlineExceeded) as caught:
        face.run(Script(Takes(5, 0)), ZeroBackOff(), until=bool, timeout=3)
    assert isinstance(caught.value.__cause__, RejectedResult)
    assert now() == 5
    assert face.run(Script(Takes(5, 1)), ZeroBackOff(), until=bool, timeout=3) == 1


@BOTH
def test_a_rejected_result_is_no_success(face: Any) -> None:
    budget, success = RetryBudget(10, 0.5), Recorded()
    script = Script(0, 0, 0, 1)
    face.run(script, ZeroBackOff(), until=bool, budget=budget, on_success=success)
    assert budget.tokens == 7.5
    assert [outcome.attempts for _, outcome in success.calls] == [4]


@FOUR
def test_what_a_predicate_raises_ends_the_run(face: Any) -> None:
    for name in ("until", "retry_if"):
        own, gave_up = LookupError("of the predicate"), Recorded()
        script = Script(7, 8)
        with pytest.raises(LookupError) as caught:
            face.run(script, ZeroBackOff(), on_give_up=gave_up, **{name: Recorded(own)})
        assert caught.value is own
        assert script.count == 1
        assert gave_up.last.reason is StopReason.FAILED


@BOTH
def test_a_predicate_is_not_asked_about_errors(face: Any) -> None:
    asked = Recorded(True)
    face.run(Script(OSError, OSError, None), ConstantBackOff(1), until=asked)
    assert asked.calls == [(2, None)]


@pytest.mark.parametrize("name", ["until", "retry_if"])
def test_a_loop_must_tell_its_result(clock: Any, name: str) -> None:
    seen = []
    with pytest.raises(RuntimeError, match="set_result"):
        for attempt in attempts(ZeroBackOff(), **{name: bool}):
            with attempt:
                seen.append(attempt.number)
    assert seen == [1]


def test_the_result_told_last_counts(clock: Any) -> None:
    seen = []
    for attempt in attempts(ZeroBackOff(), until=bool):
        with attempt:
            attempt.set_result(attempt.number != 2)
            attempt.set_result(attempt.number == 2)
            seen.append(attempt.number)
    assert seen == [1, 2]


def test_a_failure_after_a_result_is_a_failure(clock: Any) -> None:
    seen = []
    for attempt in attempts(ZeroBackOff(), until=bool):
        with attempt:
            attempt.set_result(True)
            seen.append(attempt.number)
            if attempt.number < 3:
                raise OSError
    assert seen == [1, 2, 3]

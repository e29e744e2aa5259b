"""``on``: which failures are retried, and after how long."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest

from backoff_ticker import ConstantBackOff, StopReason, with_max_retries
from tests.retries.faces import BOTH, FOUR
from tests.retries.scripts import Recorded, Script
from tests.tickers.made_policies import Counting, Scripted


@BOTH
def test_a_type_retries_its_subclasses_and_nothing_else(face: Any) -> None:
    script = Script(ConnectionResetError, TimeoutError, ValueError("other"), 7)
    with pytest.raises(ValueError, match="other"):
        face.run(script, ConstantBackOff(1), on=OSError)
    assert script.times == [0, 1, 2]


@BOTH
def test_a_tuple_retries_each_of_its_types(face: Any) -> None:
    script = Script(KeyError, ValueError, OSError("other"), 7)
    with pytest.raises(OSError, match="other"):
        face.run(script, ConstantBackOff(1), on=(LookupError, ValueError))
    assert script.times == [0, 1, 2]


@BOTH
def test_by_default_every_exception_is_retried(face: Any) -> None:
    script = Script(Exception, StopAsyncIteration, TimeoutError, MemoryError, 7)
    assert face.run(script, ConstantBackOff(1)) == 7
    assert script.times == [0, 1, 2, 3, 4]


@BOTH
def test_a_function_is_asked_once_for_each_error(face: Any) -> None:
    errors = [OSError(1), OSError(2), OSError(3)]
    asked = Recorded(lambda: asked.last is not errors[2])
    script = Script(*errors, 7)
    with pytest.raises(OSError) as caught:
        face.run(script, ConstantBackOff(1), on=asked)
    assert caught.value is errors[2]
    assert asked.calls == [(0, errors[0]), (1, errors[1]), (2, errors[2])]


@FOUR
def test_a_number_is_how_long_to_wait_and_true_is_none(face: Any) -> None:
    for answer, wait in [
        (7, 7),
        (2.5, 2.5),
        (0, 0),
        (0.0, 0),
        (1, 1),
        (True, 10),
        (timedelta(minutes=1), 60),
        (timedelta(), 0),
        (10**6, 21600),
    ]:
        told, script = Recorded(), Script(OSError, 7)
        assert face.run(script, ConstantBackOff(10), on=lambda error: answer, notify=told) == 7
        assert script.times[1] - script.times[0] == wait
        assert told.calls[0][2] == wait


@BOTH
def test_a_number_is_bounded_by_max_retry_after(face: Any) -> None:
    for bound, wait in [(60, 60), (timedelta(seconds=60), 60), (None, 10**6), (0, 0)]:
        script = Script(OSError, 7)
        face.run(script, ConstantBackOff(10), on=lambda error: 10**6, max_retry_after=bound)
        assert script.times[1] - script.times[0] == wait


@BOTH
def test_the_policy_is_asked_beside_a_number_and_its_end_binds(face: Any) -> None:
    script = Script(ValueError)
    with pytest.raises(ValueError):
        face.run(script, with_max_retries(ConstantBackOff(1), 2), on=lambda error: 5)
    assert script.times == [0, 5, 10]


@BOTH
def test_a_number_replaces_one_delay_of_the_policy(face: Any) -> None:
    script = Script(OSError, KeyError, OSError, 7)
    face.run(script, Counting(), on=lambda error: 50 if isinstance(error, KeyError) else True)
    assert script.times == [0, 1, 51, 54]


@FOUR
def test_any_other_answer_is_a_type_error_that_names_on(face: Any) -> None:
    for answer in (None, "1", b"", [], 1j, Fraction(1), ValueError):
        script, gave_up = Script(OSError("first"), 7), Recorded()
        with pytest.raises(TypeError, match=r"\bon\b") as caught:
            face.run(script, ConstantBackOff(1), on=lambda error: answer, on_give_up=gave_up)
        told = caught.value.__cause__ or caught.value.__context__
        assert str(told) == "first"
        assert script.count == 1
        assert [outcome.reason for _, outcome in gave_up.calls] == [StopReason.FAILED]


@BOTH
def test_a_number_that_is_no_delay_names_on(face: Any) -> None:
    for answer in (-1, float("nan"), float("inf"), timedelta(seconds=-1)):
        script = Script(OSError, 7)
        with pytest.raises((TypeError, ValueError), match=r"\bon\b"):
            face.run(script, ConstantBackOff(1), on=lambda error: answer)
        assert script.count == 1


@BOTH
def test_what_on_raises_ends_the_run(face: Any) -> None:
    own, first, gave_up = LookupError("of on"), OSError("first"), Recorded()
    script, policy = Script(first, 7), Scripted(then=1.0)
    with pytest.raises(LookupError) as caught:
        face.run(script, policy, on=Recorded(own), on_give_up=gave_up)
    assert caught.value is own
    assert first in (own.__cause__, own.__context__)
    assert (script.count, policy.asked) == (1, 0)
    assert gave_up.last.reason is StopReason.FAILED


def test_what_is_no_exception_is_refused_and_told_what_to_write(face: Any) -> None:
    script = Script(7)
    for kind in (BaseException, KeyboardInterrupt, asyncio.CancelledError, BaseExceptionGroup):
        for on in (kind, (OSError, kind)):
            with pytest.raises(TypeError, match=rf"not {kind.__name__}: .* on=Exception means"):
                face.run(script, on=on)
    assert script.count == 0

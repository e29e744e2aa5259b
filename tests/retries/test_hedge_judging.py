"""Hedged calls: what counts as good, and errors that say what follows."""

from __future__ import annotations

import pytest

from backoff_ticker import ConstantBackOff, Permanent, RejectedResult, RetryAfter
from tests.retries.hedges import InTurn, hedge, takes
from tests.retries.scripts import Script, Takes, now

pytestmark = pytest.mark.usefixtures("clock")

TEN = ConstantBackOff(10)

# What counts as good


def test_until_and_retry_if_reject_results() -> None:
    for options in ({"until": lambda value: value == 7}, {"retry_if": lambda value: value != 7}):
        began, script = now(), Script(Takes(4, 1), Takes(5, 2), Takes(100, 7))
        assert hedge(script.in_loop, TEN, on=OSError, **options) == 7
        assert [time - began for time in script.times] == [0, 4, 9, 19, 29]


def test_if_all_are_rejected_the_last_is_told() -> None:
    script = Script(Takes(4, 1), Takes(5, 0))
    with pytest.raises(RejectedResult) as caught:
        hedge(script.in_loop, TEN, max_attempts=2, until=lambda value: value > 7)
    assert (caught.value.result, script.times, now()) == (0, [0, 4], 9)


def test_a_result_that_cannot_be_judged_ends_all() -> None:
    for options in ({"until": lambda value: value.none}, {"retry_if": lambda value: value.none}):
        began, operation = now(), InTurn(takes(100, 1, cleanup=2), takes(3, 7))
        with pytest.raises(AttributeError) as caught:
            hedge(operation, TEN, **options)
        (note,) = caught.value.__notes__
        assert note.endswith(f"{next(iter(options))} failed")
        assert now() - began == 10 + 3 + 2


# Errors that say by themselves what follows


@pytest.mark.parametrize(
    ("error", "reason"),
    [(Permanent(ValueError(7)), "permanent"), (ValueError(7), "on does not retry this error")],
)
def test_an_error_that_is_not_retried_ends_all(error: Exception, reason: str) -> None:
    operation = InTurn(takes(100, 1, cleanup=5), takes(3, error))
    with pytest.raises(ValueError, match="7") as caught:
        hedge(operation, TEN, on=OSError)
    (note,) = caught.value.__notes__
    assert note.startswith("gave up after 2 attempts in 13.0 s: ")
    assert reason in note
    assert (operation.times, now()) == ([0, 10], 10 + 3 + 5)


def test_a_function_on_decides_and_may_say_when() -> None:
    script = Script(Takes(2, OSError(1)), Takes(1, OSError(2)), Takes(5, 7))
    answers = {1: 30, 2: True}
    assert hedge(script.in_loop, TEN, on=lambda error: answers[error.args[0]]) == 7
    assert (script.times, now()) == ([0, 32, 33], 38)


def test_an_on_that_fails_ends_all() -> None:
    last = OSError()
    operation = InTurn(takes(100, 1), takes(3, last))
    with pytest.raises(TypeError, match="on returns") as caught:
        hedge(operation, TEN, on=lambda _: "soon")
    assert (caught.value.__cause__, now()) == (last, 13)


def test_retry_after_says_when_the_next_starts() -> None:
    script = Script(Takes(100, 7), Takes(2, RetryAfter(40)), Takes(100, 8))
    assert hedge(script.in_loop, TEN) == 7
    assert script.times == [0, 10, 52, 62, 72]
    began, script = now(), Script(Takes(100, 7), Takes(2, RetryAfter(1)), Takes(100, 8))
    assert hedge(script.in_loop, TEN) == 7
    assert [time - began for time in script.times] == [0, 10, 13, 23, 33]


def test_retry_after_is_clamped_and_its_error_is_the_last() -> None:
    last = OSError()
    script = Script(Takes(2, RetryAfter(40)), Takes(2, RetryAfter(40, last)))
    with pytest.raises(OSError) as caught:
        hedge(script.in_loop, TEN, max_retry_after=15, max_attempts=3)
    assert caught.value is last
    assert (script.times, now()) == ([0, 17, 34], 36)

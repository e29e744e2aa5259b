"""Hedged calls: when attempts start, and which result is returned."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from backoff_ticker import (
    ConstantBackOff,
    ExponentialBackOff,
    Permanent,
    RetryAfter,
    ZeroBackOff,
)
from tests.retries.hedges import InTurn, hedge, takes
from tests.retries.scripts import Script, Takes, now
from tests.tickers.made_policies import Scripted

pytestmark = pytest.mark.usefixtures("clock")

TEN = ConstantBackOff(10)

# Starts


def test_each_attempt_starts_its_delay_after_the_one_before() -> None:
    script = Script(Takes(100, 7))
    assert hedge(script.in_loop, Scripted(1, 20, 3, 40)) == 7
    assert (script.times, now()) == ([0, 1, 21, 24, 64], 100)


def test_there_are_five_at_the_most_if_nothing_is_said() -> None:
    script = Script(Takes(1000, 7))
    hedge(script.in_loop, TEN)
    assert script.times == [0, 10, 20, 30, 40]
    script = Script(Takes(95, 7))
    hedge(script.in_loop, TEN, max_attempts=None)
    assert script.count == 10


def test_an_answer_in_time_needs_no_other_attempt() -> None:
    script = Script(Takes(9, 7))
    assert hedge(script.in_loop, TEN) == 7
    assert (script.times, now()) == ([0], 9)


def test_after_a_failure_the_next_starts_at_once_and_the_next_delay_counts_from_there() -> None:
    script = Script(Takes(4, OSError), Takes(50, 7))
    assert hedge(script.in_loop, Scripted(10, 20, 30)) == 7
    assert (script.times, now()) == ([0, 4, 24], 54)


def test_any_of_those_that_run_may_fail() -> None:
    script = Script(Takes(12, OSError), Takes(3, OSError), Takes(100, 7))
    assert hedge(script.in_loop, TEN) == 7
    assert script.times == [0, 10, 12, 13, 23]  # as 1 and 2 fail, and ten seconds later


def test_a_failure_in_the_place_of_each_that_failed() -> None:
    gate: list[Any] = []

    async def fails() -> None:
        if not gate:
            gate.append(asyncio.Event())
            asyncio.get_running_loop().call_later(15, gate[0].set)
        await gate[0].wait()
        raise OSError

    operation = InTurn(fails, fails, takes(1, 7))
    assert hedge(operation, TEN) == 7
    assert (operation.times, now()) == ([0, 10, 15, 15], 16)


def test_without_delays_all_start_at_once() -> None:
    script = Script(Takes(9, 1), Takes(5, 2), Takes(9, 3))
    assert hedge(script.in_loop, ZeroBackOff()) == 2
    assert (script.times, now()) == ([0] * 5, 5)


@pytest.mark.parametrize("answer", [7, Permanent(OSError(7))])
def test_one_that_answers_at_once_is_the_only_one_whatever_the_delays(answer: Any) -> None:
    for policy in (ZeroBackOff(), TEN):
        script = Script(answer)
        try:
            assert hedge(script.in_loop, policy) == 7
        except OSError:
            pass
        assert script.count == 1


def test_without_a_policy_it_is_the_usual_one() -> None:
    script = Script(Takes(3, 7))
    hedge(script.in_loop)
    first = ExponentialBackOff()
    low, high = (first.initial_interval * factor for factor in (0.5, 1.5))
    assert low <= script.times[1] <= high


@pytest.mark.parametrize("ending", [10, 20, 30, 40])
def test_a_result_in_the_moment_that_the_next_is_due_comes_first(ending: float) -> None:
    for others in (0, 1, 7):  # more timers, in another order
        began = now()

        async def first() -> int:
            for n in range(others):
                asyncio.get_running_loop().call_later(ending + n % 2, int)
            await asyncio.sleep(ending)
            return 7

        operation = InTurn(first, takes(1000, 8))
        assert hedge(operation, TEN) == 7
        assert [time - began for time in operation.times] == list(range(0, int(ending), 10))
        assert now() - began == ending


def test_a_failure_in_the_moment_that_the_next_is_due_starts_one() -> None:
    script = Script(Takes(10, OSError), Takes(15, 7))
    assert hedge(script.in_loop, TEN) == 7
    assert script.times == [0, 10, 20]


# Results


def test_the_first_good_result_cancels_the_rest_and_they_have_ended() -> None:
    operation = InTurn(takes(100, 1, cleanup=5), takes(100, 2, cleanup=2), takes(3, 7))
    assert hedge(operation, TEN) == 7
    assert now() == 20 + 3 + 5


def test_a_loser_that_swallows_the_cancel_is_waited_for() -> None:
    operation = InTurn(takes(100, 1, cleanup=30, then=2), takes(3, 7))
    assert hedge(operation, TEN) == 7
    assert now() == 10 + 3 + 30


@pytest.mark.parametrize("error", [OSError, Permanent(OSError()), RetryAfter(5), GeneratorExit])
def test_what_losers_raise_as_they_end_is_nobodys_affair(error: Any) -> None:
    operation = InTurn(takes(100, 1, cleanup=2, then=error), takes(3, 7))
    assert hedge(operation, TEN) == 7
    assert (len(operation.times), now()) == (2, 10 + 3 + 2)


def test_an_earlier_attempt_may_win() -> None:
    script = Script(Takes(25, 1), Takes(100, 2))
    assert hedge(script.in_loop, TEN) == 1
    assert (script.times, now()) == ([0, 10, 20], 25)


def together(*answers: Any, when: float = 50) -> Any:
    """Return attempts that end in one iteration of the loop, in this order."""
    gates: list[asyncio.Future[None]] = []

    def open_all() -> None:
        for gate in gates:
            if not gate.done():
                gate.set_result(None)

    def attempt_of(answer: Any) -> Any:
        async def attempt() -> Any:
            if not gates:
                asyncio.get_running_loop().call_later(when, open_all)
            gates.append(asyncio.get_running_loop().create_future())
            await gates[-1]
            if isinstance(answer, BaseException):
                raise answer
            return answer

        return attempt

    return InTurn(*map(attempt_of, answers))


def test_of_results_at_the_same_time_one_is_returned() -> None:
    assert hedge(together(1, 2, 3), ConstantBackOff(1), max_attempts=3) == 1
    assert now() == 50


@pytest.mark.parametrize("good", range(4))
def test_a_result_beside_failures_at_the_same_time_wins(good: int) -> None:
    answers: list[Any] = [OSError(n) for n in range(4)]
    answers[good] = 7
    assert hedge(together(*answers), ConstantBackOff(1), max_attempts=4) == 7


def test_failures_at_the_same_time_are_one_after_the_other() -> None:
    errors = [OSError(n) for n in range(3)]
    with pytest.raises(OSError) as caught:
        hedge(together(*errors), ConstantBackOff(1), max_attempts=3)
    assert caught.value is errors[2]
    assert not any(hasattr(error, "__notes__") for error in errors[:2])

"""Budgets of the user's own, above all those whose answer coroutines await."""

import asyncio

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    CircuitBreaker,
    CircuitOpen,
    ConstantBackOff,
    DeadlineExceeded,
    ZeroBackOff,
    current_clock,
    hedge_call_async,
)
from backoff_ticker.testing import no_wait
from tests.helpers import eventually
from tests.retries.faces import ALL_ASYNC, in_loop, left_after_a_failure, on_faces
from tests.retries.made_policies import at
from tests.retries.scripts import Script, Takes, now

TEN = ConstantBackOff(10)


class Plain:
    """A budget that only counts; each answer is returned, raised or called for.

    Attributes:
        log: What was asked of it.
    """

    def __init__(self, *answers):
        self.log = []
        self._answers = iter(answers)

    def _answer(self):
        answer = next(self._answers, True)
        if isinstance(answer, BaseException):
            raise answer
        return answer() if callable(answer) else answer

    def try_acquire(self):
        self.log.append("asked")
        return self._answer()

    def release(self):
        self.log.append("released")

    def success(self):
        self.log.append("success")


class Slow(Plain):
    """A budget that takes a time to answer: in coroutines and hedged calls without blocking."""

    def __init__(self, *answers, seconds=0):
        super().__init__(*answers)
        self._seconds = seconds

    def try_acquire(self):
        self.log.append("asked")
        if self._seconds:
            current_clock().sleep(self._seconds)
        return self._answer()

    async def try_acquire_async(self):
        self.log.append("awaited")
        await asyncio.sleep(self._seconds)
        return self._answer()


@pytest.mark.parametrize("hooks", [{}, {"notify": lambda *_: None}])
def test_coroutines_await_the_answer_and_threads_do_not(face, hooks):
    for budget, waits in [(Slow(seconds=3), 13), (Plain(), 10)]:
        script, start = Script(OSError, OSError, 7), now()
        face.run(script, TEN, budget=budget, **hooks)
        asked = "awaited" if face.asynchronous and waits == 13 else "asked"
        assert budget.log == [asked, asked, "success"]
        assert script.times == [start, start + waits, start + 2 * waits]


@pytest.mark.parametrize("kind", [LookupError, Cancelled])
def test_an_error_of_the_budget_is_raised_with_the_last_error_as_its_cause(face, kind):
    failure, token, error = kind(), CancellationToken(), OSError()
    with pytest.raises(kind) as caught:
        face.run(Script(error), TEN, budget=Slow(failure), token=token)
    assert caught.value is failure
    assert caught.value.__cause__ is error
    assert "the budget failed" in caught.value.__notes__[0]


# An answer that takes long


@ALL_ASYNC
def test_no_limit_waits_for_the_answer(face, clock):
    token = CancellationToken()
    at(clock, 5, token.cancel)
    for kind, limits in [
        (Cancelled, {"token": token}),
        (DeadlineExceeded, {"timeout": 5}),
        (DeadlineExceeded, {"timeout": 5, "attempt_timeout": 1}),
    ]:
        budget, script, began = Slow(seconds=100), Script(OSError), now()
        with pytest.raises(kind):
            face.run(script, ZeroBackOff(), budget=budget, **limits)
        assert (now() - began, script.count, budget.log) == (5, 1, ["awaited"])


@ALL_ASYNC
def test_an_attempt_timeout_does_not_cut_the_answer(face):
    script = Script(OSError, 7)
    assert face.run(script, ZeroBackOff(), budget=Slow(seconds=10), attempt_timeout=1) == 7
    assert script.times == [0, 10]


@ALL_ASYNC
def test_a_retry_that_is_not_made_after_the_answer_is_paid_back(face):
    token = CancellationToken()
    for kind, answer, options in [
        (OSError, True, {"max_elapsed_time": 5}),
        (Cancelled, token.cancel, {"token": token}),  # which returns True
    ]:
        budget, script = Slow(answer, seconds=10), Script(OSError)
        with pytest.raises(kind):
            face.run(script, ZeroBackOff(), budget=budget, **options)
        assert (script.count, budget.log) == (1, ["awaited", "released"])


@on_faces("async loop")
def test_a_loop_that_is_left_before_the_question_asks_nothing(face):
    budget = Slow()
    left_after_a_failure(face, TEN, budget=budget)
    assert budget.log == []


@ALL_ASYNC
def test_waits_that_are_skipped(face):
    budget, script = Slow(True, False), Script(OSError)
    with no_wait(), pytest.raises(OSError):
        face.run(script, TEN, budget=budget, timeout=1000, token=CancellationToken(timeout=1000))
    assert (script.count, budget.log) == (2, ["awaited", "awaited"])


# Hedged calls, in which each attempt asks for itself


def test_the_attempts_of_a_hedged_call_ask_for_themselves(hedge):
    budget = Slow()
    assert hedge(Script(Takes(25, 7), OSError, Takes(1, 8)), TEN, budget=budget) == 8
    assert sorted(budget.log[:2]) == ["awaited" if hedge.waits else "asked"] * 2
    assert budget.log[2:] == ["success"]


def test_neither_a_slow_answer_nor_a_refusal_concerns_another_attempt(hedge):
    for budget in (Slow(seconds=1000), Slow(False)):
        script, began = Script(Takes(25, 7)), now()
        assert hedge(script, TEN, budget=budget) == 7
        assert (now() - began, script.count) == (25, 1)
        assert budget.log[-1] == "success"


def test_a_refusal_while_nothing_runs_and_an_error_of_the_budget_end_the_call(hedge):
    error, failure = OSError(), LookupError()
    for raised, answer, why in [
        (error, False, "nothing left in <"),
        (failure, failure, "the budget failed"),
    ]:
        with pytest.raises(type(raised)) as caught:
            hedge(Script(error), TEN, budget=Slow(answer))
        assert caught.value is raised
        (note,) = caught.value.__notes__
        assert "gave up after 1 attempt in" in note
        assert why in note


def test_hedges_that_come_too_late_are_paid_back(clock):
    budget, script = Slow(seconds=10), Script(Takes(1, OSError))
    limits = {"max_elapsed_time": 10.5, "max_attempts": 2}
    with pytest.raises(OSError) as caught:
        in_loop(hedge_call_async(script.in_loop, TEN, budget=budget, **limits))
    assert "max_elapsed_time" in caught.value.__notes__[0]
    assert (script.count, budget.log) == (1, ["awaited", "released"])


def test_a_hedge_that_the_circuit_refuses_is_paid_back(hedge):
    budget, script = Slow(), Script(OSError)
    breaker = CircuitBreaker(ConstantBackOff(100), failures=1)
    with pytest.raises(CircuitOpen):
        hedge(script, TEN, budget=budget, breaker=breaker, timeout=50)
    assert (script.count, budget.log[1:]) == (1, ["released"])


@pytest.mark.parametrize("kind", [Plain, Slow])
def test_a_hedge_whose_circuit_breaker_fails_is_paid_back(hedge, kind):
    def may_probe():
        raise LookupError

    budget, script = kind(), Script(OSError)
    breaker = CircuitBreaker(ConstantBackOff(5), failures=1, may_probe=may_probe)
    with pytest.raises(LookupError):
        hedge(script, TEN, budget=budget, breaker=breaker, max_attempts=3)
    assert (script.count, budget.log[1::2]) == (1, ["released", "released"])


def test_a_hedge_whose_token_is_cancelled_at_the_answer_is_paid_back(hedge):
    token, script = CancellationToken(), Script(Takes(100, 7))
    budget = Slow(token.cancel)  # returns True
    with pytest.raises(Cancelled):
        hedge(script, TEN, budget=budget, token=token)
    assert script.count == 1
    eventually(lambda: budget.log[1:] == ["released"])

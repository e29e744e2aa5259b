"""Budgets: the bucket of tokens that callers share, and those of the user's own."""

from contextlib import contextmanager
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    CircuitBreaker,
    CircuitOpen,
    ConstantBackOff,
    DeadlineExceeded,
    Permanent,
    RetryAfter,
    RetryBudget,
    current_clock,
    hedge_call_async,
)
from tests.helpers import eventually, sleep, time_limit
from tests.retries.faces import ALL_ASYNC, AND_HEDGES, FOUR, LOOPS, in_loop, left_after_a_failure
from tests.retries.made_hooks import taking
from tests.retries.scripts import ONE, TEN, ZERO, Recorded, Script, Takes, at, now
from tests.tickers.made_policies import Scripted

EIGHTHS = st.integers(0, 400).map(lambda number: number / 8)


def test_it_has_the_defaults_of_its_sources_starts_full_and_ten_tenths_are_one_retry():
    budget = RetryBudget()
    assert budget.tokens == 500
    assert [budget.try_acquire() for _ in range(501)] == [True] * 500 + [False]
    for _ in range(5):
        for _ in range(10):
            assert not budget.try_acquire()
            budget.success()
        assert budget.try_acquire()


@given(
    st.integers(1, 400).map(lambda number: number / 8),
    EIGHTHS,
    st.integers(1, 100).map(lambda number: number / 8),
    st.lists(st.one_of(st.sampled_from(["success", "release", None]), EIGHTHS), max_size=80),
)
def test_it_is_a_bucket(max_tokens, ratio, cost, actions):
    budget = RetryBudget(max_tokens, ratio, min(cost, max_tokens))
    cost = min(cost, max_tokens)
    tokens, spent, successes = Fraction(max_tokens), Fraction(0), 0
    for action in actions:
        if action == "success":
            budget.success()
            successes += 1
            tokens = min(tokens + Fraction(ratio), Fraction(max_tokens))
        elif action == "release":
            budget.release()
            tokens = min(tokens + Fraction(cost), Fraction(max_tokens))
            spent -= Fraction(cost)
        else:
            asked = Fraction(cost if action is None else action)
            granted = asked <= tokens
            assert budget.try_acquire(action) is granted
            tokens -= asked * granted
            spent += asked * granted
        assert budget.tokens == tokens
        assert 0 <= budget.tokens <= max_tokens
        assert spent <= max_tokens + ratio * successes


@pytest.mark.parametrize("name", ["max_tokens", "token_ratio", "retry_cost", "cost"])
def test_bad_numbers_are_named(name):
    for value, kind in [
        ("1", TypeError),
        (True, TypeError),
        (-1, ValueError),
        (float("nan"), ValueError),
        (float("inf"), ValueError),
    ]:
        with pytest.raises(kind, match=f"{name} must .*, not {value!r}"):
            RetryBudget().try_acquire(value) if name == "cost" else RetryBudget(**{name: value})


class Awaited(RetryBudget):
    """A budget whose answer comes in a later step of the event loop."""

    async def try_acquire_async(self):
        await sleep(0)
        return self.try_acquire()


@pytest.fixture(params=[RetryBudget, Awaited])
def make_budget(request):
    """Each kind of budget in turn."""
    return request.param


def test_each_retry_costs_and_each_success_pays(face, make_budget):
    budget = make_budget(10, 0.5, 2)
    face.run(Script(OSError, RetryAfter(3), OSError, 7), ONE, budget=budget)
    assert budget.tokens == 4.5
    face.run(Script(7), budget=budget)
    assert budget.tokens == 5
    face.fails(OSError, Script(Permanent(OSError())), budget=budget)
    face.fails(OSError, Script(OSError), ZERO, max_attempts=2, budget=budget)
    assert budget.tokens == 3


def interrupt(*_):
    raise KeyboardInterrupt


@contextmanager
def in_second(outcome):
    if outcome.attempts == 2:
        raise LookupError
    yield


def at_second(hook):
    return lambda outcome: hook(outcome) if outcome.attempts == 2 else None


# What keeps the second attempt from being made, with a token, and what is raised.
PREVENTED = {
    "on_attempt": (ZeroDivisionError, lambda _: {"on_attempt": at_second(lambda _: 1 / 0)}),
    "its manager": (LookupError, lambda _: {"around": in_second}),
    "notify": (ZeroDivisionError, lambda _: {"notify": lambda *_: 1 / 0}),
    "on_retry": (ZeroDivisionError, lambda _: {"on_retry": lambda _: 1 / 0}),
    "a slow hook": (DeadlineExceeded, lambda _: {"timeout": 15, "on_retry": taking(20)}),
    "a cancel during the wait": (Cancelled, lambda _: {"token": CancellationToken(timeout=5)}),
    "interrupted notify": (KeyboardInterrupt, lambda _: {"notify": interrupt}),
    "interrupted on_retry": (KeyboardInterrupt, lambda _: {"on_retry": interrupt}),
    "a cancel right before the call": (
        Cancelled,
        lambda token: {"token": token, "on_attempt": at_second(lambda _: token.cancel())},
    ),
}


@FOUR
@pytest.mark.parametrize("why", PREVENTED)
def test_a_retry_that_was_not_made_costs_nothing(face, make_budget, why):
    kind, options = PREVENTED[why]
    budget, seen = make_budget(5), []
    for hooks in ({}, {"on_give_up": lambda _: seen.append(budget.tokens)}):
        script = Script(OSError)
        face.fails(kind, script, TEN, budget=budget, **hooks, **options(CancellationToken()))
        assert (script.count, budget.tokens) == (1, 5)
    assert seen == [5] * issubclass(kind, Exception)


@FOUR
def test_a_budget_that_fails_when_it_is_paid_back_ends_the_run_by_its_error(face, monkeypatch):
    token, failure, gave_up = CancellationToken(), LookupError(), Recorded()
    monkeypatch.setattr(RetryBudget, "release", Recorded(failure))
    options = {"budget": RetryBudget(5), "token": token, "on_retry": lambda _: token.cancel()}
    assert face.fails(LookupError, Script(OSError), ONE, on_give_up=gave_up, **options) is failure
    assert gave_up.last.reason == "failed"


@ALL_ASYNC
def test_a_wait_whose_task_is_cancelled_costs_nothing(face, make_budget):
    budget = make_budget(5)

    async def main():
        async with time_limit(5):
            await face.main(Script(OSError), TEN, budget=budget)

    with pytest.raises(TimeoutError):
        face.in_loop(main())
    assert budget.tokens == 5


@pytest.mark.parametrize("options", [{}, {"timeout": 60}], ids=str)
def test_a_retry_that_is_interrupted_costs_what_it_costs(face, make_budget, options):
    budget, script = make_budget(5), Script(OSError, KeyboardInterrupt)
    face.fails(KeyboardInterrupt, script, TEN, budget=budget, **options)
    assert budget.tokens == 4


@LOOPS
def test_a_loop_that_is_left_before_the_retry_costs_nothing(face, make_budget):
    budget = make_budget(5)
    left_after_a_failure(face, ONE, budget=budget)
    assert budget.tokens == 5


def test_a_hedge_that_never_began_costs_nothing(clock, make_budget):
    budget, script = make_budget(5), Script(OSError)
    policy = Scripted(10.0, 10.0, LookupError())  # raised when the third was started
    with pytest.raises(LookupError):
        in_loop(hedge_call_async(script.in_loop, policy, budget=budget))
    assert (script.count, budget.tokens) == (2, 4)


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
        await sleep(self._seconds)
        return self._answer()


def test_coroutines_await_the_answer_and_threads_do_not(face):
    for budget, waits in [(Slow(seconds=3), 13), (Plain(), 10)]:
        script, start = Script(OSError, OSError, 7), now()
        face.run(script, TEN, budget=budget)
        asked = "awaited" if face.asynchronous and waits == 13 else "asked"
        assert budget.log == [asked, asked, "success"]
        assert script.times == [start, start + waits, start + 2 * waits]


@AND_HEDGES
@pytest.mark.parametrize("kind", [LookupError, Cancelled])
def test_an_error_of_the_budget_is_raised_with_the_last_error_as_its_cause(face, kind):
    failure, token, error = kind(), CancellationToken(), OSError()
    caught = face.fails(kind, Script(error), TEN, budget=Slow(failure), token=token)
    assert caught is failure
    assert caught.__cause__ is error
    assert "the budget failed" in caught.__notes__[0]


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
        face.fails(kind, script, ZERO, budget=budget, **limits)
        assert (now() - began, script.count, budget.log) == (5, 1, ["awaited"])


@ALL_ASYNC
def test_an_attempt_timeout_does_not_cut_the_answer(face):
    script = Script(OSError, 7)
    assert face.run(script, ZERO, budget=Slow(seconds=10), attempt_timeout=1) == 7
    assert script.times == [0, 10]


@ALL_ASYNC
def test_a_retry_that_is_not_made_after_the_answer_is_paid_back(face):
    token = CancellationToken()
    for kind, answer, options in [
        (OSError, True, {"max_elapsed_time": 5}),
        (Cancelled, token.cancel, {"token": token}),  # which returns True
    ]:
        budget, script = Slow(answer, seconds=10), Script(OSError)
        face.fails(kind, script, ZERO, budget=budget, **options)
        assert (script.count, budget.log) == (1, ["awaited", "released"])


def test_neither_a_slow_answer_nor_a_refusal_concerns_another_attempt(hedge):
    for budget in (Slow(seconds=1000), Slow(False)):
        script, began = Script(Takes(25, 7)), now()
        assert hedge(script, TEN, budget=budget) == 7
        assert (now() - began, script.count) == (25, 1)
        assert budget.log[-1] == "success"


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
    hedge.fails(CircuitOpen, script, TEN, budget=budget, breaker=breaker, timeout=50)
    assert (script.count, budget.log[1:]) == (1, ["released"])


def test_a_hedge_whose_token_is_cancelled_at_the_answer_is_paid_back(hedge):
    token, script = CancellationToken(), Script(Takes(100, 7))
    budget = Slow(token.cancel)  # returns True
    hedge.fails(Cancelled, script, TEN, budget=budget, token=token)
    assert script.count == 1
    eventually(lambda: budget.log[1:] == ["released"])

"""RetryBudget: a bucket of tokens that callers share."""

import asyncio
from contextlib import contextmanager
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    DeadlineExceeded,
    Permanent,
    RetryAfter,
    RetryBudget,
    StopReason,
    ZeroBackOff,
    hedge_call_async,
)
from tests.retries.faces import ALL_ASYNC, BOTH, LOOPS, in_loop, left_after_a_failure, on_faces
from tests.retries.made_policies import at
from tests.retries.scripts import Recorded, Script, now
from tests.tickers.made_policies import Scripted

EIGHTHS = st.integers(0, 400).map(lambda number: number / 8)


def test_it_starts_full_and_has_the_defaults_of_its_sources():
    budget = RetryBudget()
    assert budget.tokens == 500
    assert [budget.try_acquire() for _ in range(501)] == [True] * 500 + [False]
    assert budget.tokens == 0
    budget.success()
    assert budget.tokens == pytest.approx(0.1)
    assert not budget.try_acquire()


def test_ten_tenths_are_one_retry():
    budget = RetryBudget(500, 0.1)
    assert budget.try_acquire(500)
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


@given(st.floats(0.001, 5), st.floats(0.01, 20), st.lists(st.booleans(), max_size=300))
def test_its_promise_holds_for_any_numbers(ratio, cost, actions):
    budget = RetryBudget(20, ratio, cost)
    retries = successes = 0
    for action in actions:
        if action:
            budget.success()
            successes += 1
        else:
            retries += budget.try_acquire()
    assert retries * cost <= (20 + ratio * successes) * (1 + 1e-9)
    assert 0 <= budget.tokens <= 20


@pytest.mark.parametrize("name", ["max_tokens", "token_ratio", "retry_cost", "cost"])
def test_bad_numbers_are_named(name):
    for value, kind in [
        ("1", TypeError),
        (True, TypeError),
        (-1, ValueError),
        (float("nan"), ValueError),
        (float("inf"), ValueError),
    ]:
        with pytest.raises(kind) as caught:
            RetryBudget().try_acquire(value) if name == "cost" else RetryBudget(**{name: value})
        assert name in str(caught.value)
        assert repr(value) in str(caught.value)


# Runs, also with a budget whose answer coroutines await


class Awaited(RetryBudget):
    """A budget whose answer comes in a later step of the event loop."""

    async def try_acquire_async(self):
        await asyncio.sleep(0)
        return self.try_acquire()


@pytest.fixture(params=[RetryBudget, Awaited])
def make_budget(request):
    """Each kind of budget in turn; integrations run the tests below with their own."""
    return request.param


def test_each_retry_costs_and_each_success_pays(face, make_budget):
    budget = make_budget(10, 0.5, 2)
    face.run(Script(OSError, RetryAfter(3), OSError, 7), ConstantBackOff(1), budget=budget)
    assert budget.tokens == 4.5
    face.run(Script(7), budget=budget)
    assert budget.tokens == 5
    with pytest.raises(OSError):
        face.run(Script(Permanent(OSError())), budget=budget)
    with pytest.raises(OSError):
        face.run(Script(OSError), ZeroBackOff(), max_attempts=2, budget=budget)
    assert budget.tokens == 3


@BOTH
def test_where_it_refuses_the_error_itself_is_raised(face, make_budget):
    budget, gave_up = make_budget(2), Recorded()
    errors = [OSError(n) for n in range(5)]
    script = Script(*errors)
    with pytest.raises(OSError) as caught:
        face.run(script, ConstantBackOff(1), budget=budget, on_give_up=gave_up)
    assert caught.value is errors[2]
    assert script.times == [0, 1, 2]
    assert gave_up.last.reason is StopReason.BUDGET
    assert "nothing left in <" in caught.value.__notes__[0]


def test_the_smallest_cost_counts():
    budget = RetryBudget(1e-9, 0, 4e-10)
    assert [budget.try_acquire() for _ in range(3)].count(True) <= 2


# Retries that are not made


def interrupt(*_):
    raise KeyboardInterrupt


@contextmanager
def not_entered(_):
    raise LookupError
    yield


def at_second(hook):
    return lambda outcome: hook(outcome) if outcome.attempts == 2 else None


# What keeps the second attempt from being made, with a token, and what is raised.
PREVENTED = {
    "on_attempt": (ZeroDivisionError, lambda _: {"on_attempt": at_second(lambda _: 1 / 0)}),
    "its manager": (LookupError, lambda _: {"on_attempt": at_second(not_entered)}),
    "notify": (ZeroDivisionError, lambda _: {"notify": lambda *_: 1 / 0}),
    "on_retry": (ZeroDivisionError, lambda _: {"on_retry": lambda _: 1 / 0}),
    "interrupted notify": (KeyboardInterrupt, lambda _: {"notify": interrupt}),
    "interrupted on_retry": (KeyboardInterrupt, lambda _: {"on_retry": interrupt}),
    "a cancel right before the call": (
        Cancelled,
        lambda token: {"token": token, "on_attempt": at_second(lambda _: token.cancel())},
    ),
}


@pytest.mark.parametrize("why", PREVENTED)
def test_a_retry_that_was_not_made_costs_nothing(face, make_budget, why):
    kind, options = PREVENTED[why]
    budget, script = make_budget(5), Script(OSError)
    with pytest.raises(kind):
        face.run(script, ConstantBackOff(10), budget=budget, **options(CancellationToken()))
    assert (script.count, budget.tokens) == (1, 5)


def test_a_retry_that_is_cancelled_during_its_wait_costs_nothing(face, clock, make_budget):
    budget, script, seen = make_budget(5), Script(OSError), []
    for options in ({}, {"on_give_up": lambda _: seen.append(budget.tokens)}):
        token = CancellationToken()
        at(clock, now() + 5, token.cancel)
        with pytest.raises(Cancelled):
            face.run(script, ConstantBackOff(10), budget=budget, token=token, **options)
    assert (script.count, budget.tokens, seen) == (2, 5, [5])


def test_a_retry_that_comes_too_late_costs_nothing(face, clock, make_budget):
    def hook(_):
        return asyncio.sleep(20) if face.asynchronous else clock.sleep(20)

    budget, script = make_budget(5), Script(OSError)
    with pytest.raises(DeadlineExceeded):
        face.run(script, ConstantBackOff(10), budget=budget, timeout=15, on_retry=hook)
    assert (script.count, budget.tokens) == (1, 5)


class Interrupting:
    """A clock on which the first wait of a thread is interrupted."""

    def __init__(self, clock):
        self._clock = clock

    def __getattr__(self, name):
        return getattr(self._clock, name)

    def parker(self, what=""):
        raise KeyboardInterrupt


@on_faces("call", "decorator", "loop")
def test_an_interrupted_wait_costs_nothing(face, clock, make_budget):
    budget = make_budget(5)
    with pytest.raises(KeyboardInterrupt):
        face.run(Script(OSError), ConstantBackOff(10), budget=budget, clock=Interrupting(clock))
    assert budget.tokens == 5


@ALL_ASYNC
def test_a_wait_whose_task_is_cancelled_costs_nothing(face, make_budget):
    budget = make_budget(5)

    async def main():
        async with asyncio.timeout(5):
            await face.main(Script(OSError), ConstantBackOff(10), budget=budget)

    with pytest.raises(TimeoutError):
        in_loop(main())
    assert budget.tokens == 5


def test_a_retry_that_is_interrupted_costs_what_it_costs(face, make_budget):
    budget = make_budget(5)
    with pytest.raises(KeyboardInterrupt):
        face.run(Script(OSError, KeyboardInterrupt), ConstantBackOff(10), budget=budget)
    assert budget.tokens == 4


@LOOPS
def test_a_loop_that_is_left_before_the_retry_costs_nothing(face, make_budget):
    budget = make_budget(5)
    left_after_a_failure(face, ConstantBackOff(1), budget=budget)
    assert budget.tokens == 5


def test_a_hedge_that_never_began_costs_nothing(clock, make_budget):
    budget, script = make_budget(5), Script(OSError)
    policy = Scripted(10.0, 10.0, LookupError())  # raised when the third was started
    with pytest.raises(LookupError):
        in_loop(hedge_call_async(script.in_loop, policy, budget=budget))
    assert (script.count, budget.tokens) == (2, 4)

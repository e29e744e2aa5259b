"""What happens to a failure, step by step, and which step comes first."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    DeadlineExceeded,
    Permanent,
    RetryAfter,
    RetryBudget,
    StopBackOff,
    StopReason,
    current_clock,
)
from backoff_ticker.retries._no_wait import SkippingClock
from tests.retries.faces import BOTH, FOUR
from tests.retries.made_policies import cancelled_token, spent_budget
from tests.retries.scripts import Recorded, Script, Takes
from tests.tickers.made_policies import Scripted


class Refused(Exception):
    """What ``on`` refuses in these tests."""


class OwnInterrupt(BaseException):
    """An interrupt of somebody else's."""


def taking_a_second(error: Any) -> tuple[Script, SkippingClock]:
    """Return an operation that fails, and the clock on which each of its calls takes a second."""
    clock = SkippingClock(current_clock())

    def fail() -> Any:
        clock.skipped += 1
        raise error

    return Script(fail), clock


# Each step that ends a run, by what brings it about at the first failure; in order.
STEPS: dict[str, dict[str, Any]] = {
    "permanent": {"error": Permanent},
    "not_retried": {"on": LookupError},
    "cancelled": {"token": cancelled_token},
    "deadline": {"timeout": 0},
    "max_elapsed_time": {"max_elapsed_time": 0.5},
    "max_attempts": {"max_attempts": 1},
    "exhausted": {"backoff": StopBackOff},
    "deadline ahead": {"timeout": 5},
    "max_elapsed_time ahead": {"max_elapsed_time": 5},
    "budget": {"budget": spent_budget},
}
RAISED = {"cancelled": Cancelled, "deadline": DeadlineExceeded}
EXCLUDING = {
    ("deadline", "deadline ahead"),
    ("max_elapsed_time", "max_elapsed_time ahead"),
    ("exhausted", "deadline ahead"),
    ("exhausted", "max_elapsed_time ahead"),
}


def ending(face: Any, steps: tuple[str, ...]) -> tuple[Any, ...]:
    """Return how a run ends in which all of ``steps`` are due: reason, error, calls, waits."""
    inner = Refused()
    options: dict[str, Any] = {"backoff": ConstantBackOff(10), "error": lambda error: error}
    for step in steps:
        options |= STEPS[step]
    for name in ("token", "backoff", "budget"):
        if callable(options.get(name)):
            options[name] = options[name]()
    script, clock = taking_a_second(options.pop("error")(inner))
    notify, gave_up = Recorded(), Recorded()
    with pytest.raises(Exception) as caught:
        face.run(script, notify=notify, on_give_up=gave_up, clock=clock, **options)
    error = caught.value
    if not gave_up.calls:  # an error that `on` does not name at once passes as it is
        return "not_retried", error is inner, script.count, 1, notify.calls
    expected = RAISED.get(gave_up.last.reason)
    told = error is inner if expected is None else type(error) is expected
    if expected is not None:
        told = told and error.__cause__ is inner
    return str(gave_up.last.reason), told, script.count, len(gave_up.calls), notify.calls


def test_of_two_steps_that_end_a_run_the_first_does(face: Any) -> None:
    pairs = [pair for pair in itertools.combinations(STEPS, 2) if pair not in EXCLUDING]
    pairs += [(step,) for step in STEPS]
    ended = {pair: ending(face, pair) for pair in pairs}
    assert ended == {pair: (pair[0].split()[0], True, 1, 1, []) for pair in pairs}


@BOTH
def test_a_run_in_which_all_of_them_are_due_ends_with_the_first(face: Any) -> None:
    steps = tuple(STEPS)
    for first in range(len(steps)):
        due = [s for s in steps[first:] if not s.endswith("ahead") or first == steps.index(s)]
        assert ending(face, tuple(due))[0] == steps[first].split()[0]


# 1 and 2: the call, and its result


@FOUR
def test_it_is_called_at_least_once(face: Any) -> None:
    script = Script(7)
    assert face.run(script, StopBackOff(), token=cancelled_token()) == 7
    assert script.times == [0]


@FOUR
def test_a_result_is_returned_at_once(face: Any) -> None:
    budget, success = RetryBudget(10), Recorded()
    for _ in range(4):
        budget.try_acquire()
    script = Script(Takes(3, None))
    assert face.run(script, budget=budget, on_success=success) is None
    assert script.times == [0]
    assert budget.tokens == pytest.approx(6.1)
    ((when, outcome),) = success.calls
    assert (when, outcome.reason) == (3, StopReason.SUCCEEDED)


def test_failures_are_retried_after_the_delays_of_the_policy(face: Any) -> None:
    script = Script(KeyError, Takes(2, ValueError), OSError, "done")
    assert face.run(script, Scripted(1.5, 10.0, 100.0)) == "done"
    assert script.times == [0, 1.5, 13.5, 113.5]


# 3 and 6: interrupts


def test_what_is_no_exception_passes(face: Any) -> None:
    interrupts = [
        KeyboardInterrupt(),
        SystemExit(3),
        asyncio.CancelledError(),
        GeneratorExit(),
        OwnInterrupt(),
    ]
    for interrupt in interrupts:
        for on in (Exception, lambda error: True):
            script, hook = Script(ValueError, interrupt, 7), Recorded()
            with pytest.raises(type(interrupt)) as caught:
                face.run(
                    script, ConstantBackOff(1), on=on, on_success=hook, on_give_up=hook, until=bool
                )
            assert caught.value is interrupt
            assert (script.count, hook.calls) == (2, [])
            assert not hasattr(interrupt, "__notes__")


# 4a to 4c


@FOUR
def test_permanent_ends_it_and_raises_the_error_inside(face: Any) -> None:
    inner = OSError("gone")
    script = Script(ValueError, Permanent(inner), 7)
    with pytest.raises(OSError) as caught:
        face.run(script, ConstantBackOff(1), on=ValueError)
    assert caught.value is inner
    assert script.times == [0, 1]


@BOTH
def test_retry_after_is_retried_whatever_on_says(face: Any) -> None:
    for on in (KeyError, (KeyError, OSError), lambda error: False):
        script = Script(RetryAfter(7, ValueError()), "done")
        assert face.run(script, ConstantBackOff(1), on=on) == "done"
        assert script.times[1] - script.times[0] == 7


@BOTH
def test_every_limit_binds_retry_after(face: Any) -> None:
    ended = {}
    for step in list(STEPS)[2:]:
        inner, gave_up = Refused(), Recorded()
        options = {"backoff": ConstantBackOff(10)} | STEPS[step]
        options = {name: each() if callable(each) else each for name, each in options.items()}
        script = Script(RetryAfter(6, inner))
        with pytest.raises(Exception) as caught:
            face.run(script, on_give_up=gave_up, **options)
        ended[step] = str(gave_up.last.reason), script.count, gave_up.last.last_error is inner
        told = caught.value if caught.value is inner else caught.value.__cause__
        assert told is inner
    assert ended == {step: (step.split()[0], 1, True) for step in list(STEPS)[2:]}


# 4d to 4h


@BOTH
def test_a_policy_is_not_asked_where_a_step_before_ends_the_run(face: Any) -> None:
    for step in list(STEPS)[:5]:
        policy = Scripted(then=1.0)
        assert ending_with(face, policy, step) == 0


def ending_with(face: Any, policy: Scripted, step: str) -> int:
    options = {
        name: each() if name == "token" else each
        for name, each in STEPS[step].items()
        if name != "error"
    }
    error: Any = Permanent(Refused()) if step == "permanent" else Refused
    with pytest.raises((Refused, Cancelled)):
        script, clock = taking_a_second(error)
        face.run(script, policy, clock=clock, **options)
    return policy.asked


@BOTH
def test_attempts_are_counted_before_the_policy_is_asked(face: Any) -> None:
    policy, errors = Scripted(then=1.0), [OSError(1), OSError(2), OSError(3)]
    script = Script(*errors, 7)
    with pytest.raises(OSError) as caught:
        face.run(script, policy, max_attempts=3)
    assert caught.value is errors[2]
    assert (script.times, policy.asked, policy.resets) == ([0, 1, 2], 2, 1)


@BOTH
def test_a_budget_is_not_asked_where_the_deadline_would_pass(face: Any) -> None:
    budget = RetryBudget(5)
    with pytest.raises(DeadlineExceeded):
        face.run(Script(ValueError), ConstantBackOff(5), timeout=5, budget=budget)
    assert budget.tokens == 5


# 4i and 4j


@BOTH
def test_a_budget_that_refuses_ends_it_before_anybody_is_told(face: Any) -> None:
    budget, notify, hook = RetryBudget(2), Recorded(), Recorded()
    script = Script(ValueError)
    with pytest.raises(ValueError):
        face.run(script, ConstantBackOff(1), budget=budget, notify=notify, on_retry=hook)
    assert script.times == [0, 1, 2]
    assert len(notify.calls) == len(hook.calls) == 2
    assert budget.tokens == 0


def test_notify_comes_before_on_retry_before_the_wait(face: Any) -> None:
    log: list[Any] = []
    error = ValueError()
    script = Script(error, lambda: log.append("called") or 7)
    face.run(
        script,
        ConstantBackOff(5),
        notify=lambda *told: log.append(told),
        on_retry=lambda outcome: log.append(outcome.delay),
    )
    assert log == [(error, 5.0), 5.0, "called"]
    assert script.times == [0, 5]


def test_a_cancel_before_the_next_call_prevents_it(face: Any) -> None:
    for hook in ("notify", "on_retry", "on_attempt"):
        token, error, calls, gave_up = CancellationToken(), ValueError(), [], Recorded()
        script = Script(error, 7)

        def cancel(*told: Any) -> None:
            calls.append(told)
            if hook != "on_attempt" or len(calls) == 2:
                token.cancel(hook)

        policy = ConstantBackOff(0 if hook == "on_attempt" else 9)
        with pytest.raises(Cancelled) as caught:
            face.run(script, policy, token=token, on_give_up=gave_up, **{hook: cancel})
        assert (caught.value.cause, caught.value.__cause__) == (hook, error)
        assert script.times == [0]
        assert gave_up.last.attempts == 1

"""Hedged calls: what ends them without a result."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from backoff_ticker import (
    ConstantBackOff,
    DeadlineExceeded,
    FibonacciBackOff,
    RetryAfter,
    RetryBudget,
    StopBackOff,
    ZeroBackOff,
    with_max_retries,
)
from backoff_ticker.testing import VirtualClock, no_wait
from tests.retries.hedges import InTurn, hedge, takes
from tests.retries.made_policies import spent_budget
from tests.retries.scripts import Script, Takes, now
from tests.tickers.made_policies import Scripted

TEN = ConstantBackOff(10)

# No more attempts

LIMITS: list[tuple[Any, dict[str, Any], str]] = [
    (TEN, {"max_attempts": 2}, "max_attempts is 2"),
    (with_max_retries(TEN, 1), {}, "the policy stopped"),
    (TEN, {"budget": RetryBudget(1)}, "nothing left in RetryBudget"),
]


@pytest.mark.parametrize(("policy", "options", "why"), LIMITS)
def test_those_that_run_decide(clock: VirtualClock, policy: Any, options: Any, why: str) -> None:
    if "budget" in options:
        options = {"budget": RetryBudget(1, token_ratio=0)}
    last = OSError(2)
    script = Script(Takes(50, OSError(1)), Takes(70, last))
    with pytest.raises(OSError) as caught:
        hedge(script.in_loop, policy, **options)
    assert caught.value is last
    (note,) = last.__notes__
    assert note.startswith(f"gave up after 2 attempts in 80.0 s: {why}")
    assert (script.times, now()) == ([0, 10], 80)
    if "budget" in options:
        options = {"budget": RetryBudget(1, token_ratio=0)}
    script = Script(Takes(50, OSError(1)), Takes(70, 7))
    assert hedge(script.in_loop, policy, **options) == 7
    assert script.count == 2


@pytest.mark.parametrize(
    ("policy", "options"), [(StopBackOff(), {}), (TEN, {"max_attempts": 1}), (TEN, {"budget": 1})]
)
def test_the_first_attempt_is_always_made(clock: VirtualClock, policy: Any, options: Any) -> None:
    if "budget" in options:
        options = {"budget": spent_budget()}
    for step in (RetryAfter(5, OSError()), OSError):
        script = Script(Takes(50, step))
        with pytest.raises(OSError):
            hedge(script.in_loop, policy, **options)
        assert script.count == 1
    script = Script(Takes(50, 7))
    assert hedge(script.in_loop, policy, **options) == 7
    assert script.count == 1


def test_each_attempt_but_the_first_takes_from_the_budget(clock: VirtualClock) -> None:
    budget = RetryBudget(10, token_ratio=0.5)
    hedge(Script(Takes(25, 7)).in_loop, TEN, budget=budget)
    assert budget.tokens == 10 - 2 + 0.5
    with pytest.raises(OSError):
        hedge(Script(OSError).in_loop, TEN, budget=budget, max_attempts=4)
    assert budget.tokens == 8.5 - 3


# Policies


def test_a_policy_that_fails_ends_all(clock: VirtualClock) -> None:
    for answer, kind in ((KeyError("policy"), KeyError), (-1, ValueError), ("x", TypeError)):
        began, last = now(), OSError()
        operation = InTurn(takes(100, 1, cleanup=2), takes(3, last), takes(100, 7))
        with pytest.raises(kind) as caught:
            hedge(operation, Scripted(10, 10, answer))
        assert caught.value.__cause__ is last
        assert caught.value.__notes__[-1].endswith("the back-off policy failed")
        assert now() - began == 10 + 3 + 2


def test_a_policy_that_fails_at_once_leaves_no_attempt(clock: VirtualClock) -> None:
    with pytest.raises(KeyError, match="policy") as caught:
        hedge(takes(100, 7, cleanup=2), Scripted(KeyError("policy")))
    assert (caught.value.__cause__, now()) == (None, 0)


def test_each_call_runs_its_own_copy(clock: VirtualClock) -> None:
    policy = with_max_retries(TEN, 2)
    for _ in range(2):
        script = Script(Takes(100, 7))
        hedge(script.in_loop, policy)
        assert script.count == 3


def test_feedback_policies_count_starts_as_failures(clock: VirtualClock) -> None:
    script = Script(Takes(100, 7))
    hedge(script.in_loop, FibonacciBackOff(1, 20))
    assert script.times == [0, 1, 21, 42, 83]


# The timeout


def test_at_the_timeout_all_are_cancelled(clock: VirtualClock) -> None:
    last = OSError()
    operation = InTurn(takes(100, 1, cleanup=5), takes(3, last), takes(100, 2))
    with pytest.raises(DeadlineExceeded) as caught:
        hedge(operation, TEN, timeout=25)
    assert caught.value.__cause__ is last
    (note,) = caught.value.__notes__
    assert note == "gave up after 4 attempts in 25.0 s: the timeout of 25.0 s"
    assert (operation.times, now()) == ([0, 10, 13, 23], 25 + 5)


def test_what_ends_in_the_moment_of_the_timeout_counts(clock: VirtualClock) -> None:
    assert hedge(Script(Takes(10, 7)).in_loop, ConstantBackOff(20), timeout=10) == 7
    for policy in (ConstantBackOff(20), ZeroBackOff()):
        assert hedge(Script(7).in_loop, policy, timeout=0) == 7
    last = OSError()
    script = Script(Takes(10, last))
    with pytest.raises(DeadlineExceeded) as caught:
        hedge(script.in_loop, ConstantBackOff(20), timeout=10)
    assert caught.value.__cause__ is last
    assert script.count == 1


def test_nobody_waits_for_a_start_that_the_timeout_forbids(clock: VirtualClock) -> None:
    script = Script(Takes(3, RetryAfter(50)))
    with pytest.raises(DeadlineExceeded):
        hedge(script.in_loop, TEN, timeout=20)
    assert (script.count, now()) == (1, 3)
    script = Script(Takes(15, 7), Takes(2, RetryAfter(50)))
    assert hedge(script.in_loop, TEN, timeout=20) == 7


# Clocks


def test_delays_are_kept_where_waits_are_skipped(clock: VirtualClock) -> None:
    script = Script(Takes(25, 7), Takes(2, RetryAfter(5)), Takes(100, 7))
    with no_wait():
        assert hedge(script.in_loop, TEN, timeout=60) == 7
    assert (script.times, now()) == ([0, 10, 17], 25)


def test_on_the_systems_clock_no_delay_is_none() -> None:
    began = []

    async def operation() -> int:
        began.append(asyncio.Event())
        if len(began) == 3:
            for event in began:
                event.set()
        await began[-1].wait()
        return 7

    assert hedge(operation, ZeroBackOff(), max_attempts=3, timeout=60) == 7
    assert len(began) == 3

from __future__ import annotations

import pytest

from backoff_ticker import RetryBudget
from tests.retries.callers import OUTAGE, RECOVERY, Plan, run

IN_TASKS = Plan(tasks=60, threads=0, healthy=10, outage=20, recovery=40, pause=5, window=5)
IN_THREADS = Plan(tasks=0, threads=10, healthy=10, outage=20, recovery=40, pause=2, window=5)
IN_BOTH = Plan(tasks=40, threads=5, healthy=10, outage=20, recovery=40, pause=3, window=5)


def changed(plan: Plan, **changes: object) -> Plan:
    return Plan(**{**vars(plan), **changes})


@pytest.mark.parametrize("plan", [IN_TASKS, IN_THREADS, IN_BOTH])
@pytest.mark.parametrize(
    ("seed", "sizes"), [(1, (20, 0.1, 1)), (2, (20, 0.25, 5)), (3, (3.5, 0.1, 0.7))]
)
def test_at_no_time_are_there_more_retries_than_the_budget_promised(plan, seed, sizes):
    budget = RetryBudget(*sizes)
    course = run(changed(plan, seed=seed), budget)
    assert course.broken_at is None
    held = [count.tokens for count in course.by_window.values() if count.tokens is not None]
    assert min(held) < budget.retry_cost


@pytest.mark.parametrize("plan", [IN_TASKS, IN_THREADS, IN_BOTH])
def test_without_a_budget_the_same_callers_make_more_retries_than_it_promises(plan):
    course = run(plan, None, promise=RetryBudget(20))
    assert plan.phase(course.broken_at) == OUTAGE
    assert course.of(OUTAGE).load > 3


@pytest.mark.parametrize("plan", [IN_TASKS, IN_THREADS, IN_BOTH])
@pytest.mark.parametrize(("most", "cost", "retries"), [(30, 1, 30), (30, 7, 4), (0.7, 0.1, 7)])
def test_in_an_outage_from_the_start_there_are_as_many_retries_as_the_full_bucket_pays(
    plan, most, cost, retries
):
    budget = RetryBudget(max_tokens=most, retry_cost=cost)
    course = run(changed(plan, healthy=0, recovery=0), budget)
    assert course.total.retries == retries
    assert course.total.answered == 0
    assert budget.tokens == pytest.approx(most - retries * cost, abs=1e-12)


@pytest.mark.parametrize("plan", [IN_TASKS, IN_THREADS, IN_BOTH])
def test_the_bucket_holds_what_successes_put_in_and_retries_left(plan):
    budget = RetryBudget(1000, token_ratio=0.1)  # never full again
    course = run(changed(plan, healthy=0, outage=60, flaws=0.1, retries=20), budget)
    total = course.total
    assert 0 < total.answered * 0.1 < total.retries
    assert course.full_at is None
    assert budget.tokens == (10_000 - 10 * total.retries + total.answered) / 10


def test_after_an_outage_successes_fill_the_bucket_and_never_above_its_size():
    budget = RetryBudget(20, token_ratio=0.3)
    course = run(changed(IN_TASKS, healthy=0, flaws=0), budget)
    recovery = course.of(RECOVERY)
    until_full = recovery.requests - course.since_full.requests  # with those under way then
    assert 67 <= until_full <= 67 + IN_TASKS.tasks
    assert course.plan.phase(course.full_at) == RECOVERY
    assert budget.tokens == 20
    assert recovery.share == 1


def test_a_full_bucket_lets_single_failures_be_retried():
    budget = RetryBudget(20)
    course = run(changed(IN_TASKS, outage=0, flaws=0.03, recovery=100), budget)
    assert course.total.share == 1
    assert course.total.retries > 20
    assert budget.tokens > 15

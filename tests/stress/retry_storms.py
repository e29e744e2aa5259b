"""Storms over budgets and retries: what is limited stays within it."""

from contextlib import suppress
from functools import partial
from random import Random

from backoff_ticker import ExponentialBackOff, RetryBudget, retry_call, retry_call_async
from tests.stress.crew import cast

WORKERS = 6
CALLS = 100


def keep_a_budget(crew, draw):
    """Take, put back and fill up: in the end the bucket holds exactly what is left."""
    budget = RetryBudget(max_tokens=2_000, token_ratio=0.5)
    assert budget.try_acquire(1_000)  # so that it is never full: what overflows is not counted
    done = []

    def use(draw):
        for _ in range(CALLS):
            how = draw.random()
            if how < 0.4:
                budget.success()
                done.append(0.5)
            elif budget.try_acquire():
                done.append(-1)
                if how < 0.6:
                    budget.release()
                    done.append(1)

    crew.play(*(partial(use, Random(draw.random())) for _ in range(draw.choice([2, WORKERS]))))
    assert budget.tokens == 1_000 + sum(done)
    return len(done)


def retry_on_a_budget(crew, draw):
    """Share one policy and one budget: each run counts for itself, and all retries together."""
    budget = RetryBudget(max_tokens=50, token_ratio=0)
    policy = ExponentialBackOff(1e-7, max_interval=1e-6)
    calls = []

    async def fail(_):
        calls.append(None)
        raise ConnectionError

    async def run(face):
        options = {"max_attempts": 4, "budget": budget}
        for _ in range(10):
            with suppress(ConnectionError):
                await face.wait(retry_call, retry_call_async, face.played(fail), policy, **options)

    crew.play(*cast(run, 4, 2))
    assert len(calls) == 60 + 50, "each first call, and a retry for each token"
    assert budget.tokens == 0
    return len(calls)


STORMS = {"a budget": keep_a_budget, "retries": retry_on_a_budget}

"""Storms over budgets, circuits, retries and hedged calls: what is limited stays within it."""

import asyncio
import time
from contextlib import suppress
from functools import partial
from random import Random

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    ExponentialBackOff,
    RetryBudget,
    hedge_call,
    hedge_call_async,
    retry_call,
    retry_call_async,
)
from tests.stress.crew import cast

WORKERS = 6
CALLS = 100
RETRY_CALL = retry_call, retry_call_async
HEDGE_CALL = hedge_call, hedge_call_async


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
                await face.wait(*RETRY_CALL, face.played(fail), policy, **options)

    crew.play(*cast(run, 4, 2))
    assert len(calls) == 60 + 50, "each first call, and a retry for each token"
    assert budget.tokens == 0
    return len(calls)


def cancel_retries(crew, draw):
    """Cancel what threads and loops retry: all end, and no call begins after that.

    Between the last look at the token and the first line of the operation a thread can lose the
    processor: so each of them may make one call that begins late, and no second.
    """
    token = CancellationToken()
    policy = ConstantBackOff(draw.choice([0.0, 0.0002]))
    calls = []
    is_over = False

    async def run(face):
        late = []

        async def fail(_):
            calls.append(None)
            if is_over:
                late.append(None)
            raise ConnectionError

        with suppress(Cancelled):
            await face.wait(*RETRY_CALL, face.played(fail), policy, token=token)
        assert len(late) <= 1

    def cancel():
        nonlocal is_over
        token.wait(draw.random() * 0.002)
        token.cancel()
        is_over = True

    crew.play(cancel, *cast(run, 3, 3))
    return len(calls)


def hedge(crew, draw):
    """Hedged calls in threads and loops: one good result each, and no more attempts than allowed.

    The first attempt waits for a later one, the second fails, and the third has the result.
    """
    budget = RetryBudget(max_tokens=1_000, token_ratio=0)
    attempts = []
    runs = 5

    async def attempt(face, begun, ended):
        begun.append(None)
        attempts.append(None)
        place = len(begun)
        if place == 2:
            raise ConnectionError
        while place == 1 and not ended:
            await face.wait(time.sleep, asyncio.sleep, 1e-5)
        ended.append(None)
        return "good"

    async def run(face):
        for _ in range(runs):
            begun = []
            operation = face.played(partial(attempt, begun=begun, ended=[]))
            policy = ConstantBackOff(draw.choice([1e-6, 1e-4]))
            options = {"max_attempts": 3, "budget": budget}
            assert await face.wait(*HEDGE_CALL, operation, policy, **options) == "good"
            assert len(begun) <= 3

    crew.play(*cast(run, 3, 2))
    assert budget.tokens <= 1_000 - (len(attempts) - 5 * runs)
    return len(attempts)


STORMS = {
    "a budget": keep_a_budget,
    "retries": retry_on_a_budget,
    "cancelled retries": cancel_retries,
    "hedged calls": hedge,
}

"""Storms over budgets, circuits, retries and hedged calls: what is limited stays within it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    CircuitBreaker,
    CircuitOpen,
    CircuitState,
    ConstantBackOff,
    ExponentialBackOff,
    RetryBudget,
    ZeroBackOff,
    hedge_call,
    hedge_call_async,
    retry_call,
    retry_call_async,
)

if TYPE_CHECKING:
    from tests.stress.crew import Crew

WORKERS = 6
CALLS = 100
OBJECTS = 60
"""Made anew for each race of a few steps."""


def keep_a_budget(crew: Crew, draw: Random) -> int:
    """Take, put back and fill up: in the end the bucket holds exactly what is left."""
    budget = RetryBudget(max_tokens=2_000, token_ratio=0.5)
    assert budget.try_acquire(1_000)  # so that it is never full: what overflows is not counted
    done: list[float] = []

    def use(draw: Random) -> None:
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


def spend_a_budget(crew: Crew, draw: Random) -> int:
    """Hold no more tokens than there are, and none is lost."""
    budget = RetryBudget(max_tokens=3)
    held: list[None] = []
    most: list[int] = []

    def use() -> None:
        for _ in range(CALLS):
            if budget.try_acquire():
                held.append(None)
                most.append(len(held))
                held.pop()
                budget.release()
            assert 0 <= budget.tokens <= 3

    crew.play(*[use] * draw.choice([2, WORKERS]))
    assert max(most) <= 3
    assert budget.tokens == 3
    return len(most)


def retry_on_a_budget(crew: Crew, draw: Random) -> int:
    """Share one policy and one budget: each run counts for itself, and all retries together."""
    budget = RetryBudget(max_tokens=50, token_ratio=0)
    policy = ExponentialBackOff(1e-7, max_interval=1e-6)
    calls: list[None] = []

    def fail() -> None:
        calls.append(None)
        raise ConnectionError

    async def fail_async() -> None:
        fail()

    def run() -> None:
        for _ in range(10):
            with suppress(ConnectionError):
                retry_call(fail, policy, max_attempts=4, budget=budget)

    async def run_async() -> None:
        for _ in range(10):
            with suppress(ConnectionError):
                await retry_call_async(fail_async, policy, max_attempts=4, budget=budget)

    crew.play(*[run] * 4, *[run_async] * 2)
    assert len(calls) == 60 + 50, "each first call, and a retry for each token"
    assert budget.tokens == 0
    return len(calls)


def cancel_retries(crew: Crew, draw: Random) -> int:
    """Cancel what threads and loops retry: all end, and no call begins after that.

    Between the last look at the token and the first line of the operation a thread can lose the
    processor: so each of them may make one call that begins late, and no second.
    """
    token = CancellationToken()
    policy = ConstantBackOff(draw.choice([0.0, 0.0002]))
    calls: list[None] = []
    late: Counter[int] = Counter()
    is_over = False

    def fail(caller: int) -> None:
        calls.append(None)
        late[caller] += is_over
        raise ConnectionError

    def run(caller: int) -> None:
        with suppress(Cancelled):
            retry_call(partial(fail, caller), policy, token=token)

    def run_async(caller: int) -> Any:
        async def fail_async() -> None:
            fail(caller)

        async def run() -> None:
            with suppress(Cancelled):
                await retry_call_async(fail_async, policy, token=token)

        return run

    def cancel() -> None:
        nonlocal is_over
        token.wait(draw.random() * 0.002)
        token.cancel()
        is_over = True

    threads = [partial(run, number) for number in range(3)]
    crew.play(cancel, *threads, *(run_async(number) for number in range(3, 6)))
    assert max(late.values(), default=0) <= 1
    return len(calls)


def probe_in_step(crew: Crew, draw: Random) -> int:
    """Ask one half-open circuit after the other in step: so many probes, and no more."""
    probes = draw.choice([1, 2])
    breakers = [
        CircuitBreaker(ZeroBackOff(), failures=1, probes=probes, successes=probes)
        for _ in range(OBJECTS)
    ]
    tickets: list[list[Any]] = [[] for _ in breakers]
    for breaker in breakers:
        breaker.record(breaker.allow(), ConnectionError())

    def ask(number: int) -> None:
        with suppress(CircuitOpen):
            tickets[number].append(breakers[number].allow())

    def record(number: int) -> None:
        with suppress(IndexError):
            breakers[number].record(tickets[number].pop())

    crew.in_step(OBJECTS, *[ask] * draw.choice([2, 4]))
    assert [len(each) for each in tickets] == [probes] * OBJECTS
    assert [breaker for breaker in breakers if breaker.state != "half-open"] == []
    crew.in_step(OBJECTS, record, record)
    assert [breaker for breaker in breakers if breaker.state != "closed"] == []
    return OBJECTS


def count_failures(crew: Crew, draw: Random) -> int:
    """Count the failures of several threads: the last of them opens the circuit."""
    workers = draw.choice([2, WORKERS])
    breaker = CircuitBreaker(ConstantBackOff(60), failures=workers * CALLS)
    error = ConnectionError()
    seen: list[str] = []

    def fail() -> None:
        for _ in range(CALLS - 1):
            breaker.record(breaker.allow(), error)
        seen.append(breaker.state)

    crew.play(*[fail] * workers)
    assert seen == ["closed"] * workers, "a failure was counted twice"
    for _ in range(workers):
        assert breaker.state == "closed", "a failure was counted twice"
        breaker.record(breaker.allow(), error)
    assert breaker.state == "open", "a failure was not counted"
    return workers * CALLS


def trip_a_circuit(crew: Crew, draw: Random) -> int:
    """Calls that fail and succeed: every change begins where another has ended."""
    changes: list[tuple[CircuitState, CircuitState]] = []
    breaker = CircuitBreaker(
        ConstantBackOff(draw.choice([1e-6, 1e-4])),
        failures=2,
        probes=2,
        on_change=lambda old, new, _: changes.append((old, new)),
    )

    def call(draw: Random) -> None:
        for _ in range(CALLS):
            with suppress(ConnectionError, CircuitOpen), breaker:
                if draw.random() < 0.6:
                    raise ConnectionError
            if draw.random() < 0.1:
                with suppress(CircuitOpen):
                    breaker.release(breaker.allow())

    crew.play(*(partial(call, Random(draw.random())) for _ in range(draw.choice([2, WORKERS]))))
    entered = Counter({CircuitState.CLOSED: 1})
    entered.update(new for _, new in changes)
    entered.subtract(old for old, _ in changes)
    assert [count for count in sorted(entered.values()) if count] == [1], entered
    time.sleep(1e-3)
    assert breaker.state in ("closed", "half-open")
    with breaker:  # all probes that have ended have given their places back
        pass
    return len(changes)


def hedge(crew: Crew, draw: Random) -> int:
    """Hedged calls in threads and loops: one good result each, and no more attempts than allowed.

    The first attempt waits for a later one, the second fails, and the third has the result.
    """
    budget = RetryBudget(max_tokens=1_000, token_ratio=0)
    attempts: list[None] = []
    runs = 5

    def run() -> None:
        for _ in range(runs):
            begun: list[None] = []
            ended: list[None] = []

            def attempt(begun: list[None] = begun, ended: list[None] = ended) -> str:
                begun.append(None)
                attempts.append(None)
                place = len(begun)
                if place == 2:
                    raise ConnectionError
                while place == 1 and not ended:
                    time.sleep(1e-5)
                ended.append(None)
                return "good"

            policy = ConstantBackOff(draw.choice([1e-6, 1e-4]))
            assert hedge_call(attempt, policy, max_attempts=3, budget=budget) == "good"
            assert len(begun) <= 3

    async def run_async() -> None:
        for _ in range(runs):
            begun: list[None] = []
            ended = asyncio.Event()

            async def attempt(begun: list[None] = begun, ended: asyncio.Event = ended) -> str:
                begun.append(None)
                attempts.append(None)
                if len(begun) == 2:
                    raise ConnectionError
                if len(begun) == 1:
                    await ended.wait()
                ended.set()
                return "good"

            result = await hedge_call_async(
                attempt, ConstantBackOff(1e-6), max_attempts=3, budget=budget
            )
            assert result == "good"
            assert len(begun) <= 3

    crew.play(*[run] * 3, *[run_async] * 2)
    assert budget.tokens <= 1_000 - (len(attempts) - 5 * runs)
    return len(attempts)


STORMS = {
    "a budget": keep_a_budget,
    "a small budget": spend_a_budget,
    "retries": retry_on_a_budget,
    "cancelled retries": cancel_retries,
    "probes in step": probe_in_step,
    "counted failures": count_failures,
    "a circuit": trip_a_circuit,
    "hedged calls": hedge,
}

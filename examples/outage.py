"""Survive an outage: retries alone, with a budget, with a circuit breaker, with both.

Problem: while a service is down, retries multiply the calls to it, just when it tries to come back,
and each caller waits for a failure that others have met before.
Shows: a ``RetryBudget``, which lets retries through only as a share of the successes, and a
``CircuitBreaker``, which lets no call through for a while after some failures.

    python examples/outage.py

Two requests a second need a service that is down for one minute of two (of virtual time). You see
how many calls the service got while it was down, how many requests failed, and how long each took.
"""

import asyncio
import random

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    CircuitBreaker,
    CircuitOpen,
    ConstantBackOff,
    ExponentialBackOff,
    Pace,
    RetryBudget,
    retry,
)
from backoff_ticker.testing import VirtualClock
from backoff_ticker.types import RetryOptions


def protection(name: str) -> RetryOptions:
    options = RetryOptions(
        on=ConnectionError,
        max_attempts=5,
        max_elapsed_time=20,
    )
    # One for each service, which all callers share.
    if "budget" in name:
        options["budget"] = RetryBudget(max_tokens=10, token_ratio=0.1)
    if "circuit" in name:
        options["breaker"] = CircuitBreaker(ConstantBackOff(5), failures=5)
    return options


async def run(name: str, clock: VirtualClock) -> None:
    calls = 0
    waits = []

    policy = ExponentialBackOff(0.5, rng=random.Random(1))

    @retry(policy, **protection(name))
    async def fetch() -> None:
        if 30 <= clock.monotonic() < 90:
            nonlocal calls
            calls += 1
            await asyncio.sleep(1)
            raise ConnectionError("no answer")

    async def request() -> None:
        start = clock.monotonic()
        try:
            await fetch()
        except (ConnectionError, CircuitOpen):
            waits.append(clock.monotonic() - start)

    end = CancellationToken(timeout=120)
    async with asyncio.TaskGroup() as requests:
        every = ConstantBackOff(0.5)
        async for _ in AsyncTicker(every, token=end, pace=Pace.BURST):
            requests.create_task(request())
    mean = sum(waits) / len(waits)
    print(f"{name:<18}{calls:>6}{len(waits):>8}{mean:>9.1f} s")


if __name__ == "__main__":
    print("                   calls  failed  each took")
    for name in [
        "retries alone",
        "budget",
        "circuit",
        "budget and circuit",
    ]:
        with VirtualClock(auto=True) as clock:
            asyncio.run(run(name, clock))

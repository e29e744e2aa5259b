"""One decorated function in many threads and tasks at once; one cancel that ends all of them."""

from __future__ import annotations

import asyncio
import random
import threading

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    ExponentialBackOff,
    retry,
    with_max_retries,
)
from backoff_ticker.testing import VirtualClock
from tests.effort import rounds

THREADS, TASKS = 8, 100
RACES = rounds(100, 2_000)


class Failing:
    """Fails so many times for each caller; remembers when each called."""

    def __init__(self, clock):
        self.calls = {}
        self._clock = clock

    def __call__(self, caller, failures):
        times = self.calls.setdefault(caller, [])
        times.append(self._clock.monotonic())
        if len(times) <= failures:
            raise ConnectionError(caller, len(times))
        return caller


def test_each_call_of_one_function_has_its_own_run(clock):
    """With its own delays, its own count of attempts, and its own last error."""
    failing, start = Failing(clock), clock.monotonic()
    policy = with_max_retries(ExponentialBackOff(1, 0, 2), 4)
    fetch = retry(policy)(failing)

    @retry(policy)
    async def fetch_async(caller, failures):
        return failing(caller, failures)

    results = {}

    def thread(caller):
        try:
            results[caller] = fetch(caller, caller % 7)
        except ConnectionError as error:
            results[caller] = error.args

    async def task(caller):
        await asyncio.sleep(caller / 64)
        try:
            results[caller] = await fetch_async(caller, caller % 7)
        except ConnectionError as error:
            results[caller] = error.args

    async def main():
        await asyncio.gather(*(task(caller) for caller in range(THREADS, THREADS + TASKS)))

    threads = [threading.Thread(target=thread, args=(caller,)) for caller in range(THREADS)]
    for each in threads:
        each.start()
    asyncio.run(main())
    for each in threads:
        each.join()

    at = (0, 1, 3, 7, 15)
    for caller in range(THREADS + TASKS):
        failures = caller % 7
        began = start if caller < THREADS else start + caller / 64
        assert failing.calls[caller] == pytest.approx([began + t for t in at[: failures + 1]])
        assert results[caller] == (caller if failures < 5 else (caller, 5))


def race(seed):
    """Cancel at some moment what three threads and three tasks retry; return what came of it."""
    rng = random.Random(seed)
    policy = ConstantBackOff(rng.choice((0.0, 1.0, 2.0)))
    with VirtualClock(auto=True) as clock:
        token = CancellationToken()
        late, causes = [], []
        cancelled = False

        def operation(takes):
            if cancelled:
                late.append(clock.monotonic())
            if takes:
                clock.sleep(takes)
            raise ConnectionError

        @retry(policy, token=token)
        async def fetch_async(takes):
            if cancelled:
                late.append(clock.monotonic())
            if takes:
                await asyncio.sleep(takes)
            raise ConnectionError

        fetch = retry(policy, token=token)(operation)

        def thread(takes):
            try:
                fetch(takes)
            except Cancelled as error:
                causes.append(error.__cause__)

        async def task(takes):
            try:
                await fetch_async(takes)
            except Cancelled as error:
                causes.append(error.__cause__)

        def cancel(when):
            nonlocal cancelled
            clock.sleep(when)
            token.cancel()
            cancelled = True

        async def main():
            await asyncio.gather(*(task(rng.choice((1, 2))) for _ in range(3)))

        takes = [rng.choice((1, 2)) for _ in range(3)]
        threads = [threading.Thread(target=thread, args=(each,)) for each in takes]
        threads.append(threading.Thread(target=cancel, args=(rng.randrange(1, 8),)))
        rng.shuffle(threads)
        for each in threads:
            each.start()
        asyncio.run(main())
        for each in threads:
            each.join()
        return late, len(causes), clock.monotonic()


def test_a_cancel_ends_all_and_no_further_call_is_made():
    """2,000 races: the cancel falls on ends of waits and of attempts, as often as between them."""
    for seed in range(RACES):
        late, ended, at = race(seed)
        assert (late, ended) == ([], 6), seed
        assert at < 10, seed  # whoever waited did not wait on

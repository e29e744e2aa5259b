"""Half an hour of retries in threads and coroutines that share one token, on the virtual clock."""

import asyncio
import random
import threading

from backoff_ticker import AsyncTicker, CancellationToken, Cancelled, ExponentialBackOff, Ticker
from backoff_ticker.testing import VirtualClock

WORKERS = 10
"""So many threads, and as many coroutines."""


def half_an_hour():
    """Return what happened, in order: attempts, answers that came late, who was cancelled when."""
    log = []

    def policy(seed):
        return ExponentialBackOff(max_interval=180, max_elapsed_time=None, rng=random.Random(seed))

    with VirtualClock(auto=True) as clock:
        token = CancellationToken()

        def retry(name, seed):
            for tick in Ticker(policy(seed), token=token):
                log.append((clock.monotonic(), name, tick.number, tick.delay))
                if token.wait(tick.number % 7):  # an attempt takes its time, and fails
                    break
            log.append((clock.monotonic(), name, str(token.cause)))

        async def retry_async(name, seed):
            async for tick in AsyncTicker(policy(seed), token=token):
                log.append((clock.monotonic(), name, tick.number, tick.delay))
                try:
                    async with token.scope():
                        await asyncio.sleep(tick.number % 7)
                except Cancelled:
                    break
            log.append((clock.monotonic(), name, str(token.cause)))

        async def main():
            async with asyncio.TaskGroup() as group:
                for n in range(WORKERS):
                    group.create_task(retry_async(f"coroutine {n}", WORKERS + n))

        def give_up():
            token.wait(1800)
            token.cancel("half an hour is over")

        threads = [threading.Thread(target=retry, args=(f"thread {n}", n)) for n in range(WORKERS)]
        for thread in [*threads, threading.Thread(target=give_up)]:
            thread.start()
        asyncio.run(main())
        for thread in threads:
            thread.join()
    return log

"""Sleeps a second on the virtual clock, by threads and by coroutines, beside looptime's.

looptime drives an event loop, and knows of no thread. Run as
``python -m tests.benchmarks.virtual_time`` from the project's root.
"""

import asyncio
import random
import threading
import time
from functools import partial
from importlib.util import find_spec

from backoff_ticker import AsyncTicker, CancellationToken, Cancelled, ExponentialBackOff, Ticker
from backoff_ticker.testing import VirtualClock
from tests.benchmarks._table import compare, options

WORKERS = 10
"""So many threads, and as many coroutines, retry for half an hour."""


def rate(sleeps, run):
    """Return how many of these sleeps there were a second."""
    start = time.perf_counter()
    run()
    return {"sleeps/s": sleeps / (time.perf_counter() - start)}


def in_thread(sleeps):
    """A thread that sleeps a second of the clock, again and again."""
    with VirtualClock(auto=True) as clock:

        def work():
            for _ in range(sleeps):
                clock.sleep(1)

        return rate(sleeps, lambda: clock.spawn(work).join())


async def _sleepers(tasks, each):
    async def work():
        for _ in range(each):
            await asyncio.sleep(1)

    await asyncio.gather(*(work() for _ in range(tasks)))


def in_tasks(tasks, sleeps):
    each = sleeps // tasks
    with VirtualClock(auto=True):
        return rate(each * tasks, lambda: asyncio.run(_sleepers(tasks, each)))


def on_looptime(tasks, sleeps):
    each = sleeps // tasks

    def run():
        with asyncio.Runner(loop_factory=_looptime_loop) as runner:
            runner.run(_sleepers(tasks, each))

    return rate(each * tasks, run)


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


def retries():
    """Half an hour of retries in threads and coroutines that share a token."""
    start = time.perf_counter()
    events = len(half_an_hour())
    passed = time.perf_counter() - start
    return {"real s": passed, "events/s": events / passed}


def _looptime_loop():
    import looptime

    loop = looptime.new_event_loop()
    loop.setup_looptime(_enabled=True)
    return loop


def main():
    """Measure, and print what came of it."""
    chosen = options(__doc__, rounds=5)
    sleeps = 200 if chosen.quick else 20_000
    for tasks in (1, 10, 100, 1000):
        count = max(sleeps, tasks)
        theirs = {"looptime": partial(on_looptime, tasks, count)} if find_spec("looptime") else {}
        subjects = {**theirs, "VirtualClock": partial(in_tasks, tasks, count)}
        compare(f"{tasks} coroutines", subjects, chosen.rounds)
    subjects = {"a coroutine": partial(in_tasks, 1, sleeps), "a thread": partial(in_thread, sleeps)}
    compare("one on the VirtualClock", subjects, chosen.rounds)
    title = f"30 virtual minutes of retries, {WORKERS} threads and {WORKERS} coroutines"
    compare(title, {"VirtualClock": retries}, chosen.rounds)


if __name__ == "__main__":
    main()

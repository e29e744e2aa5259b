"""What a cancel costs its caller, and when those who wait run again.

Times are from the start of the call: when it returns, when the first and the last waiter runs.
Run as ``python -m tests.benchmarks.cancel`` from the project's root.
"""

from __future__ import annotations

import asyncio
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

from backoff_ticker import CancellationToken
from tests.benchmarks._table import compare, options

if TYPE_CHECKING:
    from collections.abc import Callable

    Pair = tuple[Callable, Callable]


def woken(wake: Callable, crowd: list[threading.Thread], times: list[float]) -> dict[str, float]:
    """Wake those who note the time when they run, and join their threads."""
    start = time.perf_counter()
    wake()
    returned = time.perf_counter()
    for thread in crowd:
        thread.join()
    return {
        "call us": (returned - start) * 1e6,
        "first us": (min(times) - start) * 1e6,
        "last us": (max(times) - start) * 1e6,
    }


def threads(count: int, make: Callable[[], Pair]) -> dict[str, float]:
    """Let ``count`` threads wait, and wake them."""
    waiting: list[None] = []
    times: list[float] = []
    wait, wake = make()

    def run() -> None:
        waiting.append(None)
        wait()
        times.append(time.perf_counter())

    started = [threading.Thread(target=run) for _ in range(count)]
    for thread in started:
        thread.start()
    while len(waiting) < count:
        time.sleep(0.01)
    time.sleep(0.05 + count / 20_000)
    return woken(wake, started, times)


def coroutines(count: int, make: Callable[[], Pair]) -> dict[str, float]:
    """Let ``count`` tasks of a loop wait, and wake them from another thread."""
    ready = threading.Event()
    times: list[float] = []
    wakes: list[Callable[[], object]] = []

    async def run() -> None:
        wait, wake = make()
        wakes.append(wake)

        async def one() -> None:
            await wait()
            times.append(time.perf_counter())

        tasks = [asyncio.create_task(one()) for _ in range(count)]
        await asyncio.sleep(0)
        ready.set()
        await asyncio.gather(*tasks)

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    ready.wait()
    time.sleep(0.05 + count / 50_000)
    return woken(wakes[0], [thread], times)


def event_of_threads() -> Pair:
    event = threading.Event()
    return event.wait, event.set


def event_of_a_loop() -> Pair:
    event, loop = asyncio.Event(), asyncio.get_running_loop()
    return event.wait, lambda: loop.call_soon_threadsafe(event.set)


def token_of_threads() -> Pair:
    token = CancellationToken()
    return token.wait, token.cancel


def token_of_a_loop() -> Pair:
    token = CancellationToken()
    return token.wait_async, token.cancel


def main() -> None:
    """Print a table for each number of waiters."""
    chosen = options(__doc__, rounds=7, huge="also 10,000 threads, in one round")
    threading.stack_size(256 * 1024)
    for count in [1, 5] if chosen.quick else [1, 100, 1_000] + [10_000] * chosen.huge:
        subjects = {
            "threading.Event": partial(threads, count, event_of_threads),
            "token": partial(threads, count, token_of_threads),
        }
        rounds = 1 if count > 1_000 else chosen.rounds * (10 if count == 1 else 1)
        compare(f"{count:,} threads wait, rounds: {rounds}", subjects, rounds)
    for count in [1, 10] if chosen.quick else [1, 100, 10_000]:
        subjects = {
            "asyncio.Event": partial(coroutines, count, event_of_a_loop),
            "token": partial(coroutines, count, token_of_a_loop),
        }
        compare(f"{count:,} coroutines wait", subjects, chosen.rounds)


if __name__ == "__main__":
    main()

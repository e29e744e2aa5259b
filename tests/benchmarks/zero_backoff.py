"""Ticks a second without any wait: a ticker against a thread with a queue, and against asyncio.

The rate of the thread with a queue differs up to fourfold between runs, and the ratio to it as
much; the CPU a tick of the tickers is steadier.
Run as ``python -m tests.benchmarks.zero_backoff`` from the project's root.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from backoff_ticker import AsyncTicker, Ticker, ZeroBackOff
from tests.benchmarks._table import compare, options

if TYPE_CHECKING:
    from collections.abc import Callable


def rate(count: int, run: Callable[[], object]) -> dict[str, float]:
    """Return how often a second, and at what cost, ``run`` did something ``count`` times."""
    cpu, start = time.process_time(), time.perf_counter()
    run()
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {"ticks/s": count / wall, "us CPU a tick": cpu / count * 1e6}


def thread_and_queue(count: int) -> dict[str, float]:
    """A ticker as one writes it by hand: a thread that puts each tick on a queue with one place."""
    ticks: queue.Queue[float] = queue.Queue(maxsize=1)
    done = threading.Event()
    policy = ZeroBackOff()

    def tick() -> None:
        while not done.is_set():
            ticks.put(time.time())
            delay = policy.next_backoff()
            if delay > 0.0:
                done.wait(delay)

    def read() -> None:
        for _ in range(count):
            ticks.get()

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        return rate(count, read)
    finally:
        done.set()
        while thread.is_alive():
            with suppress(queue.Empty):
                ticks.get(timeout=0.01)
        thread.join()


def thread_ticker(count: int) -> dict[str, float]:
    with Ticker(ZeroBackOff()) as ticker:

        def read() -> None:
            for _ in islice(ticker, count):
                pass

        return rate(count, read)


def loop_ticker(count: int) -> dict[str, float]:
    async def read() -> None:
        async with AsyncTicker(ZeroBackOff()) as ticker:
            async for tick in ticker:
                if tick.number == count:
                    return

    return rate(count, lambda: asyncio.run(read()))


def loop_sleep(count: int) -> dict[str, float]:
    async def read() -> None:
        for _ in range(count):
            await asyncio.sleep(0)

    return rate(count, lambda: asyncio.run(read()))


def main() -> None:
    """Print the two tables."""
    chosen = options(__doc__, rounds=7)
    few, some, many = (200, 1_000, 1_000) if chosen.quick else (10_000, 100_000, 200_000)
    subjects = {
        "thread + queue.Queue(1)": partial(thread_and_queue, few),
        "Ticker(ZeroBackOff())": partial(thread_ticker, many),
    }
    compare("threads", subjects, chosen.rounds)
    subjects = {
        "asyncio.sleep(0)": partial(loop_sleep, some),
        "AsyncTicker(ZeroBackOff())": partial(loop_ticker, some),
    }
    compare("event loop", subjects, chosen.rounds)


if __name__ == "__main__":
    main()

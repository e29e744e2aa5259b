"""Thousands of tickers in one loop, each with its task, against tasks that sleep.

Run as ``python -m tests.benchmarks.scale`` from the project's root.
"""

from __future__ import annotations

import asyncio
import gc
import time
from functools import partial
from typing import TYPE_CHECKING

from backoff_ticker import AsyncTicker, ConstantBackOff
from tests.benchmarks._table import compare, options, percentiles

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    Reader = Callable[[float, float, list[float]], Coroutine[object, object, None]]


async def sleeps(phase: float, interval: float, late: list[float]) -> None:
    await asyncio.sleep(phase)
    due = time.monotonic() + interval
    while True:
        await asyncio.sleep(interval)
        now = time.monotonic()
        late.append(now - due)
        due = now + interval


async def reads(phase: float, interval: float, late: list[float]) -> None:
    await asyncio.sleep(phase)
    ticker = AsyncTicker(ConstantBackOff(interval))
    await ticker.receive()
    async for tick in ticker:
        late.append(time.monotonic() - tick.due)


async def _measure(reader: Reader, count: int, interval: float, window: float) -> dict[str, float]:
    late: list[float] = []
    tasks = [
        asyncio.create_task(reader(index / count * interval, interval, late))
        for index in range(count)
    ]
    # Each reader takes its first tick, and one more: from then on it holds a tick while it waits.
    # As long as readers begin to, more objects are made than freed, and garbage is collected.
    await asyncio.sleep(interval * 2.5)
    late.clear()
    cpu, start = time.process_time(), time.monotonic()
    await asyncio.sleep(window)
    cpu, elapsed = time.process_time() - cpu, time.monotonic() - start
    seen = late.copy()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return {
        "us CPU a tick": cpu / len(seen) * 1e6,
        "ticks/s": len(seen) / elapsed,
        **percentiles(seen),
    }


def measure(reader: Reader, count: int, interval: float, window: float) -> dict[str, float]:
    """Run ``count`` readers, their phases spread evenly, and measure for ``window`` seconds."""
    gc.collect()
    return asyncio.run(_measure(reader, count, interval, window))


def main() -> None:
    """Print a table for each number of tickers."""
    chosen = options(__doc__, rounds=5, huge="also 100,000 tickers")
    window, ticks_a_second = (0.1, 1_000) if chosen.quick else (1.5, 10_000)
    crowds = [20] if chosen.quick else [1_000, 10_000] + [100_000] * chosen.huge
    for count in crowds:
        sizes = count, count / ticks_a_second, window
        subjects = {
            "task + asyncio.sleep": partial(measure, sleeps, *sizes),
            "task + AsyncTicker": partial(measure, reads, *sizes),
        }
        compare(f"{count:,} tickers, {ticks_a_second:,} ticks/s", subjects, chosen.rounds)


if __name__ == "__main__":
    main()

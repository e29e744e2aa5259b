"""How late a tick comes: Ticker against time.sleep, AsyncTicker against asyncio.sleep.

The two take turns every few waits, so that a busy moment of the machine hits both.
Run as ``python -m tests.benchmarks.lateness`` from the project's root.
"""

from __future__ import annotations

import asyncio
import time

from backoff_ticker import AsyncTicker, ConstantBackOff, Ticker
from tests.benchmarks._table import options, show

INTERVALS = (0.0013, 0.0023)
TURN = 20


def figures(late: list[float]) -> dict[str, float]:
    """Return the median and the 99th percentile, in microseconds."""
    late.sort()
    return {
        "p50 us": late[len(late) // 2] * 1e6,
        "p99 us": late[len(late) * 99 // 100] * 1e6,
    }


def in_threads(interval: float, turns: int) -> dict[str, dict[str, float]]:
    """Measure ``time.sleep`` and a ticker that is read in a thread."""
    slept, ticked = [], []
    ticker = Ticker(ConstantBackOff(interval))
    ticker.receive()
    for _ in range(turns):
        for _ in range(TURN):
            due = time.monotonic() + interval
            time.sleep(interval)
            slept.append(time.monotonic() - due)
        ticker.reset()
        for _ in range(TURN):
            tick = ticker.receive()
            ticked.append(time.monotonic() - tick.due)
    return {"time.sleep": figures(slept), "Ticker": figures(ticked)}


async def _in_loop(interval: float, turns: int) -> dict[str, dict[str, float]]:
    slept, ticked = [], []
    ticker = AsyncTicker(ConstantBackOff(interval))
    await ticker.receive()
    for _ in range(turns):
        for _ in range(TURN):
            due = time.monotonic() + interval
            await asyncio.sleep(interval)
            slept.append(time.monotonic() - due)
        ticker.reset()
        for _ in range(TURN):
            tick = await ticker.receive()
            ticked.append(time.monotonic() - tick.due)
    return {"asyncio.sleep": figures(slept), "AsyncTicker": figures(ticked)}


def in_loop(interval: float, turns: int) -> dict[str, dict[str, float]]:
    """Measure ``asyncio.sleep`` and a ticker that is read in an event loop."""
    return asyncio.run(_in_loop(interval, turns))


def main() -> None:
    """Print a table for each face and interval."""
    chosen = options(__doc__, rounds=9)
    turns = 1 if chosen.quick else 15
    goals = {("Ticker", "p50 us"): "<= 1.2x; 1.1x", ("AsyncTicker", "p50 us"): "<= 1.05x; 0.2x"}
    for run in (in_threads, in_loop):
        for interval in INTERVALS:
            measured = [run(interval, turns) for _ in range(chosen.rounds)]
            show(f"{interval * 1e3:g} ms asked, late by", measured, goals)


if __name__ == "__main__":
    main()

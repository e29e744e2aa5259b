"""How late a tick comes: Ticker against time.sleep, AsyncTicker against asyncio.sleep.

The two take turns every few waits, so that a busy moment of the machine hits both.
Run as ``python -m tests.benchmarks.lateness`` from the project's root.
"""

from __future__ import annotations

import asyncio
import time

from backoff_ticker import AsyncTicker, ConstantBackOff, Ticker
from tests.benchmarks._table import options, percentiles, show

INTERVALS = (0.0013, 0.0023)
TURN = 20


def in_threads(interval: float, turns: int) -> dict[str, dict[str, float]]:
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
    return {"time.sleep": percentiles(slept), "Ticker": percentiles(ticked)}


async def in_loop(interval: float, turns: int) -> dict[str, dict[str, float]]:
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
    return {"asyncio.sleep": percentiles(slept), "AsyncTicker": percentiles(ticked)}


def main() -> None:
    """Print a table for each face and interval."""
    chosen = options(__doc__, rounds=9)
    turns = 1 if chosen.quick else 15
    for run in (in_threads, lambda *sizes: asyncio.run(in_loop(*sizes))):
        for interval in INTERVALS:
            measured = [run(interval, turns) for _ in range(chosen.rounds)]
            show(f"{interval * 1e3:g} ms asked, late by", measured)


if __name__ == "__main__":
    main()

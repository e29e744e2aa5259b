"""``merge`` over many tickers: what a value costs beside few sources, and how long the end takes.

The tickers fall due one after the other, so that the reader waits for each tick.

Run as ``python -m tests.benchmarks.merge`` from the project's root.
"""

import asyncio
import time

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    ConstantBackOff,
    Pace,
    Ticker,
    merge,
)
from tests.benchmarks._table import compare, options


def spread(kind, count, rate, token):
    """Return tickers that tick ``rate`` times a second together, each at a time of its own."""
    start = time.monotonic()
    tickers = []
    for number in range(count):
        ticker = kind(ConstantBackOff(count / rate), token=token, pace=Pace.BURST)
        time.sleep(max(0.0, start + number / rate - time.monotonic()))
        ticker.receive_nowait()
        tickers.append(ticker)
    return tickers


def merge_in_thread(count, values=2000, rate=2000):
    """Return what a value of a merge of ``count`` tickers costs, and its end, in a thread."""
    token = CancellationToken()
    merging = merge(*spread(Ticker, count, rate, token))
    for _ in range(count):  # until each of them has a time
        next(merging)
    cpu = time.process_time()
    for _ in range(values):
        next(merging)
    cpu = time.process_time() - cpu
    end = time.process_time()
    token.cancel()
    for _ in merging:
        pass
    return row(cpu / values, time.process_time() - end)


def merge_in_loop(count, values=2000, rate=2000):
    """Return the same for ``async for``."""

    async def main():
        token = CancellationToken()
        merging = merge(*spread(AsyncTicker, count, rate, token))
        for _ in range(count):
            await anext(merging)
        cpu = time.process_time()
        for _ in range(values):
            await anext(merging)
        cpu = time.process_time() - cpu
        end = time.process_time()
        token.cancel()
        async for _ in merging:
            pass
        return row(cpu / values, time.process_time() - end)

    return asyncio.run(main())


def row(value, end):
    return {"us CPU a value": value * 1e6, "ms CPU for the end": end * 1e3}


def main():
    chosen = options(__doc__, rounds=5)
    few, many, values = (5, 40, 20) if chosen.quick else (500, 4000, 2000)
    for name, measure in (("in a thread", merge_in_thread), ("in a loop", merge_in_loop)):
        subjects = {
            f"{count:,} tickers": lambda count=count, measure=measure: measure(count, values)
            for count in (few, many)
        }
        compare(f"merge() {name}", subjects, chosen.rounds)


if __name__ == "__main__":
    main()

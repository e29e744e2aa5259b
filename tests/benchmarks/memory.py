"""Bytes a ticker, alone and with a task that reads it: allocated and resident.

Each subject is measured in a process of its own, by ``tracemalloc`` and by resident memory.
Run as ``python -m tests.benchmarks.memory`` from the project's root.
"""

import asyncio
import gc
import os
import tracemalloc
from functools import partial
from pathlib import Path

from backoff_ticker import AsyncTicker, ConstantBackOff, Ticker
from tests.benchmarks._measures import in_a_process
from tests.benchmarks._table import compare, options, say

FAR = 3600.0
CONSTANT = ConstantBackOff(FAR)


def ticked(ticker):
    ticker.receive_nowait()
    return ticker


async def read(ticker):
    await ticker.receive()
    await ticker.receive()


ALONE = {"Ticker, ConstantBackOff shared": lambda: ticked(Ticker(CONSTANT))}
WAITING = {
    "task in asyncio.sleep": lambda: asyncio.create_task(asyncio.sleep(FAR)),
    "task in AsyncTicker.receive": lambda: asyncio.create_task(read(AsyncTicker(CONSTANT))),
}


def resident():
    """Return the resident bytes of this process; 0 where the system does not tell."""
    try:
        statm = Path("/proc/self/statm").read_text(encoding="ascii")
        return int(statm.split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


async def _fill(make, count, used):
    things = [None] * count
    before = used()
    for index in range(count):
        things[index] = make()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    after = used()
    for thing in things:
        if isinstance(thing, asyncio.Task):
            thing.cancel()
    return (after - before) / count


def measure(subject, count):
    """Return the bytes a ``subject``; called in a process of its own."""
    make = (ALONE | WAITING)[subject]
    asyncio.run(_fill(make, 10, resident))
    gc.collect()
    held = asyncio.run(_fill(make, count, resident))
    gc.collect()
    tracemalloc.start()
    allocated = asyncio.run(
        _fill(make, min(count, 10_000), lambda: tracemalloc.get_traced_memory()[0])
    )
    return {"allocated B": allocated, "resident B": held}


def main():
    chosen = options(__doc__, rounds=3)
    count = 200 if chosen.quick else 10_000
    say(f"{count:,} of each")
    for title, subjects in (("nobody waits", ALONE), ("with a reader that waits", WAITING)):
        runs = {name: partial(in_a_process, measure, name, count) for name in subjects}
        compare(title, runs, chosen.rounds)


if __name__ == "__main__":
    main()

"""Tickers: how many ticks a second, and how late they come; ``scale`` has thousands of them.

Without delays: beside a thread that puts ticks on a queue, and a loop over ``asyncio.sleep(0)``.
The rate of the thread with a queue differs up to fourfold between runs, and the ratio to it as
much; the CPU a tick of the tickers is steadier.

Lateness: beside ``time.sleep`` and ``asyncio.sleep``, which take turns with the tickers every few
waits, so that a busy moment of the machine hits both.

Run as ``python -m tests.benchmarks.tickers`` from the project's root.
"""

import asyncio
import queue
import threading
import time
from contextlib import suppress
from functools import partial
from itertools import islice

from backoff_ticker import AsyncTicker, ConstantBackOff, Ticker, ZeroBackOff
from tests.benchmarks._measures import defined, percentiles, rate
from tests.benchmarks._table import compare, options, show

INTERVALS = (0.0013, 0.0023)
TURN = 20


def thread_and_queue(count):
    """A ticker as one writes it by hand: a thread that puts each tick on a queue with one place."""
    ticks = queue.Queue(maxsize=1)
    done = threading.Event()
    policy = ZeroBackOff()

    def tick():
        while not done.is_set():
            ticks.put(time.time())
            delay = policy.next_backoff()
            if delay > 0.0:
                done.wait(delay)

    def read():
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


def thread_ticker(count):
    with Ticker(ZeroBackOff()) as ticker:

        def read():
            for _ in islice(ticker, count):
                pass

        return rate(count, read)


def loop_ticker(count):
    async def read():
        async with AsyncTicker(ZeroBackOff()) as ticker:
            async for tick in ticker:
                if tick.number == count:
                    return

    return rate(count, lambda: asyncio.run(read()))


def loop_sleep(count):
    async def read():
        for _ in range(count):
            await asyncio.sleep(0)

    return rate(count, lambda: asyncio.run(read()))


LATE = """
ASYNC def late(ticker, interval, turns, slept, ticked):
    AWAIT ticker.receive()
    for _ in range(turns):
        for _ in range(TURN):
            due = time.monotonic() + interval
            AWAIT sleep(interval)
            slept.append(time.monotonic() - due)
        ticker.reset()
        for _ in range(TURN):
            tick = AWAIT ticker.receive()
            ticked.append(time.monotonic() - tick.due)
"""


def lateness(kind, interval, turns):
    """Return how late sleeps and ticks are, of one kind of ticker, in microseconds."""
    slept, ticked = [], []
    awaits = kind is AsyncTicker
    module = asyncio if awaits else time
    run = defined("late", LATE, awaits, time=time, sleep=module.sleep, TURN=TURN)
    done = run(kind(ConstantBackOff(interval)), interval, turns, slept, ticked)
    if awaits:
        asyncio.run(done)
    return {f"{module.__name__}.sleep": percentiles(slept), kind.__name__: percentiles(ticked)}


def main():
    chosen = options(__doc__, rounds=7)
    few, some, many = (200, 1_000, 1_000) if chosen.quick else (10_000, 100_000, 200_000)
    threads = {
        "thread + queue.Queue(1)": partial(thread_and_queue, few),
        "Ticker(ZeroBackOff())": partial(thread_ticker, many),
    }
    compare("threads, no delay", threads, chosen.rounds)
    loops = {
        "asyncio.sleep(0)": partial(loop_sleep, some),
        "AsyncTicker(ZeroBackOff())": partial(loop_ticker, some),
    }
    compare("event loop, no delay", loops, chosen.rounds)
    turns = 1 if chosen.quick else 15
    for kind in (Ticker, AsyncTicker):
        for interval in INTERVALS:
            measured = [lateness(kind, interval, turns) for _ in range(chosen.rounds)]
            show(f"{interval * 1e3:g} ms asked, late by", measured)


if __name__ == "__main__":
    main()

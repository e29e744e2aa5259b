"""Channels beside the queues of others, between threads and event loops; and an idle select.

A burst: one sender and one reader at work at once; a sender in a loop gives way each 100 items.
A wake-up: from just before the send until the reader, asleep before, runs.

On a busy machine trust the CPU: what takes a millisecond slips in between other jobs, what takes
long shares with them, although bursts are repeated until they took 40 ms.
Run as ``python -m tests.benchmarks.channels`` from the project's root.
"""

import asyncio
import math
import time
from contextlib import suppress
from time import perf_counter, process_time

from backoff_ticker import AsyncTicker, ConstantBackOff, Ticker, select, select_async
from tests.benchmarks._measures import defined, percentiles
from tests.benchmarks._queues import MAKERS, installed
from tests.benchmarks._table import compare, interleaved, options, show

TOGETHER = 100
PAUSE = 0.001
SETTLED = 0.002

WAYS = {
    "thread -> thread": (("send", "receive"), "queue.SimpleQueue", "queue.Queue"),
    "thread -> loop": (("send", "receive_async"), "asyncio.Queue", "janus.Queue"),
    "loop -> thread": (("send_async", "receive"), "queue.SimpleQueue", "janus.Queue"),
    "loop -> loop": (("send_async", "receive_async"), "asyncio.Queue", "asyncio.Queue"),
}
"""Both ends, and what a channel is beside: without a bound, and with one."""


def moment():
    """Return what the clock shows, and the CPU time used."""
    return perf_counter(), process_time()


BURST = """
ASYNC def send(put, count):
    began = moment()
    for first in range(0, count, TOGETHER):
        for item in range(first, min(first + TOGETHER, count)):
            AWAIT put(item)
        AWAIT give_way(0)
    return began

ASYNC def receive(get, count):
    for _ in range(count):
        AWAIT get()
    return moment()
"""
"""Both ends as fast as they can."""

WAKE_UPS = """
ASYNC def send(put, count):
    for _ in range(count):
        AWAIT sleep(PAUSE)
        AWAIT put(perf_counter())

ASYNC def receive(get, count):
    return [-(AWAIT get()) + perf_counter() for _ in range(count)]
"""
"""The time of each send, and how long ago that was when it came."""

NAMES = {"TOGETHER": TOGETHER, "PAUSE": PAUSE, "moment": moment, "perf_counter": perf_counter}


async def at_once(made, way, source, count):
    """Run a sender and a reader at once; return what they return."""

    def begin(end):
        awaits, method = end.endswith("_async"), getattr(made, end)
        sleeps = {"sleep": asyncio.sleep if awaits else time.sleep}
        sleeps["give_way"] = asyncio.sleep if awaits else int  # only a loop has to
        work = defined(end.removesuffix("_async"), source, awaits, **NAMES, **sleeps)
        return work(method, count) if awaits else asyncio.to_thread(work, method, count)

    send, receive = way
    reading = asyncio.create_task(begin(receive))
    await asyncio.sleep(SETTLED)
    sending = asyncio.create_task(begin(send))
    return [await sending, await reading]


async def burst(name, capacity, way, count, enough):
    """Return what an item costs, of bursts that take ``enough`` seconds together."""
    made = MAKERS[name](capacity)
    items, wall, cpu = 0, 0.0, 0.0
    while not items or wall < enough:
        (began, cpu_before), (ended, cpu_after) = await at_once(made, way, BURST, count)
        items, wall, cpu = items + count, wall + ended - began, cpu + cpu_after - cpu_before
    await made.close()
    return {"ns an item": wall / items * 1e9, "CPU ns an item": cpu / items * 1e9}


async def wake_ups(name, capacity, way, count):
    """Return how long a sleeping reader takes to run."""
    made = MAKERS[name](capacity)
    late = (await at_once(made, way, WAKE_UPS, count))[1]
    await made.close()
    return percentiles(late)


async def idle_select(kind, count, seconds):
    """Wait for tickers that do not tick."""
    tickers = [kind(ConstantBackOff(3600)) for _ in range(count)]
    for ticker in tickers:
        ticker.receive_nowait()
    cpu = process_time()
    with suppress(TimeoutError):
        if kind is Ticker:
            await asyncio.to_thread(select, *tickers, timeout=seconds)
        else:
            await select_async(*tickers, timeout=seconds)
    return {"CPU ms": (process_time() - cpu) * 1e3}


def in_loop(measure, *arguments):
    """Return what measures in a loop of its own."""
    return lambda: asyncio.run(measure(*arguments))


def beside(title, peers, capacity, measure, sizes, rounds):
    """Print a channel beside each of its peers; a rendezvous as well, where there is room for 1."""
    own = {f"Channel({room:g})": room for room in ([1, 0] if capacity == 1 else [capacity])}
    others = {name: in_loop(measure, name, capacity, *sizes) for name in installed(peers)}
    runs = others | {name: in_loop(measure, "Channel", room, *sizes) for name, room in own.items()}
    measured = interleaved(runs, rounds)
    for peer in others:
        show(f"{title}, room for {capacity:g}", measured, [peer, *own])


def main():
    chosen = options(__doc__, rounds=5)
    quick, rounds = chosen.quick, chosen.rounds
    for capacity, count in ((math.inf, 20_000), (128, 2_560), (1, 500)):
        sizes = (count // 50, 0.0) if quick else (count, 0.04)
        for title, (way, of_any, of_some) in WAYS.items():
            peers = [of_any, "aiologic.SimpleQueue"] if capacity == math.inf else [of_some]
            beside(f"burst, {title}", peers, capacity, burst, (way, *sizes), rounds)
    for title, (way, of_any, _) in WAYS.items():
        peers = of_any, "aiologic.SimpleQueue"
        beside(f"wake-up, {title}", peers, math.inf, wake_ups, (way, 5 if quick else 50), rounds)
    subjects = {
        f"{kind.__name__}, {count:,}, {seconds:g} s": in_loop(idle_select, kind, count, seconds)
        for kind in (Ticker, AsyncTicker)
        for count in (1, 10 if quick else 1_000)
        for seconds in (0.001, 0.02 if quick else 0.5)
    }
    compare("select over idle tickers", subjects, min(rounds, 3))


if __name__ == "__main__":
    main()

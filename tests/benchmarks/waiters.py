"""Crowds that wait for one thing: what waking them costs, and that each costs the same.

A cancel: times from the start of the call: when it returns, when the first and the last waiter
runs. Readers of one ticker that time out, or take its ticks in turn; senders that are cancelled
while they wait for room; callbacks on one deadline: CPU time, a piece.
Run as ``python -m tests.benchmarks.waiters`` from the project's root.
"""

import asyncio
import threading
import time
from contextlib import suppress
from functools import partial

from backoff_ticker import AsyncTicker, CancellationToken, Channel, ConstantBackOff, Ticker
from tests.benchmarks._table import compare, options

FAR = 3600.0
SOON = 0.2
STEP = 0.002


def woken(wake, crowd, times):
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


def threads(count, kind):
    """Let ``count`` threads wait for an event or a token, and wake them."""
    thing, waiting, times = kind(), [], []

    def run():
        waiting.append(None)
        thing.wait()
        times.append(time.perf_counter())

    started = [threading.Thread(target=run) for _ in range(count)]
    for thread in started:
        thread.start()
    while len(waiting) < count:
        time.sleep(0.01)
    time.sleep(0.05 + count / 20_000)
    return woken(thing.set if kind is threading.Event else thing.cancel, started, times)


def coroutines(count, kind):
    """Let ``count`` tasks of a loop wait for an event or a token, and wake them from a thread."""
    ready, times, wakes = threading.Event(), [], []

    async def run():
        thing, loop = kind(), asyncio.get_running_loop()
        is_event = kind is asyncio.Event
        wakes.append(partial(loop.call_soon_threadsafe, thing.set) if is_event else thing.cancel)
        wait = thing.wait if is_event else thing.wait_async

        async def one():
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


def forwardings(count):
    """Send ``count`` tickers to a channel each, and cancel their token, which closes all."""
    token = CancellationToken()
    sinks = [Channel(1) for _ in range(count)]
    for sink in sinks:
        Ticker(ConstantBackOff(FAR), token=token).send_to(sink)
    while not all(map(len, sinks)):
        time.sleep(0.01)
    start = time.perf_counter()
    token.cancel()
    returned = time.perf_counter()
    while not all(sink.closed for sink in sinks):
        time.sleep(0.001)
    last = time.perf_counter()
    return {"call us": (returned - start) * 1e6, "last us": (last - start) * 1e6}


def cost(start, count):
    """Return the CPU time since ``start``, a piece."""
    return {"us CPU a piece": (time.process_time() - start) / count * 1e6}


async def _time_out(count, wait):
    async def run():
        with suppress(TimeoutError):
            await wait()

    start = time.process_time()
    await asyncio.gather(*(run() for _ in range(count)))
    return cost(start, count)


async def event_times_out(count):
    event = asyncio.Event()

    async def wait():
        async with asyncio.timeout(SOON):
            await event.wait()

    return await _time_out(count, wait)


async def ticker_times_out(count):
    ticker = AsyncTicker(ConstantBackOff(FAR))
    await ticker.receive()
    return await _time_out(count, lambda: ticker.receive(SOON))


async def _ticks(count, seconds, wait):
    seen = 0

    async def run():
        nonlocal seen
        while True:
            await wait()
            seen += 1

    tasks = [asyncio.create_task(run()) for _ in range(count)]
    await asyncio.sleep(seconds / 4)
    seen, start = 0, time.process_time()
    await asyncio.sleep(seconds)
    found = cost(start, max(seen, 1))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return found


async def queue_in_turn(count, seconds):
    queue = asyncio.Queue()

    async def put():
        while True:
            await asyncio.sleep(STEP)
            queue.put_nowait(None)

    putting = asyncio.create_task(put())
    found = await _ticks(count, seconds, queue.get)
    putting.cancel()
    return found


async def ticks_in_turn(count, seconds):
    return await _ticks(count, seconds, AsyncTicker(ConstantBackOff(STEP)).receive)


async def _cancelled(count, wait):
    tasks = [asyncio.create_task(wait()) for _ in range(count)]
    await asyncio.sleep(0)
    start = time.process_time()
    for task in reversed(tasks):
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return cost(start, count)


async def event_cancelled(count):
    return await _cancelled(count, lambda: asyncio.Event().wait())


async def senders_cancelled(count):
    channel = Channel(1)
    channel.send_nowait(0)
    return await _cancelled(count, lambda: channel.send_async(1))


async def timers_of_the_loop(count):
    loop, start = asyncio.get_running_loop(), time.process_time()
    handles = [loop.call_later(FAR, int) for _ in range(count)]
    for handle in handles:
        handle.cancel()
    return cost(start, count)


async def callbacks_on_a_deadline(count):
    token, start = CancellationToken().child(timeout=FAR), time.process_time()
    handles = [token.on_cancel(int) for _ in range(count)]
    for handle in handles:
        handle.remove()
    return cost(start, count)


def main():
    chosen = options(__doc__, rounds=7, huge="also 10,000 threads, in one round")
    threading.stack_size(256 * 1024)
    for count in [5] if chosen.quick else [100] + [10_000] * chosen.huge:
        subjects = {
            "threading.Event": partial(threads, count, threading.Event),
            "token": partial(threads, count, CancellationToken),
        }
        rounds = 1 if count > 100 else chosen.rounds
        compare(f"a cancel wakes {count:,} threads, rounds: {rounds}", subjects, rounds)
    count = 10 if chosen.quick else 10_000
    subjects = {
        "asyncio.Event": partial(coroutines, count, asyncio.Event),
        "token": partial(coroutines, count, CancellationToken),
        "token, tickers sent to channels": partial(forwardings, count),
    }
    compare(f"a cancel wakes {count:,} coroutines", subjects, chosen.rounds)
    crowds = [1, 20] if chosen.quick else [1, 100, 4_000]
    senders = 50 if chosen.quick else 40_000
    callbacks = 50 if chosen.quick else 10_000
    seconds = 0.05 if chosen.quick else 1.0

    def beside(title, *sizes, **measures):
        subjects = {
            name: lambda measure=measure: asyncio.run(measure(*sizes))
            for name, measure in measures.items()
        }
        compare(title, subjects, chosen.rounds)

    for count in crowds[1:]:
        beside(f"{count:,} time out", count, event=event_times_out, ticker=ticker_times_out)
    for count in crowds:
        title = f"one of {count:,} takes a tick"
        beside(title, count, seconds, queue=queue_in_turn, ticker=ticks_in_turn)
    title = f"{senders:,} cancelled, last first"
    beside(title, senders, event_each=event_cancelled, channel=senders_cancelled)
    title = f"{callbacks:,} callbacks"
    beside(title, callbacks, call_later=timers_of_the_loop, on_cancel=callbacks_on_a_deadline)


if __name__ == "__main__":
    main()

"""Crowds that wait for one thing: each of them costs the same, however many there are.

Readers of one ticker that time out, or take its ticks in turn; senders that are cancelled while
they wait for room; callbacks on one deadline. CPU time, a piece.
Run as ``python -m tests.benchmarks.waiters`` from the project's root.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from backoff_ticker import AsyncTicker, CancellationToken, Channel, ConstantBackOff
from tests.benchmarks._table import interleaved, options, show

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    Wait = Callable[[], Awaitable[object]]

FAR = 3600.0
SOON = 0.2
STEP = 0.002


def cost(start: float, count: int) -> dict[str, float]:
    """Return the CPU time since ``start``, a piece."""
    return {"us CPU a piece": (time.process_time() - start) / count * 1e6}


# Readers


async def _time_out(count: int, wait: Wait) -> dict[str, float]:
    async def run() -> None:
        try:
            await wait()
        except TimeoutError:
            pass

    start = time.process_time()
    await asyncio.gather(*(run() for _ in range(count)))
    return cost(start, count)


async def event_times_out(count: int) -> dict[str, float]:
    """Coroutines that wait for an event until a time-out."""
    event = asyncio.Event()

    async def wait() -> None:
        async with asyncio.timeout(SOON):
            await event.wait()

    return await _time_out(count, wait)


async def ticker_times_out(count: int) -> dict[str, float]:
    """Readers of one ticker that time out."""
    ticker = AsyncTicker(ConstantBackOff(FAR))
    await ticker.receive()
    return await _time_out(count, lambda: ticker.receive(SOON))


async def _ticks(count: int, seconds: float, wait: Wait) -> dict[str, float]:
    seen = 0

    async def run() -> None:
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


async def queue_in_turn(count: int, seconds: float) -> dict[str, float]:
    """Tasks that get an item from an ``asyncio.Queue``, each 2 ms one of them."""
    queue: asyncio.Queue[None] = asyncio.Queue()

    async def put() -> None:
        while True:
            await asyncio.sleep(STEP)
            queue.put_nowait(None)

    putting = asyncio.create_task(put())
    found = await _ticks(count, seconds, queue.get)
    putting.cancel()
    return found


async def ticks_in_turn(count: int, seconds: float) -> dict[str, float]:
    """Readers of one ticker, each 2 ms one of them gets the tick."""
    return await _ticks(count, seconds, AsyncTicker(ConstantBackOff(STEP)).receive)


# Senders


async def _cancelled(count: int, wait: Wait) -> dict[str, float]:
    async def run() -> None:
        await wait()

    tasks = [asyncio.create_task(run()) for _ in range(count)]
    await asyncio.sleep(0)
    start = time.process_time()
    for task in reversed(tasks):
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return cost(start, count)


async def event_cancelled(count: int) -> dict[str, float]:
    """Tasks that wait for an event, each for its own, cancelled last first."""
    return await _cancelled(count, lambda: asyncio.Event().wait())


async def senders_cancelled(count: int) -> dict[str, float]:
    """Tasks that wait for room in one channel, cancelled last first."""
    channel: Channel[int] = Channel(1)
    channel.send_nowait(0)
    return await _cancelled(count, lambda: channel.send_async(1))


# Callbacks


async def timers_of_the_loop(count: int) -> dict[str, float]:
    """Callbacks that the loop will call, set and cancelled."""
    loop, start = asyncio.get_running_loop(), time.process_time()
    handles = [loop.call_later(FAR, int) for _ in range(count)]
    for handle in handles:
        handle.cancel()
    return cost(start, count)


async def callbacks_on_a_deadline(count: int) -> dict[str, float]:
    """Callbacks on the deadline of one token, registered and removed."""
    token, start = CancellationToken().child(timeout=FAR), time.process_time()
    handles = [token.on_cancel(int) for _ in range(count)]
    for handle in handles:
        handle.remove()
    return cost(start, count)


def run(main: Callable[..., Coroutine[object, object, dict[str, float]]], *args: float) -> object:
    """Return what measures ``main(*args)``."""
    return lambda: asyncio.run(main(*args))


def main() -> None:
    """Print a table for each kind of crowd."""
    chosen = options(__doc__, rounds=5)
    crowds = [1, 20] if chosen.quick else [1, 100, 4_000]
    senders = 50 if chosen.quick else 40_000
    callbacks = 50 if chosen.quick else 10_000
    seconds = 0.05 if chosen.quick else 1.0
    tables = {
        "readers that time out": [
            (f"{count:,} in {name}", run(subject, count))
            for count in crowds[1:]
            for name, subject in (
                ("asyncio.Event, asyncio.timeout", event_times_out),
                ("AsyncTicker.receive(timeout)", ticker_times_out),
            )
        ],
        "one reader of many takes a tick": [
            (f"{count:,} in {name}", run(subject, count, seconds))
            for count in crowds
            for name, subject in (
                ("asyncio.Queue.get", queue_in_turn),
                ("AsyncTicker.receive", ticks_in_turn),
            )
        ],
        f"{senders:,} cancelled, last first": [
            ("asyncio.Event, one each", run(event_cancelled, senders)),
            ("Channel.send_async", run(senders_cancelled, senders)),
        ],
        f"{callbacks:,} callbacks": [
            ("loop.call_later", run(timers_of_the_loop, callbacks)),
            ("token.on_cancel, one deadline", run(callbacks_on_a_deadline, callbacks)),
        ],
    }
    for title, subjects in tables.items():
        show(title, interleaved(dict(subjects), chosen.rounds))  # type: ignore[arg-type]


if __name__ == "__main__":
    main()

"""Items on their way through a queue: what they cost, and how soon a sleeping reader has one."""

from __future__ import annotations

import asyncio
import inspect
import time
from time import perf_counter, process_time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from tests.benchmarks._queues import Ends, Subject

    Moment = tuple[float, float]
    Pair = tuple[str, str]

TOGETHER = 100
PAUSE = 0.001
SETTLED = 0.002


def moment() -> Moment:
    """Return what the clock shows, and the CPU time used."""
    return perf_counter(), process_time()


def send_all(send: Callable, count: int) -> Moment:
    """Send, in a thread; return when it began."""
    began = moment()
    for item in range(count):
        send(item)
    return began


async def send_all_async(send: Callable, count: int) -> Moment:
    """Send, in a loop."""
    began = moment()
    for first in range(0, count, TOGETHER):
        for item in range(first, min(first + TOGETHER, count)):
            await send(item)
        await asyncio.sleep(0)
    return began


async def send_all_nowait(send: Callable, count: int) -> Moment:
    """Send, in a loop and without ``await``."""
    began = moment()
    for first in range(0, count, TOGETHER):
        for item in range(first, min(first + TOGETHER, count)):
            send(item)
        await asyncio.sleep(0)
    return began


def receive_all(receive: Callable, count: int) -> Moment:
    """Receive, in a thread; return when it ended."""
    for _ in range(count):
        receive()
    return moment()


async def receive_all_async(receive: Callable, count: int) -> Moment:
    """Receive, in a loop."""
    for _ in range(count):
        await receive()
    return moment()


def send_times(send: Callable, count: int) -> None:
    """Send what time it is, now and then, in a thread."""
    for _ in range(count):
        time.sleep(PAUSE)
        send(perf_counter())


async def send_times_async(send: Callable, count: int) -> None:
    """Send what time it is, now and then, in a loop."""
    for _ in range(count):
        await asyncio.sleep(PAUSE)
        sent = send(perf_counter())
        if inspect.isawaitable(sent):
            await sent


def receive_times(receive: Callable, count: int) -> list[float]:
    """Return how long ago it was sent when each time came, in a thread."""
    return [-receive() + perf_counter() for _ in range(count)]


async def receive_times_async(receive: Callable, count: int) -> list[float]:
    """Return how long ago it was sent when each time came, in a loop."""
    return [-(await receive()) + perf_counter() for _ in range(count)]


BURST = {
    "send": send_all,
    "send_async": send_all_async,
    "send_nowait": send_all_nowait,
    "receive": receive_all,
    "receive_async": receive_all_async,
}
WAKE_UPS = {
    "send": send_times,
    "send_async": send_times_async,
    "send_nowait": send_times_async,
    "receive": receive_times,
    "receive_async": receive_times_async,
}


def fill_and_drain(send: Callable, receive: Callable, count: int, room: int) -> list[Moment]:
    """Send as much as there is room for and receive it, alone in a thread."""
    began = moment()
    for _ in range(count // room):
        for item in range(room):
            send(item)
        for _ in range(room):
            receive()
    return [began, moment()]


async def fill_and_drain_async(
    send: Callable, receive: Callable, count: int, room: int
) -> list[Moment]:
    """Send as much as there is room for and receive it, alone in a loop."""
    began = moment()
    for _ in range(count // room):
        for item in range(room):
            await send(item)
        for _ in range(room):
            await receive()
    return [began, moment()]


def begin(work: Callable, *args: object) -> Coroutine:
    """Return what runs ``work`` where it belongs: in this loop or in another thread."""
    in_loop = inspect.iscoroutinefunction(work)
    return work(*args) if in_loop else asyncio.to_thread(work, *args)


async def _at_once(made: Ends, ends: Pair, works: Mapping[str, Callable], count: int) -> list:
    sender, reader = (getattr(made, end) for end in ends)
    send, receive = (works[end] for end in ends)
    reading = asyncio.create_task(begin(receive, reader, count))
    await asyncio.sleep(SETTLED)
    sending = asyncio.create_task(begin(send, sender, count))
    return [await sending, await reading]


async def _alone(made: Ends, ends: Pair, count: int, room: int) -> list[Moment]:
    send, receive = (getattr(made, end) for end in ends)
    work = fill_and_drain if ends[0] == "send" else fill_and_drain_async
    return await begin(work, send, receive, count, room)


async def _repeat(subject: Subject, run: Callable, enough: float) -> tuple[int, float, float]:
    """Repeat a run until it took ``enough`` seconds; return how often, the seconds, and the CPU."""
    made = subject()
    times, wall, cpu = 0, 0.0, 0.0
    while not times or wall < enough:
        (began, cpu_before), (ended, cpu_after) = await run(made)
        times, wall, cpu = times + 1, wall + ended - began, cpu + cpu_after - cpu_before
    await made.close()
    return times, wall, cpu


def _cost(subject: Subject, run: Callable, count: int, enough: float) -> dict[str, float]:
    times, wall, cpu = asyncio.run(_repeat(subject, run, enough))
    items = times * count
    return {"ns an item": wall / items * 1e9, "CPU ns an item": cpu / items * 1e9}


def burst(subject: Subject, ends: Pair, count: int, enough: float) -> dict[str, float]:
    """Measure a sender and a reader at work at once."""
    return _cost(subject, lambda made: _at_once(made, ends, BURST, count), count, enough)


def alone(subject: Subject, ends: Pair, count: int, enough: float) -> dict[str, float]:
    """Measure one thread or task that fills it and drains it."""
    room = int(min(count, subject.capacity))
    count -= count % room
    return _cost(subject, lambda made: _alone(made, ends, count, room), count, enough)


async def _wake_ups(subject: Subject, ends: Pair, count: int) -> list[float]:
    made = subject()
    late = (await _at_once(made, ends, WAKE_UPS, count))[1]
    await made.close()
    return late


def wake_ups(subject: Subject, ends: Pair, count: int, late: list[float]) -> dict[str, float]:
    """Add to ``late`` how long a sleeping reader took to run; there is no figure yet."""
    late += asyncio.run(_wake_ups(subject, ends, count))
    return {}

"""Channels beside the queues of others, between threads and event loops; and what a select costs.

A burst: one sender and one reader at work at once; a sender in a loop gives way each 100 items.
Filled, then drained: one thread or one task alone puts as much as there is room for and takes it
again. A wake-up: from just before the send until the reader, asleep before, runs; over all rounds.
A thread that may not be interrupted for 5 ms sends thousands of items at one go, so a burst between
threads costs a fast queue little more than to be filled and drained.
Run as ``python -m tests.benchmarks.channels`` from the project's root.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import time
from time import perf_counter
from typing import TYPE_CHECKING

from tests.benchmarks import _selects
from tests.benchmarks._queues import CHANNEL, installed
from tests.benchmarks._table import interleaved, options, show

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from tests.benchmarks._queues import Subject

    Rounds = Sequence[Mapping[str, dict[str, float]]]

TOGETHER = 100
PAUSE = 0.001
SETTLED = 0.002
SIZES = {(math.inf,): 20_000, (128,): 2_560, (0, 1): 500}

FAST, ASYNCIO, AIOLOGIC = (
    f"{name}(inf)" for name in ("queue.SimpleQueue", "asyncio.Queue", "aiologic.SimpleQueue")
)
WAYS = {
    "thread -> thread": ("send", "receive"),
    "thread -> loop": ("send", "receive_async"),
    "loop -> thread": ("send_async", "receive"),
    "loop -> thread, sent without await": ("send_nowait", "receive"),
    "loop -> loop": ("send_async", "receive_async"),
    "loop -> loop, sent without await": ("send_nowait", "receive_async"),
}
ALONE = {
    "by a thread": ("send", "receive"),
    "by a task": ("send_async", "receive_async"),
}
BESIDE = {
    "thread -> thread": {FAST: "<= 3x; 1.6x", AIOLOGIC: "<= 1x"},
    "thread -> loop": {ASYNCIO: "<= 0.8x; 0.5x", AIOLOGIC: "<= 0.8x; 0.5x"},
    "loop -> thread": {AIOLOGIC: "<= 0.8x; 0.5x"},
    "loop -> loop": {ASYNCIO: "<= 0.8x; 0.5x", AIOLOGIC: "<= 0.8x; 0.5x"},
}
WOKEN_BESIDE = {
    "thread -> thread": {FAST: "<= 1.2x; 1x"},
    "thread -> loop": {ASYNCIO: "<= 1.2x; 1x"},
    "loop -> thread": {FAST: "<= 1.2x; 1x"},
    "loop -> loop": {ASYNCIO: "<= 1.2x; 1x"},
}


def send_all(send: Callable, count: int) -> float:
    """Send, in a thread; return when it began."""
    began = perf_counter()
    for item in range(count):
        send(item)
    return began


async def send_all_async(send: Callable, count: int) -> float:
    """Send, in a loop."""
    began = perf_counter()
    for first in range(0, count, TOGETHER):
        for item in range(first, min(first + TOGETHER, count)):
            await send(item)
        await asyncio.sleep(0)
    return began


async def send_all_nowait(send: Callable, count: int) -> float:
    """Send, in a loop and without ``await``."""
    began = perf_counter()
    for first in range(0, count, TOGETHER):
        for item in range(first, min(first + TOGETHER, count)):
            send(item)
        await asyncio.sleep(0)
    return began


def receive_all(receive: Callable, count: int) -> float:
    """Receive, in a thread; return when it ended."""
    for _ in range(count):
        receive()
    return perf_counter()


async def receive_all_async(receive: Callable, count: int) -> float:
    """Receive, in a loop."""
    for _ in range(count):
        await receive()
    return perf_counter()


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


def begin(work: Callable, *args: object) -> Coroutine[object, object, object]:
    """Return what runs ``work`` where it belongs: in this loop or in another thread."""
    in_loop = inspect.iscoroutinefunction(work)
    return work(*args) if in_loop else asyncio.to_thread(work, *args)


async def _at_once(subject: Subject, ends: tuple[str, str], works: Mapping, count: int) -> list:
    made = subject()
    sender, reader = (getattr(made, end) for end in ends)
    send, receive = (works[end] for end in ends)
    reading = asyncio.create_task(begin(receive, reader, count))
    await asyncio.sleep(SETTLED)
    sending = asyncio.create_task(begin(send, sender, count))
    answers = [await sending, await reading]
    await made.close()
    return answers


def burst(subject: Subject, ends: tuple[str, str], count: int) -> dict[str, float]:
    """Measure a sender and a reader at work at once."""
    began, ended = asyncio.run(_at_once(subject, ends, BURST, count))
    return {"ns an item": (ended - began) / count * 1e9}


def wake_ups(
    subject: Subject, ends: tuple[str, str], count: int, late: list[float]
) -> dict[str, float]:
    """Add to ``late`` how long a sleeping reader took to run."""
    late += asyncio.run(_at_once(subject, ends, WAKE_UPS, count))[1]
    return {}


def fill_and_drain(send: Callable, receive: Callable, count: int, room: int) -> float:
    """Send as much as there is room for and receive it, alone in a thread."""
    began = perf_counter()
    for _ in range(count // room):
        for item in range(room):
            send(item)
        for _ in range(room):
            receive()
    return perf_counter() - began


async def fill_and_drain_async(send: Callable, receive: Callable, count: int, room: int) -> float:
    """Send as much as there is room for and receive it, alone in a loop."""
    began = perf_counter()
    for _ in range(count // room):
        for item in range(room):
            await send(item)
        for _ in range(room):
            await receive()
    return perf_counter() - began


async def _alone(subject: Subject, ends: tuple[str, str], count: int) -> float:
    made = subject()
    send, receive = (getattr(made, end) for end in ends)
    room = int(min(count, subject.capacity))
    work = fill_and_drain if ends[0] == "send" else fill_and_drain_async
    passed = await begin(work, send, receive, count, room)
    await made.close()
    return passed / (count // room * room)


def alone(subject: Subject, ends: tuple[str, str], count: int) -> dict[str, float]:
    """Measure one thread or task that fills it and drains it."""
    return {"ns an item": asyncio.run(_alone(subject, ends, count)) * 1e9}


def able(subjects: Mapping[str, Subject], ends: tuple[str, str]) -> dict[str, Subject]:
    """Return those that have both ends; only what is unbounded always has room for a nowait."""
    return {
        name: subject
        for name, subject in subjects.items()
        if all(getattr(subject.ends, end) is not None for end in ends)
        and ("send_nowait" not in ends or subject.capacity == math.inf)
    }


def compare(title: str, measured: Rounds, beside: Mapping[str, str]) -> None:
    """Print all beside the first that is named, and our own beside each of the others."""
    names = list(measured[0])
    own = [name for name in names if name.startswith(CHANNEL)]
    bases = [name for name in beside if name in names] or names[:1]
    for base in bases:
        others = own if base is not bases[0] else [name for name in names if name != base]
        goals = {
            (name, figure): beside[base]
            for name in own
            for figure in measured[0][name]
            if base in beside and "p99" not in figure and not name.endswith("(0)")
        }
        if others:
            show(title, measured, goals, only=(base, *others))


def throughput(subjects: Mapping[str, Subject], count: int, rounds: int) -> None:
    """Print what an item costs, for each way and alone."""
    for title, ways, run in (("burst, ", WAYS, burst), ("filled, then drained ", ALONE, alone)):
        for way, ends in ways.items():
            runs = {
                name: lambda each=each, run=run, ends=ends: run(each, ends, count)
                for name, each in able(subjects, ends).items()
                if run is burst or each.capacity
            }
            if runs:
                unbounded = BESIDE.get(way, {})
                compare(title + way, interleaved(runs, rounds), unbounded)


def latency(subjects: Mapping[str, Subject], count: int, rounds: int) -> None:
    """Print when a sleeping reader runs, for each way."""
    for way, beside in WOKEN_BESIDE.items():
        sender, reader = WAYS[way]
        late: dict[str, list[float]] = {}
        runs = {}
        for ends in ((sender, reader), (sender.replace("async", "nowait"), reader)):
            for name, each in able(subjects, ends).items():
                if name not in late:
                    late[name] = []
                    runs[name] = lambda each=each, ends=ends, all_of_it=late[name]: wake_ups(
                        each, ends, count, all_of_it
                    )
        interleaved(runs, rounds)
        figures = {}
        for name, times in late.items():
            times.sort()
            figures[name] = {
                "p50 us": times[len(times) // 2] * 1e6,
                "p99 us": times[len(times) * 99 // 100] * 1e6,
            }
        compare(f"wake-up, {way}", [figures], beside)


def main() -> None:
    """Print a table for each way and each kind of capacity, and those of ``select``."""
    chosen = options(__doc__, rounds=5)
    everything = installed()
    for capacities, count in SIZES.items():
        subjects = {name: each for name, each in everything.items() if each.capacity in capacities}
        throughput(subjects, count // 50 if chosen.quick else count, chosen.rounds)
    subjects = {name: each for name, each in everything.items() if each.capacity in (0, math.inf)}
    latency(subjects, 5 if chosen.quick else 50, chosen.rounds)
    _selects.main(chosen.rounds, quick=chosen.quick)


if __name__ == "__main__":
    main()

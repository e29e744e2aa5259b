"""Channels beside the queues of others, between threads and event loops; and what a select costs.

A burst: one sender and one reader at work at once; a sender in a loop gives way each 100 items.
Filled, then drained: one thread or one task alone puts as much as there is room for and takes it
again. A wake-up: from just before the send until the reader, asleep before, runs; over all rounds.

On a busy machine trust the CPU: what takes a millisecond slips in between other jobs, what takes
long shares with them, although bursts are repeated until they took 40 ms. A thread keeps the
interpreter for 5 ms, so a burst between threads costs a fast queue little more than filled, then
drained.
Run as ``python -m tests.benchmarks.channels`` from the project's root.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tests.benchmarks import _selects
from tests.benchmarks._queues import CHANNEL, installed
from tests.benchmarks._table import interleaved, options, show
from tests.benchmarks._traffic import alone, burst, wake_ups

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.benchmarks._queues import Subject

    Rounds = Sequence[Mapping[str, dict[str, float]]]

ENOUGH = 0.04
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


def throughput(subjects: Mapping[str, Subject], count: int, enough: float, rounds: int) -> None:
    """Print what an item costs, for each way and alone."""
    for title, ways, run in (("burst, ", WAYS, burst), ("filled, then drained ", ALONE, alone)):
        for way, ends in ways.items():
            runs = {
                name: lambda each=each, run=run, ends=ends: run(each, ends, count, enough)
                for name, each in able(subjects, ends).items()
                if run is burst or each.capacity
            }
            if runs:
                compare(title + way, interleaved(runs, rounds), BESIDE.get(way, {}))


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
        size = (count // 50, 0.0) if chosen.quick else (count, ENOUGH)
        throughput(subjects, *size, chosen.rounds)
    subjects = {name: each for name, each in everything.items() if each.capacity in (0, math.inf)}
    latency(subjects, 5 if chosen.quick else 50, chosen.rounds)
    _selects.main(chosen.rounds, quick=chosen.quick)


if __name__ == "__main__":
    main()

"""What a second thread adds, to be run on an interpreter with the global lock and on one without.

Thousand operations a second of one thread, of two threads that share nothing, and of two threads
that use one object. The bare loops, which use no object at all, show what the machine gives a
second thread: their ratio is what the others can reach. An operation on a queue or channel is a
send and a receive, by the same thread for one thread and different objects, and on one object by a
sender and a receiver, so that this is half of the calls for each. With room for three items, one
sends three and receives three.

On a busy machine, or one of two cores, compare within a run only.
Run as ``python -m tests.benchmarks.without_the_lock`` from the project's root.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING

from backoff_ticker import CancellationToken, Ticker, ZeroBackOff, retry
from tests.benchmarks._queues import MAKERS, installed
from tests.benchmarks._table import compare, options, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.benchmarks._queues import Ends

    Work = Callable[[int], object]
    Pair = tuple[Work, Work]

SIMPLE = ("queue.SimpleQueue", "Channel")
"""Those that are fast where there is always room."""


def seconds(count: int, *makes: Callable[[], Work]) -> float:
    """Return how long the threads take that do ``count`` operations each, from a common start.

    Each makes its work, and so its objects, itself.
    """
    begin = threading.Barrier(len(makes) + 1)

    def run(make: Callable[[], Work]) -> None:
        work = make()
        begin.wait()
        work(count)

    threads = [threading.Thread(target=run, args=(make,)) for make in makes]
    for thread in threads:
        thread.start()
    begin.wait()
    start = time.perf_counter()
    for thread in threads:
        thread.join()
    return time.perf_counter() - start


class Subject:
    """Something to be used by one thread and by two.

    Args:
        make: Makes an object and returns what a thread does with it.
        share: Makes one and returns what each of two threads does with it. None: the same.
    """

    def __init__(self, make: Callable[[], Work], share: Callable[[], Pair] | None = None) -> None:
        self._make = make
        self._share = share or self._twice
        self._operations_of_two = 1 if share else 2

    def _twice(self) -> Pair:
        work = self._make()
        return work, work

    def __call__(self, count: int) -> dict[str, float]:
        """Measure the three ways, in thousand operations a second."""
        alone = count / seconds(count, self._make)
        apart = 2 * count / seconds(count, self._make, self._make)
        one, other = self._share()
        shared = self._operations_of_two * count / seconds(count, lambda: one, lambda: other)
        return {
            "one thread": alone / 1_000,
            "two threads, two objects": apart / 1_000,
            "gain": apart / alone,
            "two threads, one object": shared / 1_000,
        }


def bare_loop(step: str) -> Work:
    """Return a loop of its own, compiled anew, so that two threads share nothing of it."""
    found: dict[str, Work] = {}
    code = f"def work(count):\n    x, y = 0, [0]\n    for _ in range(count):\n        {step}"
    exec(code, found)
    return found["work"]


def queue_subject(make: Callable[[], Ends], room: int) -> Subject:
    """Return a queue filled and drained by its thread, or used by a sender and a receiver."""

    def alone() -> Work:
        made = make()
        return partial(fill_and_drain, made.send, made.receive, room)

    def shared() -> Pair:
        made = make()
        return partial(send_all, made.send), partial(receive_all, made.receive)

    return Subject(alone, shared)


def fill_and_drain(
    send: Callable[[object], object], receive: Callable[[], object], room: int, count: int
) -> None:
    """Send as much as there is room for and receive it, again and again."""
    for _ in range(count // room):
        for item in range(room):
            send(item)
        for _ in range(room):
            receive()


def send_all(send: Callable[[object], object], count: int) -> None:
    for item in range(count):
        send(item)


def receive_all(receive: Callable[[], object], count: int) -> None:
    for _ in range(count):
        receive()


def ticks() -> Work:
    """Return what reads a ticker with zero back-off."""
    ticker = Ticker(ZeroBackOff())

    def read(count: int) -> None:
        for _ in zip(repeat(None, count), ticker, strict=False):
            pass

    return read


def looks() -> Work:
    """Return what looks whether a token is cancelled."""
    token = CancellationToken()

    def look(count: int) -> None:
        for _ in range(count):
            token.cancelled  # noqa: B018 - what is measured

    return look


def children() -> Work:
    """Return what makes a child of a token and drops it."""
    token = CancellationToken()

    def make(count: int) -> None:
        for _ in range(count):
            token.child()

    return make


def calls() -> Work:
    """Return what calls a function that is decorated with ``retry``, and does not fail."""

    @retry(ZeroBackOff())
    def call() -> None:
        pass

    def call_all(count: int) -> None:
        for _ in range(count):
            call()

    return call_all


def subjects(fast: int, slow: int) -> Iterable[tuple[str, tuple[Subject, int]]]:
    """Yield by name what is measured, with how many operations."""
    for step in ("pass", "x += y[0]"):
        yield f"bare loop: {step}", (Subject(partial(bare_loop, step)), fast * 10)
    for capacity, room, names in (
        (math.inf, 100, (*SIMPLE, "queue.Queue", "culsans.Queue", "aiologic.SimpleQueue")),
        (3, 3, ("queue.Queue", "culsans.Queue", "aiologic.Queue", "Channel")),
    ):
        for name in installed(names):
            count = fast if capacity == math.inf and name in SIMPLE else slow
            make = partial(MAKERS[name], capacity)
            yield f"{name}({capacity:g})", (queue_subject(make, room), count - count % room)
    yield "Ticker(ZeroBackOff())", (Subject(ticks), slow)
    yield "token.cancelled", (Subject(looks), fast * 10)
    yield "token.child()", (Subject(children), slow)
    yield "retry, nothing fails", (Subject(calls), fast)


def main() -> None:
    """Print the table."""
    chosen = options(__doc__, rounds=5)
    fast, slow = (600, 300) if chosen.quick else (60_000, 12_000)
    lock = "with" if getattr(sys, "_is_gil_enabled", lambda: True)() else "without"
    say(f"{lock} the global lock; thousand operations a second")
    measured = {name: partial(subject, count) for name, (subject, count) in subjects(fast, slow)}
    compare("one thread, and two", measured, chosen.rounds, warm_up=not chosen.quick)


if __name__ == "__main__":
    main()

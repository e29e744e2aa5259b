"""What a cancel costs its caller, and when those who wait run again.

Times are from the start of the call: when it returns, when the first and the last waiter runs.
Run as ``python -m tests.benchmarks.cancel`` from the project's root.
"""

from __future__ import annotations

import asyncio
import threading
import time
import timeit
from typing import TYPE_CHECKING

from backoff_ticker import CancellationToken
from tests.benchmarks._table import interleaved, options, show

if TYPE_CHECKING:
    from collections.abc import Callable


def figures(start: float, returned: float, woken: list[float]) -> dict[str, float]:
    """Return the three figures in microseconds."""
    return {
        "call us": (returned - start) * 1e6,
        "first us": (min(woken) - start) * 1e6,
        "last us": (max(woken) - start) * 1e6,
    }


def threads(count: int, wait: Callable[[], object], wake: Callable[[], object]) -> dict[str, float]:
    """Let ``count`` threads ``wait()``, and ``wake()`` them."""
    waiting: list[None] = []
    woken: list[float] = []

    def run() -> None:
        waiting.append(None)
        wait()
        woken.append(time.perf_counter())

    started = [threading.Thread(target=run) for _ in range(count)]
    for thread in started:
        thread.start()
    while len(waiting) < count:
        time.sleep(0.01)
    time.sleep(0.05 + count / 20_000)
    start = time.perf_counter()
    wake()
    returned = time.perf_counter()
    for thread in started:
        thread.join()
    return figures(start, returned, woken)


def event_and_threads(count: int) -> dict[str, float]:
    """Wake threads that wait for an event."""
    event = threading.Event()
    return threads(count, event.wait, event.set)


def token_and_threads(count: int) -> dict[str, float]:
    """Wake threads that wait for a token."""
    token = CancellationToken()
    return threads(count, token.wait, token.cancel)


def coroutines(count: int, make: Callable[[], tuple[Callable, Callable]]) -> dict[str, float]:
    """Let ``count`` tasks of a loop wait, and wake them from another thread."""
    ready = threading.Event()
    woken: list[float] = []
    wakes: list[Callable[[], object]] = []

    async def run() -> None:
        wait, wake = make()
        wakes.append(wake)

        async def one() -> None:
            await wait()
            woken.append(time.perf_counter())

        tasks = [asyncio.create_task(one()) for _ in range(count)]
        await asyncio.sleep(0)
        ready.set()
        await asyncio.gather(*tasks)

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    ready.wait()
    time.sleep(0.05 + count / 50_000)
    start = time.perf_counter()
    wakes[0]()
    returned = time.perf_counter()
    thread.join()
    return figures(start, returned, woken)


def an_event() -> tuple[Callable, Callable]:
    """Return how to wait for an ``asyncio.Event`` and how to set it from another thread."""
    event, loop = asyncio.Event(), asyncio.get_running_loop()
    return event.wait, lambda: loop.call_soon_threadsafe(event.set)


def a_token() -> tuple[Callable, Callable]:
    """Return how to wait for a token and how to cancel it."""
    token = CancellationToken()
    return token.wait_async, token.cancel


def look(expression: str, subject: object, count: int) -> dict[str, float]:
    """Return the nanoseconds of one look, what the loop around it costs subtracted."""
    empty, full = (
        min(timeit.repeat(statement, globals={"subject": subject}, number=count, repeat=5))
        for statement in ("subject", expression)
    )
    return {"ns": (full - empty) / count * 1e9}


def main() -> None:
    """Print a table for each number of waiters, and one for a look at the flag."""
    chosen = options(__doc__, rounds=7, huge="also 10,000 threads, in one round")
    threading.stack_size(256 * 1024)
    goals = {
        1: {("token", "call us"): "<= 0.7x; 0.5x", ("token", "first us"): "<= 0.9x; 0.65x"},
        100: {("token", "call us"): "<= 0.3x; 0.15x"},
        10_000: {("token", "call us"): "<= 50,000; 1,000", ("token", "last us"): "<= 0.3x; 0.15x"},
    }
    crowds = [1, 5] if chosen.quick else [1, 100, 1_000] + [10_000] * chosen.huge
    for count in crowds:
        subjects = {
            "threading.Event": lambda count=count: event_and_threads(count),
            "token": lambda count=count: token_and_threads(count),
        }
        rounds = chosen.rounds if count <= 1_000 else 1
        if count == 1:
            rounds *= 10
        title = f"{count:,} threads wait, rounds: {rounds}"
        show(title, interleaved(subjects, rounds), goals.get(count))

    for count in [1, 10] if chosen.quick else [1, 100, 10_000]:
        subjects = {
            "asyncio.Event": lambda count=count: coroutines(count, an_event),
            "token": lambda count=count: coroutines(count, a_token),
        }
        goal = {("token", "last us"): "<= 1.3x; 1.1x"} if count == 10_000 else {}
        show(f"{count:,} coroutines wait", interleaved(subjects, chosen.rounds), goal)

    number = 10_000 if chosen.quick else 1_000_000
    token = CancellationToken()
    looks = {
        "Event.is_set()": lambda: look("subject.is_set()", threading.Event(), number),
        "token.cancelled": lambda: look("subject.cancelled", token, number),
        "token.cancelled, with a deadline": lambda: look(
            "subject.cancelled", token.child(timeout=3600), number
        ),
    }
    show("cancelled?", interleaved(looks, chosen.rounds))


if __name__ == "__main__":
    main()

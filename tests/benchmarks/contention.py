"""The simulation of contention, beside AWS's simulator.

``backoff-ticker simulate contention`` has one event for each write, and the policies of the
package. The yardstick is the model of https://github.com/aws-samples/aws-arch-backoff-simulator, as
plain as there: an event for each message. Both have five strategies, base 5 ms, cap 2 s, for some
numbers of clients; what they find is compared as well. Run as
``python -m tests.benchmarks.contention`` from the project's root.
"""

from __future__ import annotations

import heapq
import json
import random
import sys
from contextlib import redirect_stdout, suppress
from functools import partial
from io import StringIO
from time import process_time
from typing import TYPE_CHECKING, Any

from backoff_ticker import cli
from tests.benchmarks._table import compare, options

if TYPE_CHECKING:
    from collections.abc import Callable

    Event = tuple[float, Callable[..., Any], Callable[..., Any] | None, Any]

BASE, CAP = 5, 2000


def grown(n: int) -> float:
    return min(CAP, pow(2, n) * BASE)


class Decorrelated:
    def __init__(self) -> None:
        self.delay: float = BASE

    def __call__(self, n: int) -> float:
        self.delay = min(CAP, random.uniform(BASE, self.delay * 3))
        return self.delay


STRATEGIES: dict[str, Callable[[], Callable[[int], float]]] = {
    "none": lambda: lambda n: 0,
    "exponential": lambda: grown,
    "equal": lambda: lambda n: grown(n) / 2 + random.uniform(0, grown(n) / 2),
    "full": lambda: lambda n: random.uniform(0, grown(n)),
    "decorrelated": Decorrelated,
}


def message() -> float:
    """Return how long one takes, in milliseconds."""
    return abs(random.normalvariate(10, 2))


class Row:
    def __init__(self) -> None:
        self.version = self.calls = 0

    def read(self, now: float, event: Event) -> Event:
        return now + message(), event[2], None, self.version

    def write(self, now: float, event: Event) -> Event:
        self.calls += 1
        succeeds = event[3] == self.version
        self.version += succeeds
        return now + message(), event[2], None, succeeds


class Client:
    def __init__(self, row: Row, delay: Callable[[int], float]) -> None:
        self.row, self.delay, self.attempts = row, delay, 0

    def start(self) -> Event:
        return message(), self.row.read, self.has_read, None

    def has_read(self, now: float, event: Event) -> Event:
        return now + message(), self.row.write, self.has_written, event[3]

    def has_written(self, now: float, event: Event) -> Event | None:
        if event[3]:
            return None
        self.attempts += 1
        due = now + message() + self.delay(self.attempts)
        return due, self.row.read, self.has_read, None


def trial(clients: int, strategy: Callable[[], Callable[[int], float]]) -> tuple[int, float]:
    """Return the calls, and the milliseconds, until all clients are done."""
    row = Row()
    queue: list[Event] = []
    for _ in range(clients):
        heapq.heappush(queue, Client(row, strategy()).start())
    now = 0.0
    while queue:
        event = heapq.heappop(queue)
        now = event[0]
        following = event[1](now, event)
        if following is not None:
            heapq.heappush(queue, following)
    return row.calls, now


def yardstick(sizes: list[int], trials: int) -> dict[str, float]:
    """Measure the original's way."""
    began = process_time()
    found = {}
    for clients in sizes:
        for name, strategy in STRATEGIES.items():
            results = [trial(clients, strategy) for _ in range(trials)]
            found[f"{clients} {name}: calls"] = sum(calls for calls, _ in results) / trials
            found[f"{clients} {name}: ms"] = sum(time for _, time in results) / trials
    return {"seconds of CPU": process_time() - began, **found}


def ours(sizes: list[int], trials: int) -> dict[str, float]:
    """Measure the command."""
    began = process_time()
    sys.argv = ["backoff-ticker", "simulate", "contention", "--json", f"--trials={trials}"]
    sys.argv += ["--clients", ",".join(map(str, sizes))]
    with redirect_stdout(StringIO()) as output, suppress(SystemExit):
        cli.main()
    found = {}
    for row in json.loads(output.getvalue())["results"]:
        found[f"{row['clients']} {row['policy']}: calls"] = row["calls"]
        found[f"{row['clients']} {row['policy']}: ms"] = row["time"] * 1000
    return {"seconds of CPU": process_time() - began, **found}


def main() -> None:
    """Print the table."""
    chosen = options(__doc__, rounds=5)
    sizes, trials = ([5], 1) if chosen.quick else ([10, 50, 100, 190], 20)
    subjects = {
        "AWS's simulator": partial(yardstick, sizes, trials),
        "simulate contention": partial(ours, sizes, trials),
    }
    compare(f"{trials} trials", subjects, chosen.rounds, warm_up=True)


if __name__ == "__main__":
    main()

"""When the other processes hear of a cancel over Redis, beside processes that poll for it.

Times are from the start of the cancel to when a thread that waits in the first and in the last of
the processes runs again; It starts a ``redis-server``, and needs redis-py.

Run as ``python -m tests.benchmarks.cancel_everywhere`` from the project's root.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from functools import partial
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks._table import compare, options, say

try:
    from redis import Redis
except ModuleNotFoundError:
    say("redis is not installed: nothing to measure")
    sys.exit()

from backoff_ticker.integrations.redis import RedisCancellationToken
from tests.integrations.redis_server import PROGRAM, RedisServer

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

IDLE = 0.05
KINDS = {
    "redis-py's own subscriber": "bare",
    "RedisCancellationToken": "token",
    "polling every 100 ms": 0.1,
    "polling every second": 1.0,
}


def work(url: str, orders: Connection) -> None:
    """Do what a process does."""
    with Redis.from_url(url, socket_timeout=5) as client:
        wait_for_cancels(client, orders)


def wait_for_cancels(client: Redis, orders: Connection) -> None:
    """Wait for one cancel after another, each as it is ordered; answer when it was heard."""
    while (order := orders.recv()) is not None:
        kind, name = order
        if kind == "token":
            with RedisCancellationToken(client, name) as token:
                orders.send("ready")
                token.wait()
                answer(orders)
        elif kind == "bare":
            pubsub = client.pubsub(ignore_subscribe_messages=True)
            pubsub.subscribe(name)
            pubsub.get_message(timeout=1)
            orders.send("ready")
            while pubsub.get_message(timeout=60) is None:
                pass
            answer(orders)
            pubsub.close()
        else:
            orders.send("ready")
            time.sleep(random.random() * kind)
            while not client.exists(name):
                time.sleep(kind)
            answer(orders)


def answer(orders: Connection) -> None:
    """Say when it was heard; close nothing, which takes processor time, until all have heard it."""
    orders.send(time.monotonic())
    orders.recv()


def main() -> None:
    """Print a table for a few processes, and one for 20."""
    chosen = options(__doc__, rounds=21)
    if PROGRAM is None:
        say("redis-server is not installed: nothing to measure")
        return
    with tempfile.TemporaryDirectory() as folder, RedisServer(Path(folder)) as server:
        for processes in [2] if chosen.quick else [2, 20]:
            with server.client() as client:
                among(server.url, client, processes, chosen.rounds)


def among(url: str, client: Redis, processes: int, rounds: int) -> None:
    """Measure with so many processes."""
    context = get_context("spawn")
    pipes = [context.Pipe() for _ in range(processes)]
    workers = [context.Process(target=work, args=(url, theirs), daemon=True) for _, theirs in pipes]
    for worker in workers:
        worker.start()
    ours = [each for each, _ in pipes]
    numbers = count()

    def measure(kind: str | float) -> dict[str, float]:
        name = f"benchmark-{processes}-{next(numbers)}"
        for each in ours:
            each.send((kind, name))
        for each in ours:
            each.recv()
        with RedisCancellationToken(client, name) as token:
            time.sleep(IDLE)  # all wait by now
            started = time.monotonic()
            if kind == "token":
                token.cancel("stop")
            elif kind == "bare":
                client.publish(name, "stop")
            else:
                client.set(name, "stop")
            heard = [each.recv() - started for each in ours]
            for each in ours:
                each.send("all have heard it")
        return {"first ms": min(heard) * 1e3, "last ms": max(heard) * 1e3}

    subjects = {label: partial(measure, kind) for label, kind in KINDS.items()}
    compare(f"{processes} processes", subjects, rounds, warm_up=True)
    for each in ours:
        each.send(None)
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()

"""When the other processes hear of a cancel over Redis, beside processes that poll for it.

Times are from the start of the cancel to when a thread that waits in the first and in the last of
the processes runs again. It starts a ``redis-server``, and needs redis-py.

Run as ``python -m tests.benchmarks.cancel_everywhere`` from the project's root.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from tests.benchmarks._table import compare, options, say

try:
    from redis import Redis
except ModuleNotFoundError:
    say("redis is not installed: nothing to measure")
    sys.exit()

from backoff_ticker.integrations.redis import RedisCancellationToken
from tests.integrations.fleet import fleet
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
    """Wait for one cancel after another, each as it is ordered; answer when it was heard."""
    with Redis.from_url(url, socket_timeout=5) as client:
        orders.send("ready")
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


def measure(client: Redis, pipes: list[Connection], kind: str | float) -> dict[str, float]:
    name = f"benchmark-{uuid4()}"
    for pipe in pipes:
        pipe.send((kind, name))
    for pipe in pipes:
        pipe.recv()
    with RedisCancellationToken(client, name) as token:
        time.sleep(IDLE)  # all wait by now
        started = time.monotonic()
        if kind == "token":
            token.cancel("stop")
        elif kind == "bare":
            client.publish(name, "stop")
        else:
            client.set(name, "stop")
        heard = [pipe.recv() - started for pipe in pipes]
        for pipe in pipes:
            pipe.send("all have heard it")
    return {"first ms": min(heard) * 1e3, "last ms": max(heard) * 1e3}


def main() -> None:
    """Print a table for a few processes, and one for 20."""
    chosen = options(__doc__, rounds=21)
    if PROGRAM is None:
        say("redis-server is not installed: nothing to measure")
        return
    with tempfile.TemporaryDirectory() as folder, RedisServer(Path(folder)) as server:
        for processes in [2] if chosen.quick else [2, 20]:
            with server.client() as client, fleet(processes, work, server.url) as pipes:
                subjects = {name: partial(measure, client, pipes, KINDS[name]) for name in KINDS}
                compare(f"{processes} processes", subjects, chosen.rounds, warm_up=True)


if __name__ == "__main__":
    main()

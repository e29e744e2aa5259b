"""Processes that share a budget or a cancel over Redis, beside such that do not.

The load on a service that is down: each process makes requests while the service answers, then
more while it does not; each request is one call and up to four retries, without a wait between.
The service counts. Beside it: what a decision of the shared budget costs, in one process and in
all at once, as multiples of a PING with the same client.

A cancel: from its start to when a thread that waits in the first and in the last of the processes
runs again, beside processes that poll for it.

It starts a ``redis-server``, and needs redis-py. Run as ``python -m tests.benchmarks.over_redis``
from the project's root.
"""

import asyncio
import random
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from uuid import uuid4

from backoff_ticker import RetryBudget, ZeroBackOff, retry_call
from tests.benchmarks._table import compare, options, say, show

try:
    from redis import Redis
except ModuleNotFoundError:
    say("redis is not installed: nothing to measure")
    sys.exit()

from backoff_ticker.integrations.redis import RedisCancellationToken, RedisRetryBudget
from tests.integrations.redis_server import PROGRAM, RedisServer

IDLE = 0.05
SIGNALS = {
    "redis-py's own subscriber": "bare",
    "RedisCancellationToken": "token",
    "polling every 100 ms": 0.1,
}
BUDGET = {"max_tokens": 100, "token_ratio": 0.1}
NAMES = {"none": "no budget", "local": "one for each process", "shared": "RedisRetryBudget"}
DECISIONS = ("PING", "try_acquire()", "await try_acquire_async()")


@contextmanager
def fleet(size, target, *arguments):
    """Start processes that run ``target(*arguments, pipe)``; yield the other ends of the pipes."""
    context = get_context("spawn")
    pipes = [context.Pipe() for _ in range(size)]
    processes = [
        context.Process(target=target, args=(*arguments, theirs), daemon=True)
        for _, theirs in pipes
    ]
    ours = [pipe for pipe, _ in pipes]
    try:
        for process in processes:
            process.start()
        for pipe in ours:
            assert pipe.recv() == "ready"
        yield ours
        for pipe in ours:
            pipe.send(None)
        for process in processes:
            process.join(20)
    finally:
        for process in processes:
            process.kill()


def make_requests(url, kind, orders):
    """Make as many requests as told, to a service that is up or not; answer with its calls."""
    budget = None if kind == "none" else RetryBudget(**BUDGET)
    if kind == "shared":
        client = Redis.from_url(url, socket_timeout=20)
        budget = RedisRetryBudget(client, "service", **BUDGET, fallback=None)
    orders.send("ready")
    while order := orders.recv():
        is_up, requests = order
        calls = []

        def call():
            calls.append(None)
            if not is_up:
                raise ConnectionError

        for _ in range(requests):
            with suppress(ConnectionError):
                retry_call(call, ZeroBackOff(), max_attempts=5, budget=budget)
        orders.send(len(calls))


def loads(server, size, before, during):
    measured = {}
    for kind, name in NAMES.items():
        calls = 0
        with fleet(size, make_requests, server.url, kind) as pipes:
            for order in ((True, before), (False, during)):
                for pipe in pipes:
                    pipe.send(order)
                calls += sum(pipe.recv() for pipe in pipes)
        retries = calls - size * (before + during)
        measured[name] = {
            "calls": calls,
            "retries": retries,
            "calls a request in the outage": 1 + retries / (size * during),
        }
    show(f"{size} processes; {size * before} requests, then {size * during}", [measured])
    tokens, ratio = BUDGET.values()
    say(f"promise: retries <= {tokens} + {ratio} * {size * before}")


def decide(url, orders):
    """Decide as often as told, in one way or another; answer with the microseconds of one."""
    client = Redis.from_url(url, socket_timeout=20)
    budget = RedisRetryBudget(client, "decisions", 1_000_000)
    functions = {"PING": client.ping, "try_acquire()": budget.try_acquire}
    orders.send("ready")
    while order := orders.recv():
        how, times = order
        started = time.perf_counter()
        if how in functions:
            for _ in range(times):
                functions[how]()
        else:
            asyncio.run(in_loop(budget, times))
        orders.send((time.perf_counter() - started) / times * 1e6)


async def in_loop(budget, times):
    for _ in range(times):
        await budget.try_acquire_async()


def decisions(server, size, times, rounds):
    with fleet(size, decide, server.url) as pipes:

        def measure(how):
            for pipe in pipes:
                pipe.send((how, times))
            micros = [pipe.recv() for pipe in pipes]
            return {"us a decision": sum(micros) / size}

        runs = {name: partial(measure, name) for name in DECISIONS}
        compare(f"decisions, processes: {size}", runs, rounds, warm_up=True)


def work(url, orders):
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


def answer(orders):
    """Say when it was heard; close nothing, which takes processor time, until all have heard it."""
    orders.send(time.monotonic())
    orders.recv()


def measure(client, pipes, kind):
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


def cancels(server, size, rounds):
    with server.client() as client, fleet(size, work, server.url) as pipes:
        runs = {name: partial(measure, client, pipes, kind) for name, kind in SIGNALS.items()}
        compare(f"a cancel, processes: {size}", runs, rounds, warm_up=True)


def main():
    chosen = options(__doc__, rounds=7)
    if PROGRAM is None:
        say("redis-server is not installed: nothing to measure")
        return
    with tempfile.TemporaryDirectory() as folder, RedisServer(Path(folder)) as server:
        loads(server, *((2, 5, 60) if chosen.quick else (20, 100, 100)))
        for size in [1] if chosen.quick else [1, 20]:
            decisions(server, size, 20 if chosen.quick else 2000, chosen.rounds)
        for size in [2] if chosen.quick else [2, 20]:
            cancels(server, size, chosen.rounds * (1 if chosen.quick else 3))


if __name__ == "__main__":
    main()

"""Processes that call a service which is down for a while, and count their calls."""

from collections import Counter
from contextlib import contextmanager
from multiprocessing import get_context

from backoff_ticker import RetryBudget, ZeroBackOff, retry_call

FIRST, RETRY, GOOD = "first", "retry", "good"
MOST_ATTEMPTS = 5
KINDS = ("none", "local", "shared")
"""No budget, one for each process, and one for all."""


def work(url, kind, numbers, orders):
    """Make as many requests as told, to a service that is up or not; answer with the calls."""
    budget = None if kind == "none" else RetryBudget(**numbers)
    if kind == "shared":
        from redis import Redis

        from backoff_ticker.integrations.redis import RedisRetryBudget

        budget = RedisRetryBudget(
            Redis.from_url(url, socket_timeout=20), "service", **numbers, fallback=None
        )
    orders.send("ready")
    while order := orders.recv():
        is_up, requests = order
        calls = Counter({FIRST: requests, GOOD: requests * is_up, RETRY: -requests})

        def call():
            calls[RETRY] += 1
            if not is_up:
                raise ConnectionError

        for _ in range(requests):
            try:
                retry_call(call, ZeroBackOff(), max_attempts=MOST_ATTEMPTS, budget=budget)
            except ConnectionError:
                pass
        orders.send(calls)


@contextmanager
def fleet(size, target, *arguments):
    """Start processes that run a function of a module; yield a pipe to each, which has spoken.

    Args:
        size: How many.
        target: Takes the arguments and its end of the pipe.
        *arguments: As said.
    """
    context = get_context("spawn")
    pipes = [context.Pipe() for _ in range(size)]
    processes = [
        context.Process(target=target, args=(*arguments, theirs), daemon=True)
        for _, theirs in pipes
    ]
    ours = [each for each, _ in pipes]
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


def outage(url, kind, size, before, during, **numbers):
    """Return the calls to a service that is up for so many requests of each process, then down."""
    calls = Counter()
    with fleet(size, work, url, kind, numbers) as pipes:
        for order in ((True, before), (False, during)):
            for pipe in pipes:
                pipe.send(order)
            for pipe in pipes:
                calls += pipe.recv()
    return calls

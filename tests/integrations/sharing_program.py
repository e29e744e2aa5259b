"""Twenty processes that share a budget, a token and a circuit; each says what it sees.

``python -m tests.integrations.sharing_program URL`` runs until SIGTERM. All lines are complete.
"""

import gc
import json
import logging
import os
import signal
import sys
import time
from contextlib import contextmanager

from redis import Redis

from backoff_ticker import (
    CircuitOpen,
    ConstantBackOff,
    Ticker,
    ZeroBackOff,
    cancel_on_signals,
    retry_call,
)
from backoff_ticker.integrations._redis import circuit
from backoff_ticker.integrations.redis import (
    RedisCancellationToken,
    RedisCircuitBreaker,
    RedisRetryBudget,
)

SIZE = 20
TOKENS = 100
NAME = "fleet"
TIMEOUTS = {"socket_timeout": 1, "socket_connect_timeout": 1}


@contextmanager
def clock_can_be_stepped():
    """Have the script of circuits add the seconds under the key "step" to the time of Redis."""
    script, time_of_redis = circuit.SCRIPT, 'redis.call("TIME")'
    stepped = f'{{{time_of_redis}[1] + (redis.call("GET", "step") or 0), {time_of_redis}[2]}}'
    circuit.SCRIPT = script.replace(time_of_redis, stepped)
    try:
        yield
    finally:
        circuit.SCRIPT = script


def say(*words):
    """Write a line at once: those of other processes do not get into it."""
    os.write(1, f"{' '.join(map(str, words))}\n".encode())


def work(url):
    """Make calls that fail and are retried, and calls through the circuit, until SIGTERM."""
    client = Redis.from_url(url, **TIMEOUTS)
    budget = RedisRetryBudget(client, NAME, TOKENS, 0, fallback=None)
    retries, longest_retry, longest_call = 0, 0.0, 0.0

    def fail():
        nonlocal retries
        retries += 1
        raise ConnectionError

    breaker = RedisCircuitBreaker(
        client, NAME, failures=1, on_change=lambda _old, new, _breaker: say("circuit", new)
    )
    breaker.wait_until_connected(20)
    with cancel_on_signals() as stop, RedisCancellationToken(client, NAME) as token:
        token.on_cancel(lambda: say("cancelled", token.cause))
        say("ready")
        for _ in Ticker(ConstantBackOff(0.1), token=stop):
            began = time.monotonic()
            try:
                with breaker.guard():
                    pass
            except CircuitOpen:
                pass
            called = time.monotonic()
            try:
                retry_call(fail, ZeroBackOff(), on=ConnectionError, max_attempts=2, budget=budget)
            except ConnectionError:
                retries -= 1  # the first attempt
            longest_call = max(longest_call, called - began)
            longest_retry = max(longest_retry, time.monotonic() - called)
    breaker.close()
    say("ended", json.dumps([retries, longest_retry, longest_call]))


def main(url):
    """Fork the processes; stop them at SIGTERM."""
    logging.basicConfig(level="INFO", format="%(message)s")
    gc.freeze()  # so that no collection writes to what the processes have in common
    children = []
    for _ in range(SIZE):
        child = os.fork()
        if child == 0:
            work(url)
            return 0
        children.append(child)
    with cancel_on_signals() as stop:
        stop.wait()
    for child in children:
        os.kill(child, signal.SIGTERM)
    return max(os.waitpid(child, 0)[1] for child in children)


if __name__ == "__main__":
    with clock_can_be_stepped():
        sys.exit(main(sys.argv[1]))

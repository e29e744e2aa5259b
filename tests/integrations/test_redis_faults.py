"""Twenty processes that share a budget, a token and a circuit, and whatever happens to Redis."""

import asyncio
import contextlib
import json
import logging
import re
import socket
import time
from contextlib import contextmanager, nullcontext
from functools import partial

import pytest
import redis

from backoff_ticker.integrations.redis import (
    RedisCancellationToken,
    RedisCircuitBreaker,
    RedisRetryBudget,
)
from tests.helpers import eventually
from tests.integrations.processes import Process
from tests.integrations.redis_server import Proxy
from tests.integrations.sharing_program import NAME, SIZE, TIMEOUTS, TOKENS, clock_can_be_stepped

pytestmark = [pytest.mark.slow, pytest.mark.faults, pytest.mark.timeout(150)]

measured = logging.getLogger("measured")  # with --log-cli-level=INFO
KINDS = ("Token", "Circuit", "Retry budget")
ANNOUNCED = re.compile(
    f"({'|'.join(KINDS)}) {NAME}: "
    "(not shared, as Redis fails: .+|shared again|closed before Redis was told: .+)"
    r"|ready|cancelled by the operator|circuit [\w-]+|ended \[.+\]"
)
"""A line of the log that a page announces, or a report of the program."""
NOTICED = 2.5
"""Seconds after which each process has noticed that Redis does not answer."""
LONG = 5.0
"""Seconds that nothing takes which does not wait for Redis, on a machine with much to do."""


class Fleet:
    """The processes, and an operator, who has the same token and circuit here."""

    def __init__(self, folder, server, proxy):
        self.server, self.proxy = server, proxy
        url = server.url if proxy is None else proxy.url
        self.program = Process(folder, "-m", "tests.integrations.sharing_program", url)
        client = redis.Redis.from_url(url, **TIMEOUTS)
        self.token = RedisCancellationToken(client, NAME)
        self.breaker = RedisCircuitBreaker(client, NAME)

    @contextmanager
    def all_say(self, text, times=1):
        """Wait until each process has said something since the block has begun."""
        before = self.program.count(text)
        yield
        self.program.wait_for(text, before + times * SIZE)

    def set(self, name, value, **options):
        self.server.client(**options).config_set(name, value)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.program.__exit__()
        self.token.close(0)
        self.breaker.close(0)


def begin(kind, fleet):
    """Begin a fault; return what ends it."""
    server, end = fleet.server, lambda: None
    match kind:
        case "killed":
            server.kill()
            end = server.start
        case "paused":
            server.pause()
            end = server.resume
        case "emptied":
            server.client().flushall()
        case "clock set back":
            with fleet.all_say("circuit open"):
                fleet.breaker.open(3)
            stepped = time.monotonic()
            with fleet.all_say("circuit closed"):
                server.client().set("step", -3600)
            measured.info("closed %.1f s after the step", time.monotonic() - stepped)
        case "slow":
            fleet.proxy.delay = 0.5
        case "full":
            fleet.set("maxmemory", 1)
            end = partial(fleet.set, "maxmemory", 0)
        case "password changed":
            fleet.set("requirepass", "another")
            client = server.client(password="another")
            for connections in ("normal", "pubsub"):
                client.execute_command("CLIENT", "KILL", "TYPE", connections)
            end = partial(fleet.set, "requirepass", "", password="another")
    return end


CANCELLED, OPENED = "cancelled by the operator", "circuit open"


@pytest.mark.parametrize(
    "kind, buckets, shared_meanwhile",
    [
        ("killed", 2, []),
        ("paused", 1, []),
        ("emptied", 2, [CANCELLED, OPENED]),
        ("clock set back", 1, [CANCELLED, OPENED]),
        ("slow", 1, [CANCELLED, OPENED]),
        ("full", 1, [CANCELLED]),
        ("password changed", 1, []),
    ],
)
def test_twenty_processes(redis_server, tmp_path, kind, buckets, shared_meanwhile):
    """All hear of a cancel and an opening; retries keep to their budget; nothing hangs or fails."""

    def has_no_tokens():
        return redis_server.client().get(f"backoff_ticker:budget:{NAME}") == b"0"

    proxied = Proxy(redis_server.port) if kind == "slow" else nullcontext()
    steppable = clock_can_be_stepped()
    with steppable, proxied as proxy, Fleet(tmp_path, redis_server, proxy) as fleet:
        program = fleet.program
        program.wait_for("ready", SIZE)
        eventually(has_no_tokens)
        end = begin(kind, fleet)
        time.sleep(NOTICED)
        openings = program.count(OPENED)
        acted = time.monotonic()
        fleet.token.token.cancel("by the operator")
        fleet.breaker.open()
        for text in shared_meanwhile:
            program.wait_for(text, SIZE + openings * (text is OPENED))
        meanwhile = time.monotonic() - acted
        end()
        ended = time.monotonic()
        program.wait_for(CANCELLED, SIZE)
        program.wait_for(OPENED, SIZE + openings)
        afterwards = time.monotonic() - ended
        outages = [program.count(f"{each} {NAME}: not shared") for each in KINDS]
        for each, times in zip(KINDS, outages, strict=True):
            program.wait_for(f"{each} {NAME}: shared again", times)
        with fleet.all_say("circuit closed"):
            fleet.breaker.reset()
        eventually(has_no_tokens)
        status, stopping = program.stop()
    assert [line for line in program.lines if not ANNOUNCED.fullmatch(line)] == []
    assert status == 0
    reports = [json.loads(line[6:]) for line in program.lines if line.startswith("ended ")]
    retries, longest_retries, longest_calls = zip(*reports, strict=True)
    measured.info(
        "%s: told in the fault after %.1f s, after it %.1f s; %s retries, each within %.1f s; calls"
        " within %.3f s; %s outages of tokens, circuits, budgets; all ended within %.1f s",
        *(kind, meanwhile, afterwards, sum(retries), max(longest_retries)),
        *(max(longest_calls), outages, stopping),
    )
    assert sum(retries) == buckets * TOKENS
    assert max(longest_calls) < LONG


def test_a_hundred_coroutines_wait_for_two_answers_of_a_slow_redis(redis_server):
    async def ask_at_once():
        assert await budget.try_acquire_async()
        proxy.delay = 0.5
        began = time.monotonic()
        taken = await asyncio.gather(*(budget.try_acquire_async() for _ in range(100)))
        return sum(taken), time.monotonic() - began

    with Proxy(redis_server.port) as proxy:
        budget = RedisRetryBudget(redis.Redis.from_url(proxy.url, **TIMEOUTS), NAME)
        taken, seconds = asyncio.run(ask_at_once())
    measured.info("100 coroutines: within %.1f s", seconds)
    assert taken == 100
    assert seconds < LONG


def test_an_address_that_swallows_packets_costs_one_time_out():
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):  # no more are taken until these are accepted
            filling = stack.enter_context(socket.socket())
            filling.setblocking(False)
            filling.connect_ex(listener.getsockname())
        port = listener.getsockname()[1]
        client = redis.Redis(port=port, socket_timeout=60, socket_connect_timeout=0.5)
        budget = RedisRetryBudget(client, NAME, 2)
        began = time.monotonic()
        assert [budget.try_acquire() for _ in range(3)] == [True, True, False]  # of the fallback
        seconds = time.monotonic() - began
    measured.info("three decisions without a connection: within %.1f s", seconds)
    assert 0.5 <= seconds < LONG

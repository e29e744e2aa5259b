"""Budgets that processes share, with a real Redis that is there, gone, slow, empty or replaced."""

import asyncio
import itertools
import logging
import threading
import time
import weakref
from datetime import timedelta

import pytest
from hypothesis import given, strategies as st
from redis import CredentialProvider, Redis, RedisError
from redis.backoff import NoBackoff
from redis.retry import Retry

from backoff_ticker import (
    CircuitBreaker,
    CircuitState,
    ConstantBackOff,
    RetryBudget,
    ZeroBackOff,
    hedge_call,
    hedge_call_async,
    retry_call,
    retry_call_async,
)
from backoff_ticker.integrations._redis.client import make_connection
from backoff_ticker.integrations.redis import RedisRetryBudget
from backoff_ticker.testing import VirtualClock
from tests.helpers import PATIENCE, eventually, in_thread, wait_until_collected
from tests.integrations.processes import Process, forked
from tests.integrations.redis_server import Proxy, RedisServer, needs_redis
from tests.stress.tools import join_all, start_threads

pytestmark = [needs_redis, pytest.mark.timeout(40)]

KEY = "backoff_ticker:budget:{}"
TOKEN = 10**9
NAMES = (f"budget {number}" for number in itertools.count())
DELAY = 10.0
TIMEOUTS = {"socket_timeout": 1, "socket_connect_timeout": 1}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Return a Redis server that no test disturbs."""
    with RedisServer(tmp_path_factory.mktemp("redis")) as made:
        yield made


@pytest.fixture
def make_budget(server):
    """Return what makes budgets with a name of their own."""

    def make(*numbers, **options):
        return RedisRetryBudget(server.client(), next(NAMES), *numbers, **options)

    return make


def take(budget, times):
    """Return the answers to so many retries."""
    return [budget.try_acquire() for _ in range(times)]


def open_connections(budget, number):
    """Return connections as threads leave them that have decided at the same moment."""
    opened = [make_connection(budget._client) for _ in range(number)]
    for connection in opened:
        connection.connect()
    return [(budget._trusted, connection) for connection in opened]


class Watched:
    """A budget in front of a server that fails, and the clock on which Redis is asked again."""

    def __init__(self, server, *numbers, client=None, socket_timeout=PATIENCE, **options):
        self.clock = VirtualClock()
        breaker = CircuitBreaker(ConstantBackOff(DELAY), failures=1, clock=self.clock)
        client = client or server.client(socket_timeout=socket_timeout)
        self.budget = RedisRetryBudget(client, "shared", *numbers, breaker=breaker, **options)

    def ask_again(self):
        """Let the time pass for which Redis is not asked."""
        self.clock.advance(DELAY)

    def find_again(self, server):
        """Let Redis be back, with an empty bucket."""
        server.start()
        server.client().set(KEY.format("shared"), 0)
        self.ask_again()

    def take(self, times=1):
        return take(self.budget, times)

    @property
    def shares(self):
        return self.budget.breaker.state is CircuitState.CLOSED


def units(server, name="shared"):
    """Return what is in Redis."""
    return int(server.client().get(KEY.format(name)))


@given(
    st.integers(10, 50).map(lambda number: number / 10),
    st.integers(0, 10).map(lambda number: number / 10),
    st.lists(st.tuples(st.integers(0, 10), st.booleans()), max_size=40),
)
def test_with_one_process_it_answers_as_a_budget_in_memory_does(server, size, ratio, actions):
    numbers = (size, ratio, 1)
    budgets = [RetryBudget(*numbers), RedisRetryBudget(server.client(), next(NAMES), *numbers)]
    for successes, is_released in [*actions, (0, False), (0, False), (0, False)]:
        for budget in budgets * successes:
            budget.success()
        here, there = (budget.try_acquire() for budget in budgets)
        assert there is here
        if here and is_released:
            for budget in budgets:
                budget.release()


@pytest.mark.parametrize(
    "ratio, give, times, retries",
    [
        (0.5, RedisRetryBudget.success, 1000, 10),  # what ten retries cost
        (25, RedisRetryBudget.success, 1, 25),  # or one success
        (0.1, RedisRetryBudget.release, 60, 60),
    ],
)
def test_what_a_process_keeps_until_its_next_retry(make_budget, ratio, give, times, retries):
    budget = make_budget(100, ratio)
    assert all(take(budget, 100))
    for _ in range(times):
        give(budget)
    assert take(budget, retries + 1) == [True] * retries + [False]


def test_a_bucket_that_nobody_uses_is_forgotten_and_then_full(server):
    for keep_for in (20, timedelta(seconds=20)):
        budget = RedisRetryBudget(server.client(), "forgotten", 1, keep_for=keep_for)
        assert take(budget, 2) == [True, False]
        assert 15_000 < server.client().pttl(KEY.format("forgotten")) <= 20_000
        server.client().delete(KEY.format("forgotten"))
    budget = RedisRetryBudget(server.client(), "forever", keep_for=1e300)
    assert budget.try_acquire()
    assert server.client().pttl(KEY.format("forever")) > 10**13


def test_it_limits_retries_and_hedged_calls_of_threads_and_loops(server):
    def fails():
        raise OSError

    async def fails_in_loop():
        raise OSError

    budget = RedisRetryBudget(server.client(), "all faces", 8, 0)
    options = {"budget": budget, "max_attempts": 3}
    for reason in ("gave up after 3 attempts", "nothing left in <RedisRetryBudget 'all faces'"):
        for call in (
            lambda: retry_call(fails, ZeroBackOff(), **options),
            lambda: asyncio.run(retry_call_async(fails_in_loop, ZeroBackOff(), **options)),
            lambda: hedge_call(fails, ConstantBackOff(60), **options),
            lambda: asyncio.run(hedge_call_async(fails_in_loop, ConstantBackOff(60), **options)),
        ):
            with pytest.raises(OSError) as caught:
                call()
            assert reason in caught.value.__notes__[0]


def test_threads_take_what_there_is_once(make_budget):
    budget = make_budget(300, 0)
    taking = [in_thread(take, budget, 150) for _ in range(3)]
    assert sum(sum(each.result(PATIENCE)) for each in taking) == 300


def test_each_cuts_the_bucket_to_its_own_size(server):
    large, small = (RedisRetryBudget(server.client(), "sizes", size) for size in (100, 10))
    assert large.try_acquire()
    assert small.try_acquire()
    assert units(server, "sizes") == 9 * TOKEN


@pytest.mark.faults
def test_while_redis_does_not_answer_one_retry_waits_for_the_time_out(redis_server):
    watched = Watched(redis_server, 5, socket_timeout=0.3)
    redis_server.pause()
    began = time.monotonic()
    assert watched.take() == [True]
    assert 0.3 <= time.monotonic() - began < PATIENCE
    assert not watched.shares
    assert watched.take(5) == [True] * 4 + [False]  # of the fallback, which has no more
    redis_server.resume()
    eventually(lambda: watched.ask_again() or watched.take() == [True])


@pytest.mark.faults
def test_after_a_connection_that_failed_none_that_was_open_before_is_used(redis_server):
    with Proxy(redis_server.port) as proxy, Redis.from_url(proxy.url, **TIMEOUTS) as client:
        watched = Watched(redis_server, 20, client=client)
        watched.budget._idle += open_connections(watched.budget, 8)
        (busy,) = open_connections(watched.budget, 1)  # of a thread that is slow
        proxy.swallow()
        assert watched.take() == [True]
        assert not watched.shares
        assert watched.budget._idle == []
        watched.budget._idle.append(busy)
        watched.ask_again()
        assert watched.take() == [True]
        assert watched.shares
    assert units(redis_server) == 19 * TOKEN


@pytest.mark.faults
def test_a_few_connections_are_kept_for_threads_that_come_back(redis_server):
    budget = RedisRetryBudget(redis_server.client(), "shared", 500)
    redis_server.pause()
    threads = start_threads(50, lambda _: budget.try_acquire())
    redis_server.resume()
    join_all(threads)
    client = redis_server.client()
    eventually(lambda: client.info("clients")["connected_clients"] <= 9)
    assert units(redis_server) == 450 * TOKEN
    assert budget.breaker.state is CircuitState.CLOSED


@pytest.mark.faults
@pytest.mark.parametrize("value", ["nan", "-1", "many"])
def test_what_is_no_budget_is_refused(redis_server, caplog, value):
    watched = Watched(redis_server, 5, fallback=None)
    redis_server.client().set(KEY.format("shared"), value)
    assert watched.take() == [False]
    assert not watched.shares
    assert "not shared, as Redis fails: " in caplog.text


@pytest.mark.faults
def test_what_was_counted_is_not_lost_to_a_redis_that_takes_no_connection(redis_server):
    watched = Watched(redis_server, 5, 1)
    for _ in range(2):
        watched.budget.success()
    redis_server.kill()
    assert watched.take(6) == [True] * 5 + [False]  # of the fallback
    watched.find_again(redis_server)
    assert watched.take(3) == [True, True, False]


@pytest.mark.faults
@pytest.mark.parametrize("fail", [RedisServer.kill, RedisServer.pause])
def test_the_retries_of_the_client_are_not_used(redis_server, fail):
    class Asked(NoBackoff):
        def compute(self, failures):
            asked.append(failures)
            return 0

    asked = []
    retry = Retry(Asked(), 5, (RedisError, OSError))
    budget = RedisRetryBudget(redis_server.client(socket_timeout=0.1, retry=retry), "shared", 5)
    fail(redis_server)
    assert budget.try_acquire()  # by the fallback
    assert asked == []


@pytest.mark.faults
def test_a_decision_whose_answer_is_lost_may_lose_tokens_but_never_makes_any(redis_server):
    watched = Watched(redis_server, 20, fallback=None, socket_timeout=1.0)
    assert watched.take(20) == [True] * 20
    for _ in range(100):
        watched.budget.success()
    redis_server.pause()
    assert watched.take() == [False]
    redis_server.resume()
    watched.ask_again()
    assert sum(watched.take(20)) <= 9  # 10 came from the successes; one may be lost


@pytest.mark.faults
def test_without_a_fallback_there_are_no_retries_meanwhile(redis_server):
    watched = Watched(redis_server, 5, 1, fallback=None)
    redis_server.kill()
    assert watched.take(3) == [False] * 3
    watched.budget.success()
    watched.find_again(redis_server)
    assert watched.take(2) == [True, False]


@pytest.mark.faults
def test_a_success_counts_once_here_or_there(redis_server):
    fallback = RetryBudget(5, 1)
    watched = Watched(redis_server, 5, 1, fallback=fallback)
    assert watched.take(5) == [True] * 5
    redis_server.kill()
    assert watched.take(5) == [True] * 5
    watched.budget.success()
    watched.budget.release()
    assert fallback.tokens == 2
    assert watched.take(3) == [True, True, False]
    watched.find_again(redis_server)
    assert watched.take() == [False]
    watched.budget.success()
    assert fallback.tokens == 0
    assert watched.take(2) == [True, False]


@pytest.mark.faults
@pytest.mark.parametrize("durable", [True, False])
def test_a_redis_that_was_restarted_is_asked_at_once(tmp_path, durable, caplog):
    with RedisServer(tmp_path / "redis", durable=durable) as server:
        watched = Watched(server, 5)
        assert watched.take(3) == [True] * 3
        server.kill()
        server.start()
        assert watched.take(3) == [True, True, not durable]
        assert watched.shares
        assert not caplog.records


@pytest.mark.faults
def test_what_redis_refuses_is_logged_once(redis_server, caplog):
    caplog.set_level(logging.INFO, "backoff_ticker")
    client = redis_server.client()
    client.lpush(KEY.format("shared"), "an item")
    watched = Watched(redis_server, 2)
    assert watched.take(3) == [True, True, False]
    watched.ask_again()
    assert watched.take() == [False]
    assert "not shared, as Redis fails: WRONGTYPE" in caplog.text
    client.delete(KEY.format("shared"))
    watched.ask_again()
    assert watched.take(2) == [True, True]
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "shared again" in caplog.text


@pytest.mark.faults
def test_what_a_provider_of_passwords_raises_leaves_the_budget_usable(redis_server, caplog):
    class Vault(CredentialProvider):
        def get_credentials(self):
            if errors:
                raise errors.pop(0)
            return "default", "any"

    errors = [LookupError("the vault\nis \x1b[2Jlocked"), KeyboardInterrupt()]
    watched = Watched(redis_server, 5, client=redis_server.client(credential_provider=Vault()))
    assert watched.take() == [True]  # of the fallback
    (record,) = caplog.records
    assert r"the vault\nis \x1b[2Jlocked" in record.getMessage()
    watched.ask_again()
    with pytest.raises(KeyboardInterrupt):
        watched.take()
    assert watched.take(5) == [True] * 5
    assert watched.shares


class Gate(CircuitBreaker):
    """Holds back who is about to ask Redis."""

    __slots__ = ("asking", "opened")

    def __init__(self):
        super().__init__(ConstantBackOff(60), failures=1)
        self.asking, self.opened = threading.Semaphore(0), threading.Semaphore(0)

    def allow(self):
        self.asking.release()
        assert self.opened.acquire(timeout=PATIENCE)
        return super().allow()

    async def until_asked(self):
        while not self.asking.acquire(blocking=False):
            await asyncio.sleep(0.001)  # the loop goes on


@pytest.mark.faults
def test_one_script_answers_all_coroutines_that_wait_and_takes_back_what_they_do_not_want(
    redis_server,
):
    gate, redis = Gate(), redis_server.client()
    budget = RedisRetryBudget(redis, "shared", 500, 0, breaker=gate)

    async def main():
        first = asyncio.create_task(budget.try_acquire_async())
        await gate.until_asked()
        others = [asyncio.create_task(budget.try_acquire_async()) for _ in range(99)]
        await asyncio.sleep(0)
        gate.opened.release()
        assert await first
        await gate.until_asked()
        for task in others[50:]:
            task.cancel()
        await asyncio.wait(others[50:])
        gate.opened.release()
        assert await asyncio.gather(*others[:50]) == [True] * 50
        assert all(task.cancelled() for task in others[50:])

    asyncio.run(main())
    assert redis.info("commandstats")["cmdstat_eval"]["calls"] <= 2
    gate.opened.release()
    budget.try_acquire()
    assert units(redis_server) == (500 - 52) * TOKEN


@pytest.mark.faults
def test_a_redis_that_hangs_does_not_keep_a_program_from_ending(redis_server, tmp_path):
    program = """\
import asyncio, sys
from redis import Redis
from backoff_ticker.integrations.redis import RedisRetryBudget

budget = RedisRetryBudget(Redis.from_url(sys.argv[1], socket_timeout=600), "shared")

async def main():
    try:
        await asyncio.wait_for(budget.try_acquire_async(), 0.1)
    except TimeoutError:
        print("cut")

asyncio.run(main())
"""
    redis_server.pause()
    with Process(tmp_path, "-c", program, redis_server.url) as process:
        assert process.wait() == 0
        assert process.lines == ["cut"]


@pytest.mark.faults
def test_while_redis_is_gone_coroutines_need_no_thread(redis_server):
    redis_server.kill()
    watched = Watched(redis_server, 3)
    watched.take()

    async def main():
        coroutine = watched.budget.try_acquire_async()
        with pytest.raises(StopIteration) as answered:
            coroutine.send(None)  # it does not wait
        return answered.value.value

    assert [asyncio.run(main()) for _ in range(3)] == [True, True, False]


def test_coroutines_await_a_fallback_that_waits():
    class Waits(RetryBudget):
        async def try_acquire_async(self):
            await asyncio.sleep(0)
            return self.try_acquire()

        __slots__ = ()

    budget = RedisRetryBudget(Redis(port=1, socket_timeout=1), "gone", fallback=Waits(1))
    assert [asyncio.run(budget.try_acquire_async()) for _ in range(3)] == [True, False, False]


def test_an_abandoned_budget_leaves_no_thread_and_no_connection(make_budget):
    budget = make_budget(5)
    assert asyncio.run(budget.try_acquire_async())
    name, gone = f"RedisRetryBudget {budget.name}", weakref.ref(budget)
    assert any(name in thread.name for thread in threading.enumerate())
    ((_, connection),) = budget._idle
    assert connection._sock
    del budget
    wait_until_collected(gone)
    eventually(lambda: not any(name in thread.name for thread in threading.enumerate()))
    assert not connection._sock


@pytest.mark.posix
def test_a_forked_child_tells_only_what_it_has_counted(make_budget):
    def check():
        budget.success()
        answers = [*take(budget, 2), asyncio.run(budget.try_acquire_async())]
        return answers == [True, False, False]

    budget = make_budget(10, 1)
    assert all(take(budget, 10))
    for _ in range(3):
        budget.success()
    with forked(check):
        pass
    assert take(budget, 4) == [True] * 3 + [False]

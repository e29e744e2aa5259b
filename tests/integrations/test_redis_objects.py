"""What holds for every object that processes share over Redis."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import weakref
from pathlib import Path

import pytest
from redis import Redis, Sentinel
from redis.asyncio import Redis as AsyncRedis

from backoff_ticker import (
    CancellationToken,
    CircuitBreaker,
    CircuitState,
    ConstantBackOff,
    with_max_retries,
)
from backoff_ticker.integrations._redis import link
from backoff_ticker.integrations.redis import (
    RedisCancellationToken,
    RedisCircuitBreaker,
    RedisRetryBudget,
)
from tests.helpers import PATIENCE, eventually, in_thread, wait_until_collected
from tests.integrations.processes import Process, write_files
from tests.integrations.redis_server import failover, forked
from tests.tickers.made_policies import Scripted

pytestmark = pytest.mark.timeout(40)

ANY = pytest.mark.parametrize(
    "kind", [RedisCancellationToken, RedisCircuitBreaker, RedisRetryBudget]
)
LINKED = pytest.mark.parametrize(
    "kind, title", [(RedisCancellationToken, "Token"), (RedisCircuitBreaker, "Circuit")]
)
HANGING = Sentinel([("127.0.0.1", 1)], sentinel_kwargs={"socket_timeout": None})
FILES = Path("/proc/self/fd")


def threads():
    """Return the threads of the objects of the name "job"."""
    return [each for each in threading.enumerate() if ":job@" in each.name]


@pytest.fixture
def make(redis_server, monkeypatch):
    """Make tokens and circuits of one name, which leave no thread behind."""
    monkeypatch.setattr(link, "RECONNECT", ConstantBackOff(0.01))
    with contextlib.ExitStack() as stack:

        def make(kind, client=None, name="job", **options):
            shared = kind(client or redis_server.client(), name, **options)
            stack.callback(shared.close, 0)
            return shared

        yield make
    eventually(lambda: not threads())


@pytest.fixture
def connected(make, redis_server):
    """Return what makes tokens and circuits that are connected."""

    def connected(kind, **options):
        shared = make(kind, redis_server.client(socket_timeout=1), **options)
        assert shared.wait_until_connected(PATIENCE)
        return shared

    return connected


def change(shared):
    if isinstance(shared, RedisCancellationToken):
        shared.token.cancel()
    else:
        shared.open(60)


def is_changed(shared):
    if isinstance(shared, RedisCancellationToken):
        return shared.token.cancelled
    return shared.state is CircuitState.OPEN


# Arguments


@ANY
@pytest.mark.parametrize(
    "client, name, error, message",
    [
        (AsyncRedis(), "n", TypeError, r"redis\.Redis, .*not a redis\.asyncio"),
        (3, "n", TypeError, "client must be a redis.Redis"),
        (Redis(socket_timeout=None), "n", ValueError, "client must have a socket_timeout > 0"),
        (
            *(Redis(socket_timeout=1, socket_connect_timeout=0), "n", ValueError),
            "client must have a socket_connect_timeout > 0",
        ),
        (
            *(HANGING.master_for("jobs", socket_timeout=1), "n", ValueError),
            "Sentinel with a socket_timeout > 0, not None",
        ),
        (Redis(socket_timeout=1), b"n", TypeError, "name must be a str, not b'n'"),
        (Redis(socket_timeout=1), "", ValueError, "name must not be empty"),
    ],
)
def test_a_client_and_a_name_are_checked_at_once(kind, client, name, error, message):
    with pytest.raises(error, match=message):
        kind(client, name)


@pytest.mark.parametrize(
    "kind, options, error, message",
    [
        (RedisCancellationToken, {"parent": "stop"}, TypeError, "parent must be .*, not 'stop'"),
        (RedisCancellationToken, {"keep_for": 0}, ValueError, "keep_for must be .* seconds > 0"),
        (RedisCancellationToken, {"keep_for": None}, TypeError, "keep_for must be"),
        (RedisCancellationToken, {"keep_for": 10**400}, ValueError, "keep_for must be"),
        (RedisCancellationToken, {"keep_for": float("inf")}, ValueError, "must be .* not inf"),
        (RedisCancellationToken, {"cancel_if_gone_for": -1}, ValueError, "must be .* not -1"),
        (RedisCancellationToken, {"backoff": 3}, TypeError, "backoff"),
        (RedisCircuitBreaker, {"failures": 0}, ValueError, "failures must be an int >= 1"),
        (RedisCircuitBreaker, {"probe_timeout": 0}, ValueError, "probe_timeout must be a finite"),
        (RedisCircuitBreaker, {"on_change": [print, 3]}, TypeError, "on_change must be a callable"),
        (RedisRetryBudget, {"max_tokens": 0}, ValueError, "max_tokens must be"),
        (RedisRetryBudget, {"max_tokens": 2e6}, ValueError, "must be <= 1,000,000, not 2000000.0"),
        (RedisRetryBudget, {"retry_cost": 501}, ValueError, "retry_cost must be"),
        (RedisRetryBudget, {"keep_for": 0}, ValueError, "keep_for must be .*not 0"),
        (RedisRetryBudget, {"fallback": "none"}, TypeError, "fallback must be .*not 'none'"),
        (RedisRetryBudget, {"fallback": 5}, TypeError, "fallback must be .*not 5"),
        (RedisRetryBudget, {"breaker": 5}, TypeError, "must be a CircuitBreaker or None, not 5"),
    ],
)
def test_options_are_checked_at_once(kind, options, error, message):
    with pytest.raises(error, match=message):
        kind(Redis(socket_timeout=1), "job", **options)
    assert not threads()


@pytest.mark.parametrize("db", [0, 1])
@pytest.mark.parametrize(
    "kind, word, commands",
    [
        (RedisCancellationToken, "token", "eval get pttl set publish subscribe ping"),
        (RedisCircuitBreaker, "circuit", "eval time hmget hset pexpire publish subscribe ping"),
        (RedisRetryBudget, "budget", "evalsha eval get set"),
    ],
)
def test_the_rights_that_its_page_names_are_enough(
    make, redis_server, caplog, kind, word, commands, db
):
    rights = [f"+{command}" for command in commands.split() + ["select"] * db]
    prefix = f"backoff_ticker:{word}:*"
    redis_server.client().execute_command(
        *["ACL", "SETUSER", "worker", "on", ">secret", f"~{prefix}", f"&{prefix}", *rights]
    )
    client = redis_server.client(username="worker", password="secret", db=db)
    if kind is RedisRetryBudget:
        assert kind(client, "job").try_acquire()
    else:
        one, other = (make(kind, client) for _ in range(2))
        assert one.wait_until_connected(PATIENCE)
        assert other.wait_until_connected(PATIENCE)
        change(one)
        eventually(lambda: is_changed(other))
    assert not caplog.records


# Redis fails


@pytest.mark.faults
@LINKED
def test_the_log_says_what_is_not_shared_and_what_is_again(
    connected, redis_server, kind, title, caplog
):
    caplog.set_level("INFO", "backoff_ticker")
    shared = connected(kind)
    for times in (1, 2):
        redis_server.kill()
        failed = f"{title} job: not shared, as Redis fails: "
        eventually(lambda: caplog.text.count(failed) == times)
        redis_server.start()
        assert shared.wait_until_connected(PATIENCE)
        eventually(lambda: caplog.text.count(f"{title} job: shared again") == times)


@pytest.mark.faults
@LINKED
def test_what_changes_without_redis_is_told_to_one_that_has_lost_its_data(
    connected, redis_server, kind, title
):
    one, other = connected(kind), connected(kind)
    redis_server.kill()
    eventually(lambda: not one.connected and not other.connected)
    change(one)
    assert not is_changed(other)
    redis_server.start()
    eventually(lambda: is_changed(other))
    one.close()
    redis_server.client().flushall()  # now only the other one knows
    eventually(lambda: is_changed(connected(kind)))


@pytest.mark.faults
@LINKED
def test_the_end_waits_until_a_redis_that_is_back_has_been_told(make, redis_server, kind, title):
    redis_server.kill()
    watcher, ending = make(kind), make(kind)
    change(ending)
    starting = in_thread(redis_server.start)
    ending.close(PATIENCE)
    starting.result(PATIENCE)
    eventually(lambda: is_changed(watcher))


@pytest.mark.faults
@LINKED
def test_a_redis_that_does_not_answer_lets_the_loop_run(make, redis_server, kind, title):
    async def work():  # Redis does not answer before the loop has run
        for _ in range(10):
            await asyncio.sleep(0.01)
        redis_server.resume()

    async def main():
        redis_server.pause()
        shared = make(kind)
        working = asyncio.create_task(work())
        assert await shared.wait_until_connected_async(PATIENCE)
        assert working.done()
        redis_server.pause()
        change(shared)
        working = asyncio.create_task(work())
        await shared.close_async(PATIENCE)
        assert working.done()

    asyncio.run(main())
    late = make(kind)
    assert late.wait_until_connected(PATIENCE)
    assert is_changed(late)


@pytest.mark.slow
@pytest.mark.faults
def test_all_follow_a_failover(make, tmp_path):
    def knows_first():
        with contextlib.suppress(Exception):
            return sentinel.discover_master("jobs")[1] == first.port

    with failover(tmp_path) as (first, second, port):
        sentinel = Sentinel([("127.0.0.1", port)], socket_timeout=2)
        eventually(knows_first)
        breaker = CircuitBreaker(ConstantBackOff(0.1), failures=1)
        budget = RedisRetryBudget(
            sentinel.master_for("jobs"), "job", 5, breaker=breaker, fallback=None
        )
        assert budget.try_acquire()
        kinds = (RedisCancellationToken, RedisCircuitBreaker)
        pairs = [[make(kind, sentinel.master_for("jobs")) for _ in range(2)] for kind in kinds]
        assert all(each.wait_until_connected(PATIENCE) for pair in pairs for each in pair)
        first.wait_for_replicas()
        first.kill()
        for one, other in pairs:
            change(one)
            eventually(lambda other=other: is_changed(other))
        eventually(budget.try_acquire)
        assert [budget.try_acquire() for _ in range(4)] == [True] * 3 + [False]
        with second.client() as client:
            assert len(client.keys("backoff_ticker:*")) == 3


@pytest.mark.faults
@LINKED
def test_a_value_of_another_kind_is_reported_until_it_is_gone(
    make, redis_server, kind, title, caplog
):
    key = f"backoff_ticker:{title.lower()}:job"
    client = redis_server.client()
    client.xadd(key, {"another": "kind"})
    shared = make(kind)
    eventually(lambda: "WRONGTYPE" in caplog.text)
    change(shared)
    assert is_changed(shared)
    assert not shared.connected
    client.delete(key)
    assert shared.wait_until_connected(PATIENCE)
    eventually(lambda: client.exists(key))


@pytest.mark.parametrize(
    "backoff, message",
    [
        (with_max_retries(ConstantBackOff(0.001), 3), "the policy has stopped"),
        (Scripted(LookupError("no delay")), "LookupError: no delay"),
    ],
)
def test_a_policy_that_stops_or_fails_ends_the_connection(
    make, redis_server, backoff, message, caplog
):
    redis_server.kill()
    shared = make(RedisCancellationToken, backoff=backoff)
    assert not shared.wait_until_connected(PATIENCE)
    eventually(lambda: message in caplog.text)


@pytest.mark.parametrize(
    "page, arguments",
    [
        ("cancel_everywhere.md", ["stop.py", "17"]),
        ("share_a_circuit.md", ["maintenance.py", "1800"]),
    ],
)
@pytest.mark.slow
def test_the_programs_of_operators_fail_without_redis(redis_server, tmp_path, page, arguments):
    write_files(page, tmp_path)
    redis_server.kill()
    with Process(tmp_path, *arguments, env={"REDIS_URL": redis_server.url}) as program:
        assert program.wait() == 1
        assert program.count("Redis cannot be reached") == 1


# Threads


def token_with_a_parent(client, name):
    return RedisCancellationToken(client, name, parent=CancellationToken())


@pytest.mark.parametrize("kind", [RedisCancellationToken, token_with_a_parent, RedisCircuitBreaker])
def test_what_nobody_uses_any_more_ends_its_threads(redis_server, kind):
    shared = kind(redis_server.client(), "job")
    assert shared.wait_until_connected(PATIENCE)
    assert len(threads()) == 2
    gone = weakref.ref(getattr(shared, "token", shared))
    del shared
    wait_until_collected(gone)
    eventually(lambda: not threads())


@LINKED
def test_a_change_is_told_although_the_object_is_dropped_at_once(
    connected, redis_server, kind, title
):
    watcher = connected(kind)
    change(kind(redis_server.client(), "job"))
    gc.collect()
    eventually(lambda: is_changed(watcher))


def test_without_a_second_thread_the_first_ends(redis_server, monkeypatch):
    start = threading.Thread.start

    def start_one(thread):
        if threads():
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_one)
    with pytest.raises(RuntimeError, match="new thread"):
        RedisCancellationToken(redis_server.client(), "job")
    eventually(lambda: not threads())


@pytest.mark.posix
@LINKED
def test_parent_and_forked_child_tell_each_other(connected, kind, title):
    def check():
        assert shared.wait_until_connected(PATIENCE)
        eventually(lambda: is_changed(shared))
        change(other)
        other.close()
        return True

    shared, other = connected(kind), connected(kind, name="other")
    with forked(check):
        change(shared)
    eventually(lambda: is_changed(other))


@pytest.mark.posix
@pytest.mark.skipif(not FILES.exists(), reason="there is no /proc")
def test_a_forked_child_keeps_no_connection_of_its_parent(connected):
    def connections():
        found = set()
        for file in FILES.iterdir():
            with contextlib.suppress(OSError):
                found.add(str(file.readlink()))
        return {each for each in found if each.startswith("socket:")}

    before = connections()
    shared = connected(RedisCancellationToken)
    ours = connections() - before
    assert len(ours) == 2
    with forked(lambda: not ours & connections()):
        pass
    assert shared.connected

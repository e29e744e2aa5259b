"""What holds for every object that processes share over Redis, and tokens in particular."""

import asyncio
import contextlib
import gc
import threading
import time
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
    DeadlineExceeded,
    with_max_retries,
)
from backoff_ticker.integrations.redis import (
    RedisCancellationToken,
    RedisCircuitBreaker,
    RedisRetryBudget,
)
from tests.helpers import PATIENCE, eventually, in_thread, wait_until_collected
from tests.integrations.processes import Process, forked, write_files
from tests.integrations.redis_server import CLIENTS, RedisServer, failover
from tests.integrations.test_redis_budget import open_connections
from tests.test_shown import Unprintable
from tests.tickers.made_policies import Scripted

pytestmark = pytest.mark.timeout(40)

ANY = pytest.mark.parametrize(
    "kind", [RedisCancellationToken, RedisCircuitBreaker, RedisRetryBudget]
)
TITLES = {RedisCancellationToken: "Token", RedisCircuitBreaker: "Circuit"}
LINKED = pytest.mark.parametrize("kind", TITLES)
NO_CONNECTION = Redis(socket_timeout=1, socket_connect_timeout=0)
SENTINEL = Sentinel([("127.0.0.1", 1)], sentinel_kwargs={"socket_timeout": None})
HANGING = SENTINEL.master_for("jobs", socket_timeout=1)
FILES = Path("/proc/self/fd")
TOKEN, TOKEN_KEY = RedisCancellationToken, "backoff_ticker:token:job"


def threads():
    """Return the threads of the objects of the name "job"."""
    return [each for each in threading.enumerate() if ":job@" in each.name]


def change(shared):
    if isinstance(shared, RedisCancellationToken):
        shared.token.cancel()
    else:
        shared.open(60)


def is_changed(shared):
    if isinstance(shared, RedisCancellationToken):
        return shared.token.cancelled
    return shared.state is CircuitState.OPEN


@ANY
@pytest.mark.parametrize(
    "client, name, error, message",
    [
        (AsyncRedis(), "n", TypeError, r"redis\.Redis, .*not a redis\.asyncio"),
        (3, "n", TypeError, "client must be a redis.Redis"),
        (Redis(socket_timeout=None), "n", ValueError, "client must have a socket_timeout > 0"),
        (NO_CONNECTION, "n", ValueError, "client must have a socket_connect_timeout > 0"),
        (HANGING, "n", ValueError, "Sentinel with a socket_timeout > 0, not None"),
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
        (RedisCancellationToken, {"keep_for": float("inf")}, ValueError, "must be .* not inf"),
        (RedisCancellationToken, {"cancel_if_gone_for": -1}, ValueError, "must be .* not -1"),
        (RedisCancellationToken, {"backoff": 3}, TypeError, "backoff"),
        (RedisCircuitBreaker, {"probe_timeout": 0}, ValueError, "probe_timeout must be a finite"),
        (RedisRetryBudget, {"max_tokens": 2e6}, ValueError, "must be <= 1,000,000, not 2000000.0"),
        (RedisRetryBudget, {"keep_for": 0}, ValueError, "keep_for must be .*not 0"),
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
        (RedisRetryBudget, "budget", "eval get set"),
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
        assert all(each.wait_until_connected(PATIENCE) for each in (one, other))
        change(one)
        eventually(lambda: is_changed(other))
    assert not caplog.records


@pytest.mark.faults
@LINKED
def test_the_log_says_what_is_not_shared_and_what_is_again(connected, redis_server, kind, caplog):
    caplog.set_level("INFO", "backoff_ticker")
    shared, title = connected(kind), TITLES[kind]
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
    connected, redis_server, kind
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
def test_the_end_waits_until_a_redis_that_is_back_has_been_told(make, redis_server, kind):
    redis_server.kill()
    watcher, ending = make(kind), make(kind)
    change(ending)
    starting = in_thread(redis_server.start)
    ending.close(PATIENCE)
    starting.result(PATIENCE)
    eventually(lambda: is_changed(watcher))


@pytest.mark.faults
@LINKED
def test_a_redis_that_does_not_answer_lets_the_loop_run(make, redis_server, kind):
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


@pytest.mark.faults
@LINKED
def test_an_end_that_waits_for_redis_in_vain_says_so(connected, redis_server, kind, caplog):
    one, two = (connected(kind, name=name, socket_timeout=60) for name in ("job", "other"))
    redis_server.pause()
    for each in (one, two):
        change(each)
    one.close(0.1)
    asyncio.run(two.close_async(0.1))
    assert caplog.text.count("closed before Redis was told: Redis does not answer") == 2


@pytest.mark.faults
@LINKED
def test_a_close_in_vain_returns_after_the_report(make, redis_server, monkeypatch, kind):
    redis_server.kill()
    shared, has_returned, reports = make(kind), threading.Event(), []

    def warning(text, *args):
        if "closed before" in text:
            has_returned.wait(0.5)  # longer than close() waits for the teller, which comes first
            reports.append(text % args)

    monkeypatch.setattr("backoff_ticker.integrations._redis.client.LOGGER.warning", warning)
    change(shared)
    shared.close(0.1)
    has_returned.set()
    assert len(reports) == 1


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.parametrize("fail", [RedisServer.kill, RedisServer.pause])
def test_all_follow_a_failover(make, tmp_path, fail):
    """One that is paused leaves connections that are half open: idle ones, too."""

    def knows_first():
        with contextlib.suppress(Exception):
            return sentinel.discover_master("jobs")[1] == first.port

    with failover(tmp_path) as (first, second, port):
        sentinel = Sentinel([("127.0.0.1", port)], socket_timeout=2)
        CLIENTS.extend(sentinel.sentinels)
        eventually(knows_first)
        breaker = CircuitBreaker(ConstantBackOff(0.1), failures=1)
        client = sentinel.master_for("jobs")
        budget = RedisRetryBudget(client, "job", 5, breaker=breaker, fallback=None)
        assert budget.try_acquire()
        budget._idle += open_connections(budget, 7)
        kinds = (RedisCancellationToken, RedisCircuitBreaker)
        pairs = [[make(kind, sentinel.master_for("jobs")) for _ in range(2)] for kind in kinds]
        assert all(each.wait_until_connected(PATIENCE) for pair in pairs for each in pair)
        first.wait_for_replicas()
        fail(first)
        for one, other in pairs:
            change(one)
            eventually(lambda other=other: is_changed(other))
        eventually(budget.try_acquire)
        assert [budget.try_acquire() for _ in range(4)] == [True] * 3 + [False]
        with second.client() as client:
            assert len(client.keys("backoff_ticker:*")) == 3


@pytest.mark.faults
@LINKED
def test_a_value_of_another_kind_is_reported_until_it_is_gone(make, redis_server, kind, caplog):
    key = f"backoff_ticker:{TITLES[kind].lower()}:job"
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
def test_a_policy_that_stops_or_fails_ends_the_link(make, redis_server, backoff, message, caplog):
    redis_server.kill()
    shared = make(RedisCancellationToken, backoff=backoff)
    assert not shared.wait_until_connected(PATIENCE)
    eventually(lambda: message in caplog.text)


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
def test_a_change_is_told_although_the_object_is_dropped_at_once(connected, redis_server, kind):
    watcher = connected(kind)
    change(kind(redis_server.client(), "job"))
    gc.collect()
    eventually(lambda: is_changed(watcher))


@pytest.mark.posix
@LINKED
def test_parent_and_forked_child_tell_each_other(connected, kind):
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


@pytest.mark.faults
@pytest.mark.parametrize("is_stored", [False, True])
def test_a_cause_that_others_have_written_is_cut_and_escaped(connected, redis_server, is_stored):
    client = redis_server.client()
    text = "\x1b[2Jstopped\n2026-01-01 ERROR forged\n" + "x" * 5_000_000
    token = connected(TOKEN)
    if is_stored:
        client.set(TOKEN_KEY, text)
    else:
        client.publish(f"{TOKEN_KEY}@0", text)
    assert token.token.wait(PATIENCE)
    cause = token.token.cause
    assert cause.startswith(r"\x1b[2Jstopped\n2026-01-01 ERROR forged\nx")
    assert cause.isprintable()
    assert len(cause) < 1100
    eventually(lambda: client.exists(TOKEN_KEY))  # it is told on, as it is known here
    assert client.strlen(TOKEN_KEY) == (len(text) if is_stored else 1000)
    sent = client.info("stats")["total_net_output_bytes"]
    late = connected(TOKEN)
    assert late.token.cause == cause
    assert client.info("stats")["total_net_output_bytes"] - sent < 100_000


@pytest.mark.parametrize(
    "cause, told",
    [
        ("stopped", "stopped"),
        ("", None),
        ("ärger \ud800", "ärger ?"),
        ("x" * 5000, "x" * 1000),
        (ValueError("bad line"), "ValueError('bad line')"),
        (Unprintable(), "Unprintable"),
    ],
)
def test_a_cancel_reaches_the_twins_with_its_cause(connected, cause, told):
    one, two, other = connected(TOKEN), connected(TOKEN), connected(TOKEN, name="another job")
    assert one.token.cancel(cause)
    assert two.token.wait(PATIENCE)
    assert two.token.cause == told
    late = connected(TOKEN)
    assert late.token.cancelled
    assert late.token.cause == told
    assert one.token.cause is cause
    assert not other.token.cancelled


def test_a_block_begins_when_it_is_known_whether_the_token_is_cancelled(redis_server):
    async def begin():
        async with TOKEN(redis_server.client(), "job") as token:
            return token.cause

    for number in range(20):
        with TOKEN(redis_server.client(), "job") as token:
            assert token.cancelled is (number > 0)
            token.cancel("stopped")
    assert asyncio.run(begin()) == "stopped"


def test_after_the_block_nobody_is_told_and_nothing_is_heard(connected, redis_server):
    watcher = connected(TOKEN)
    with TOKEN(redis_server.client(), "job") as token:
        pass
    assert not token.cancelled
    token.cancel("later")
    watcher.token.cancel("by another")
    eventually(lambda: redis_server.client().get(TOKEN_KEY) == b"by another")
    assert token.cause == "later"
    with TOKEN(redis_server.client(), "other") as token:
        pass
    redis_server.client().publish("backoff_ticker:token:other@0", "heard")
    assert not token.wait(0.05)


def test_a_block_that_ends_while_a_callback_of_the_cancel_runs_tells_it(connected, redis_server):
    class Slow(Exception):
        def __repr__(self):
            if threading.current_thread() is canceller:
                begun.set()
                proceed.wait(PATIENCE)
            return "stopped"

    watcher = connected(TOKEN)
    begun, proceed = threading.Event(), threading.Event()
    with TOKEN(redis_server.client(), "job") as token:
        canceller = threading.Thread(target=token.cancel, args=[Slow()])
        canceller.start()
        assert begun.wait(PATIENCE)  # in the callback; the waiters run again
    proceed.set()
    canceller.join(PATIENCE)
    assert watcher.token.wait(PATIENCE)
    assert watcher.token.cause == "stopped"


def test_an_object_serves_for_one_block(make):
    with (twin := make(TOKEN)):
        pass
    with pytest.raises(RuntimeError, match="closed"), twin:
        pass
    assert not twin.wait_until_connected(PATIENCE)


def test_cancels_of_a_parent_and_deadlines_are_told_nobody(connected, redis_server):
    parent, late = CancellationToken(), CancellationToken(timeout=0.001)
    watcher = connected(TOKEN)
    local, timed = (connected(TOKEN, parent=each) for each in (parent, late))
    parent.cancel()
    for twin in (local, timed):
        assert twin.token.wait(PATIENCE)
        twin.close()
    assert isinstance(timed.token.cause, DeadlineExceeded)
    assert redis_server.client().get(TOKEN_KEY) is None
    assert not watcher.token.cancelled
    parent = CancellationToken(timeout=3600)
    connected(TOKEN, parent=parent).token.cancel("its own")
    assert watcher.token.wait(PATIENCE)
    assert not parent.cancelled


def test_a_cancel_is_kept_for_a_time(connected, redis_server):
    client = redis_server.client()
    one = connected(TOKEN)
    one.token.cancel("stopped")
    eventually(lambda: client.get(TOKEN_KEY))
    assert 86_000_000 < client.pttl(TOKEN_KEY) <= 86_400_000
    short = connected(TOKEN, name="short", keep_for=0.05)
    short.token.cancel("stopped")
    short.close()
    eventually(lambda: not client.get("backoff_ticker:token:short"))
    assert not connected(TOKEN, name="short").token.cancelled
    forever = connected(TOKEN, name="forever", keep_for=1e300)
    forever.token.cancel("stopped")
    eventually(lambda: client.pttl("backoff_ticker:token:forever") > 10**13)


@pytest.mark.faults
def test_a_redis_that_is_gone_for_long_cancels_the_token_of_this_process_only(make, redis_server):
    redis_server.kill()
    twin, patient = (make(TOKEN, cancel_if_gone_for=seconds) for seconds in (0.05, 3600))
    assert twin.token.wait(PATIENCE)
    assert twin.token.cause == "Redis was out of reach for 0.05 s"
    assert not patient.token.cancelled
    redis_server.start()
    assert all(each.wait_until_connected(PATIENCE) for each in (twin, patient))
    twin.close()
    assert redis_server.client().get(TOKEN_KEY) is None


@pytest.mark.faults
def test_a_redis_that_comes_back_in_time_cancels_nothing(connected, redis_server):
    twin = connected(TOKEN, cancel_if_gone_for=3600)
    redis_server.kill()
    eventually(lambda: not twin.connected)
    redis_server.start()
    assert twin.wait_until_connected(PATIENCE)
    twin._link._give_up()  # as the timer would if it were not cancelled
    assert not twin.token.cancelled
    redis_server.kill()
    eventually(lambda: not twin.connected)
    twin._link._give_up()
    assert twin.token.cause == "Redis was out of reach for 3600 s"


@pytest.mark.faults
def test_a_redis_that_does_not_answer_holds_nobody_up(connected, make, redis_server):
    one, two, idle = (connected(TOKEN, socket_timeout=60) for _ in range(3))
    redis_server.pause()
    started = time.monotonic()
    idle.close(timeout=60)
    one.token.cancel("stopped")
    with make(TOKEN, socket_timeout=0.3) as token:  # as long as the client waits for an answer
        assert not token.cancelled
    assert time.monotonic() - started < 2 * PATIENCE
    redis_server.resume()
    assert two.token.wait(PATIENCE)


@pytest.mark.faults
def test_a_cancel_reaches_the_twins_although_redis_is_full(connected, redis_server):
    one, two = connected(TOKEN), connected(TOKEN)
    redis_server.client().config_set("maxmemory", 1)
    one.token.cancel("stopped")
    assert two.token.wait(PATIENCE)
    assert redis_server.client().get(TOKEN_KEY) is None
    redis_server.client().config_set("maxmemory", 0)
    eventually(lambda: redis_server.client().get(TOKEN_KEY) == b"stopped")


PROGRAM_TEXT = """
import atexit, os, signal, sys
if sys.argv[2] == "gone":  # registered first, so called after the end of the links
    atexit.register(lambda: print("took", time.monotonic() - began))
from redis import Redis
from backoff_ticker.integrations.redis import RedisCancellationToken

client = Redis.from_url(sys.argv[1], socket_timeout=1)
twin, *others = [RedisCancellationToken(client, name) for name in ("job", "a", "b", "c")]
if sys.argv[2] != "gone":
    assert twin.wait_until_connected(10)
print("ready", flush=True)
"""


def program(redis_server, tmp_path, kind, text):
    (tmp_path / "program.py").write_text(PROGRAM_TEXT + text, "utf-8")
    return Process(tmp_path, "-Xdev", "-Werror", "program.py", redis_server.url, kind)


@pytest.mark.parametrize(
    "end",
    [
        "twin.token.cancel('at the end'); sys.exit(0)",
        "twin.token.cancel('at the end'); import atexit; atexit.register(print)",
        "signal.signal(1, lambda *_: twin.token.cancel('at the end')); signal.raise_signal(1)",
    ],
)
def test_a_cancel_right_before_the_end_of_the_program_is_told(redis_server, tmp_path, end):
    with program(redis_server, tmp_path, "there", end) as process:
        assert process.wait() == 0
        assert [line for line in process.lines if line] == ["ready"]  # and no warning
    assert redis_server.client().get(TOKEN_KEY) == b"at the end"


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.parametrize("fail", [RedisServer.kill, RedisServer.pause])
def test_a_program_waits_for_a_redis_that_is_gone_for_a_time_only(redis_server, tmp_path, fail):
    fail(redis_server)
    cancel = "for each in [twin, *others]: each.token.cancel()\n"
    for last, untold, least, most in [("", 0, 0, 4), (cancel, 4, 4, 12)]:
        text = f"{last}import time; began = time.monotonic()\n"
        with program(redis_server, tmp_path, "gone", text) as process:
            assert process.wait() == 0
            assert process.count("closed before Redis was told") == untold
            (seconds,) = (line for line in process.lines if line.startswith("took "))
        assert least < float(seconds.removeprefix("took ")) < most


def test_the_programs_of_the_page_stop_each_other(redis_server, tmp_path):
    write_files("cancel_everywhere.md", tmp_path)
    env = {"REDIS_URL": redis_server.url}
    with (
        Process(tmp_path, "worker.py", "17", env=env) as one,
        Process(tmp_path, "worker.py", "17", env=env) as two,
    ):
        one.wait_for("working")
        two.wait_for("working")
        with Process(tmp_path, "stop.py", "17", env=env) as stop:
            assert stop.wait() == 0
        with Process(tmp_path, "worker.py", "17", env=env) as late:
            for worker in (one, two, late):
                assert worker.wait() == 0
                assert worker.lines == ["working", "ended: stopped by the operator"]


def test_a_token_whose_object_was_dropped_goes_on(connected, redis_server):
    one = connected(TOKEN)
    token = TOKEN(redis_server.client(), "job").token
    gc.collect()
    one.token.cancel("stopped")
    assert token.wait(PATIENCE)


def test_clients_of_other_databases_hear_nothing(connected, redis_server):
    here, here_too = connected(TOKEN), connected(TOKEN)
    client = Redis(port=redis_server.port, db=1, socket_timeout=1, decode_responses=True)
    there, there_too = (connected(TOKEN, client=client) for _ in range(2))
    there.token.cancel("there")
    assert there_too.token.wait(PATIENCE)
    assert there_too.token.cause == "there"
    here_too.token.cancel("here")
    assert here.token.wait(PATIENCE)
    assert here.token.cause == "here", "it would have heard the other one first"


def test_a_block_for_threads_blocks_a_loop_and_warns(make, redis_server):
    async def main():
        with make(TOKEN, socket_timeout=0.1):
            pass

    redis_server.pause()  # so that the block has to wait
    try:
        with pytest.warns(RuntimeWarning, match="blocks the event loop") as warned:
            asyncio.run(main())
    finally:
        redis_server.resume()
    assert {warning.filename for warning in warned} == {__file__}

"""Tokens that are cancelled everywhere, with a real Redis that is there, gone, slow or empty."""

from __future__ import annotations

import asyncio
import gc
import threading
import time

import pytest
from redis import Redis

from backoff_ticker import CancellationToken, ConstantBackOff, DeadlineExceeded
from backoff_ticker.integrations.redis import RedisCancellationToken
from tests.helpers import PATIENCE, eventually
from tests.integrations.processes import Process, write_files
from tests.integrations.redis_server import RedisServer

pytestmark = pytest.mark.timeout(40)

KEY = "backoff_ticker:token:job"


class Unprintable(Exception):
    """An error that cannot be shown."""

    def __repr__(self):
        raise RuntimeError


@pytest.fixture
def make(redis_server):
    """Return what makes twins, which are closed at the end and leave no thread behind."""
    made = []

    def make(name="job", *, server=redis_server, client=None, socket_timeout=PATIENCE, **options):
        client = client or server.client(socket_timeout=socket_timeout)
        twin = RedisCancellationToken(client, name, **{"backoff": ConstantBackOff(0.01), **options})
        made.append(twin)
        return twin

    yield make
    for each in made:
        each.close()
    eventually(lambda: not any(KEY in thread.name for thread in threading.enumerate()))


@pytest.fixture
def connected(make):
    """Return what makes twins that are connected."""

    def connected(*args, **options):
        twin = make(*args, **options)
        assert twin.wait_until_connected(PATIENCE)
        return twin

    return connected


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
    one, two, other = connected(), connected(), connected("another job")
    assert one.token.cancel(cause)
    assert two.token.wait(PATIENCE)
    assert two.token.cause == told
    late = connected()
    assert late.token.cancelled
    assert late.token.cause == told
    assert one.token.cause is cause
    assert not other.token.cancelled


def test_a_block_begins_when_it_is_known_whether_the_token_is_cancelled(redis_server):
    for number in range(20):
        with RedisCancellationToken(redis_server.client(), "job") as token:
            assert token.cancelled is (number > 0)
            token.cancel("stopped")


def test_after_the_block_nobody_is_told_and_nothing_is_heard(connected, redis_server):
    watcher = connected()
    with RedisCancellationToken(redis_server.client(), "job") as token:
        pass
    assert not token.cancelled
    token.cancel("later")
    watcher.token.cancel("by another")
    eventually(lambda: redis_server.client().get(KEY) == b"by another")
    assert token.cause == "later"
    with RedisCancellationToken(redis_server.client(), "other") as token:
        pass
    redis_server.client().publish("backoff_ticker:token:other@0", "heard")
    assert not token.wait(0.05)


def test_a_block_that_ends_before_the_callbacks_of_the_cancel_have_run_tells_it(
    connected, redis_server
):
    class Slow(Exception):
        def __repr__(self):
            if threading.current_thread() is canceller:
                begun.set()
                proceed.wait(PATIENCE)
            return "stopped"

    watcher = connected()
    begun, proceed = threading.Event(), threading.Event()
    with RedisCancellationToken(redis_server.client(), "job") as token:
        canceller = threading.Thread(target=token.cancel, args=[Slow()])
        canceller.start()
        assert begun.wait(PATIENCE)  # in the callback; the waiters run again
    proceed.set()
    canceller.join(PATIENCE)
    assert watcher.token.wait(PATIENCE)
    assert watcher.token.cause == "stopped"


def test_an_object_serves_for_one_block(make):
    twin = make()
    with twin:
        pass
    with pytest.raises(RuntimeError, match="closed"), twin:
        pass
    assert not twin.wait_until_connected(PATIENCE)


def test_cancels_of_a_parent_and_deadlines_are_told_nobody(connected, redis_server):
    parent = CancellationToken()
    local, watcher = connected(parent=parent), connected()
    parent.cancel()
    assert local.token.cancelled
    timed = connected(parent=CancellationToken(timeout=0.001))
    assert timed.token.wait(PATIENCE)
    assert isinstance(timed.token.cause, DeadlineExceeded)
    for twin in (local, timed):
        twin.close()
    assert redis_server.client().get(KEY) is None
    assert not watcher.token.cancelled
    parent = CancellationToken(timeout=3600)
    connected(parent=parent).token.cancel("its own")
    assert watcher.token.wait(PATIENCE)
    assert not parent.cancelled


def test_a_cancel_is_kept_for_a_time(connected, redis_server):
    client = redis_server.client()
    one = connected()
    one.token.cancel("stopped")
    eventually(lambda: client.get(KEY))
    assert 86_000_000 < client.pttl(KEY) <= 86_400_000
    short = connected("short", keep_for=0.05)
    short.token.cancel("stopped")
    short.close()
    eventually(lambda: not client.get("backoff_ticker:token:short"))
    assert not connected("short").token.cancelled
    forever = connected("forever", keep_for=1e300)
    forever.token.cancel("stopped")
    eventually(lambda: client.pttl("backoff_ticker:token:forever") > 10**13)


# A Redis that fails


@pytest.mark.faults
def test_a_redis_that_is_gone_for_long_cancels_the_token_of_this_process_only(make, redis_server):
    redis_server.kill()
    twin = make(cancel_if_gone_for=0.05)
    patient = make(cancel_if_gone_for=3600)
    assert twin.token.wait(PATIENCE)
    assert twin.token.cause == "Redis was out of reach for 0.05 s"
    assert not patient.token.cancelled
    redis_server.start()
    assert twin.wait_until_connected(PATIENCE)
    assert patient.wait_until_connected(PATIENCE)
    twin.close()
    assert redis_server.client().get(KEY) is None


@pytest.mark.faults
def test_a_redis_that_comes_back_in_time_cancels_nothing(connected, redis_server):
    twin = connected(cancel_if_gone_for=3600)
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
    one, two, idle = (connected(socket_timeout=60) for _ in range(3))
    redis_server.pause()
    started = time.monotonic()
    idle.close(timeout=60)
    one.token.cancel("stopped")
    with make(socket_timeout=0.3) as token:  # as long as the client waits for an answer
        assert not token.cancelled
    assert time.monotonic() - started < 2 * PATIENCE
    redis_server.resume()
    assert two.token.wait(PATIENCE)


@pytest.mark.faults
def test_a_cancel_reaches_the_twins_although_redis_is_full(connected, redis_server):
    one, two = connected(), connected()
    redis_server.client().config_set("maxmemory", 1)
    one.token.cancel("stopped")
    assert two.token.wait(PATIENCE)
    assert redis_server.client().get(KEY) is None
    redis_server.client().config_set("maxmemory", 0)
    eventually(lambda: redis_server.client().get(KEY) == b"stopped")


# Processes, and ends of processes


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
    assert redis_server.client().get(KEY) == b"at the end"


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


# Lifetimes


def test_a_token_whose_object_was_dropped_goes_on(connected, redis_server):
    one = connected()
    token = RedisCancellationToken(redis_server.client(), "job").token
    gc.collect()
    one.token.cancel("stopped")
    assert token.wait(PATIENCE)


def test_clients_of_other_databases_hear_nothing(connected, redis_server):
    here, here_too = connected(), connected()
    client = Redis(port=redis_server.port, db=1, socket_timeout=1, decode_responses=True)
    there, there_too = (connected(client=client) for _ in range(2))
    there.token.cancel("there")
    assert there_too.token.wait(PATIENCE)
    assert there_too.token.cause == "there"
    here_too.token.cancel("here")
    assert here.token.wait(PATIENCE)
    assert here.token.cause == "here", "it would have heard the other one first"


def test_a_block_for_threads_is_refused_in_a_loop(make, redis_server):
    async def main():
        with make():
            pass

    redis_server.pause()  # so that the block has to wait
    try:
        with pytest.raises(RuntimeError, match="async with RedisCancellationToken"):
            asyncio.run(main())
    finally:
        redis_server.resume()

"""The link that keeps processes and Redis informed of each other, with a real Redis that fails."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from pathlib import Path

import pytest

from backoff_ticker import (
    ConstantBackOff,
    with_max_retries,
)
from backoff_ticker.integrations._redis import link as redis_link
from backoff_ticker.integrations._redis.link import Link
from tests.helpers import PATIENCE, eventually, wait_until_collected

pytestmark = pytest.mark.timeout(30)

FILES = Path("/proc/self/fd")
REMEMBER = """
local known = redis.call("GET", KEYS[1])
if known then return known end
if ARGV[1] ~= "" then
    redis.call("SET", KEYS[1], ARGV[1])
    redis.call("PUBLISH", KEYS[1], ARGV[1])
end
return ARGV[1]
"""


class Knower:
    """Knows one text, once anybody has told it."""

    def __init__(self, server, *, socket_timeout=PATIENCE, **options):
        self.knows = b""
        self.exchanges = 0
        self.connections = []
        client = server.client(socket_timeout=socket_timeout)
        options = {"backoff": ConstantBackOff(0.01), **options}
        self.link = Link(
            client,
            "news",
            title="News",
            exchange=self.exchange,
            on_message=self.hear,
            on_connection=self.connections.append,
            **options,
        )

    def exchange(self, execute):
        self.exchanges += 1
        self.hear(execute("EVAL", REMEMBER, 1, "news", self.knows))

    def hear(self, text):
        self.knows = self.knows or text

    def tell(self, text):
        self.knows = text
        self.link.tell()

    def wait(self):
        assert self.link.until_connected().wait(PATIENCE)
        assert self.link.connected


@pytest.fixture
def make(redis_server):
    made = []

    def make(**options):
        made.append(Knower(redis_server, **options))
        return made[-1]

    yield make
    for each in made:
        each.link.close()
        eventually(lambda: each.link not in redis_link._links)


def test_a_redis_that_has_forgotten_is_reminded(make, redis_server):
    one = make(socket_timeout=1.0)
    one.tell(b"stop")
    client = redis_server.client()
    eventually(lambda: client.get("news"))
    client.flushall()
    eventually(lambda: client.get("news"))


def test_an_exchange_that_fails_is_repeated_at_the_pace_of_the_policy(make, redis_server):
    one = make()
    one.wait()
    client = redis_server.client()
    client.lpush("other", 1)
    client.rename("other", "news")  # a value of the wrong type
    before = one.exchanges
    one.tell(b"stop")
    eventually(lambda: one.exchanges > before + 5)
    assert not one.link.connected
    client.delete("news")
    one.wait()
    assert client.get("news") == b"stop"


def test_a_callback_that_raises_ends_no_thread(make, redis_server):
    one = make()
    one.wait()

    def leave(text):
        one.link._on_message = one.hear
        raise SystemExit

    one.link._on_message = leave
    redis_server.client().publish("news", "hello")
    eventually(lambda: one.connections == [False, True, False, True])


def test_a_link_whose_policy_stops_is_closed(make, redis_server, caplog):
    redis_server.kill()
    one = make(backoff=with_max_retries(ConstantBackOff(0.001), 3))
    assert one.link.until_connected().wait(PATIENCE)
    assert not one.link.connected
    eventually(lambda: "the policy has stopped" in caplog.text)


class Fails:
    """A policy that fails when it is asked for a delay."""

    def next_backoff(self):
        raise LookupError("no delay")

    def reset(self):
        pass


def test_a_link_whose_policy_fails_is_closed(make, redis_server, caplog):
    redis_server.kill()
    one = make(backoff=Fails())
    assert one.link.until_connected().wait(PATIENCE)
    eventually(lambda: "the policy has failed" in caplog.text)
    assert "LookupError: no delay" in caplog.text


def test_without_a_second_thread_the_first_ends(redis_server, monkeypatch):
    start = threading.Thread.start
    started = []

    def start_one(thread):
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_one)
    with pytest.raises(RuntimeError, match="new thread"):
        Knower(redis_server)
    started[0].join(PATIENCE)
    assert not started[0].is_alive()
    assert not redis_link._links


def test_the_end_of_the_program_takes_the_same_time_for_many_links(make, redis_server, monkeypatch):
    monkeypatch.setattr(redis_link, "FLUSH", 1.0)
    made = [make() for _ in range(20)]
    for each in made:
        each.wait()
    redis_server.pause()
    for each in made:
        each.link._exchange = lambda _execute: released.wait(PATIENCE)
        each.tell(b"stop")
    released = threading.Event()
    started = time.monotonic()
    redis_link._close_all()
    assert time.monotonic() - started < PATIENCE  # one after the other would take 20 s
    released.set()
    redis_server.resume()


def test_the_end_of_a_link_frees_it(redis_server):
    before = threading.enumerate()  # threads of other links that are just ending
    one = Knower(redis_server)
    one.wait()
    started = set(threading.enumerate()) - set(before)
    threads = [thread for thread in started if "news" in thread.name]
    assert len(threads) == 2
    one.link.close()
    one.link.close()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    link = weakref.ref(one.link)
    del one
    wait_until_collected(link)


@pytest.mark.posix
@pytest.mark.skipif(not FILES.exists(), reason="there is no /proc")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_keeps_no_connection_of_its_parent(make):
    one = make()
    one.wait()
    numbers = [each._sock.fileno() for each in (one.link._listening, one.link._telling)]
    ours = [(FILES / str(number)).readlink() for number in numbers]
    child = os.fork()
    if child == 0:
        status = 1
        try:
            theirs = []
            for file in FILES.iterdir():
                with contextlib.suppress(OSError):
                    theirs.append(file.readlink())
            status = any(each in theirs for each in ours)
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert one.link.connected

"""Tasks that are retried by real workers, whose broker is a real Redis: none is lost."""

from __future__ import annotations

import http.server
import json
import os
import signal
import threading
import time
from collections import defaultdict
from itertools import pairwise

import celery
import pytest

from tests.integrations.processes import PATIENCE, Process
from tests.integrations.redis_server import RedisServer, needs_redis

pytestmark = [pytest.mark.slow, pytest.mark.posix, pytest.mark.timeout(120), needs_redis]

DELAYS = [0.1, 0.2, 0.4]
VISIBILITY_TIMEOUT = 6
EARLY = 0.01
"""Seconds by which Celery may begin a task too early: it compares clocks of different kinds."""

TASKS = """\
import http.client
import os

from celery import Celery

from backoff_ticker import ExponentialBackOff
from backoff_ticker.integrations.celery import retry_task, shutdown_token

app = Celery("tasks", broker=os.environ["REDIS"], backend=os.environ["REDIS"])
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={
        "visibility_timeout": float(os.environ["VISIBILITY_TIMEOUT"]),
        "unacked_restore_interval": 0.2,
        "unacked_restore_throttle": 1,
        "unacked_mutex_expire": 2,  # of the lock that a kill in the middle of a restore leaves
    },
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=0,  # so that workers take all messages
)
policy = ExponentialBackOff(0.1, randomization_factor=0, multiplier=2)


class Failed(Exception):
    pass


def get(path):
    connection = http.client.HTTPConnection("127.0.0.1", int(os.environ["SERVICE"]), timeout=30)
    try:
        connection.request("GET", f"/{path}", headers={"Process": str(os.getpid())})
        response = connection.getresponse()
        if response.status != 200:
            raise Failed(response.status)
        return response.read().decode()
    finally:
        connection.close()


@app.task(max_retries=4)
@retry_task(policy, on=(Failed, OSError, http.client.HTTPException))
def fetch(path):
    return get(path)
"""


class Service:
    """A service that answers each path with 503 so many times, then with 200; it counts calls.

    While its gate is closed, it answers first calls only, and the others hang.
    """

    def __init__(self, failures):
        self.calls = defaultdict(list)
        self.processes = []
        self.news = threading.Condition()
        self.gate = threading.Event()
        self.gate.set()
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                with service.news:
                    calls = service.calls[self.path[1:]]
                    calls.append(time.monotonic())
                    service.processes.append(int(self.headers["Process"]))
                    status = 503 if len(calls) <= failures else 200
                    has_to_wait = len(calls) > 1
                    service.news.notify_all()
                if has_to_wait:
                    service.gate.wait(PATIENCE)
                self.send_response(status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"42")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *_: None  # clients that were killed
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))

    def wait_for(self, number):
        """Wait until it was called so many times in all."""
        with self.news:
            assert self.news.wait_for(lambda: self.total() >= number, PATIENCE), self.total()

    def total(self):
        return sum(map(len, self.calls.values()))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.gate.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def broker(tmp_path):
    with RedisServer(tmp_path / "redis", durable=True) as server:
        yield server


class Sender:
    """What sends tasks to the workers and looks for their results."""

    def __init__(self, broker):
        self.app = celery.Celery("tasks", broker=broker.url, set_as_current=False)
        self.broker = broker
        self.sent = []

    def send(self, *paths):
        self.sent += [self.app.send_task("tasks.fetch", (path,)).id for path in paths]

    def wait_for_messages(self, queued, unacknowledged):
        """Wait until so many messages are in the queue, and with workers; none is on its way."""
        end = time.monotonic() + PATIENCE
        with self.broker.client(socket_timeout=PATIENCE) as client:
            while (client.llen("celery"), client.hlen("unacked")) != (queued, unacknowledged):
                assert time.monotonic() < end, (client.llen("celery"), client.hlen("unacked"))
                time.sleep(0.01)

    def results(self):
        """Return the states and results of all tasks once they have ended."""
        end = time.monotonic() + PATIENCE
        keys = [f"celery-task-meta-{each}" for each in self.sent]
        with self.broker.client(socket_timeout=PATIENCE) as client:
            while True:
                found = [json.loads(each or "{}") for each in client.mget(keys)]
                states = [each.get("status") for each in found]
                if {"SUCCESS", "FAILURE"}.issuperset(states):
                    return found
                assert time.monotonic() < end, states
                time.sleep(0.02)


@pytest.fixture
def sender(broker, tmp_path):
    (tmp_path / "tasks.py").write_text(TASKS)
    made = Sender(broker)
    yield made
    made.app.close()


def worker(tmp_path, broker, service, pool, visibility_timeout=3600):
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "INFO"]
    options = ["worker", "--pool", pool, "--concurrency", "4", *quiet]
    env = {
        "REDIS": broker.url,
        "SERVICE": str(service.server.server_port),
        "VISIBILITY_TIMEOUT": str(visibility_timeout),
    }
    return Process(tmp_path, "-m", "celery", "-A", "tasks:app", *options, env=env)


def gaps(times):
    return [after - before for before, after in pairwise(times)]


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_each_task_is_retried_at_the_times_of_the_policy(tmp_path, broker, sender, pool):
    with Service(len(DELAYS)) as service, worker(tmp_path, broker, service, pool) as process:
        sender.send(*"abcdefghij")
        assert [found["result"] for found in sender.results()] == ["42"] * 10
        assert sorted(service.calls) == list("abcdefghij")
        for times in service.calls.values():
            assert len(times) == 1 + len(DELAYS)
            assert all(gap >= delay - EARLY for gap, delay in zip(gaps(times), DELAYS, strict=True))
        process.wait_for("Retry in 0.4s", 10)


def test_a_task_that_goes_on_failing_fails_with_its_error(tmp_path, broker, sender):
    with Service(99) as service, worker(tmp_path, broker, service, "threads"):
        sender.send("a")
        (found,) = sender.results()
        assert (found["status"], found["result"]["exc_message"]) == ("FAILURE", [503])
        assert "gave up after 5 attempts: max_retries is 4" in found["traceback"]
        assert len(service.calls["a"]) == 5


MANY = 20


def send_until_half_done(sender, service):
    """Send many tasks; each fails once, then four are in the middle of a call, the others wait."""
    service.gate.clear()
    sender.send(*map(str, range(MANY)))
    service.wait_for(MANY + 4)
    sender.wait_for_messages(0, MANY)


def assert_all_succeed(sender, service):
    """Each task has succeeded, and no message came more than once again."""
    assert [found["result"] for found in sender.results()] == ["42"] * MANY
    sender.wait_for_messages(0, 0)
    calls = [len(times) for times in service.calls.values()]
    assert len(calls) == MANY
    assert 3 <= min(calls) <= max(calls) <= 3 + 2


def test_no_task_is_lost_with_a_worker_that_is_killed(tmp_path, broker, sender):
    with Service(2) as service:
        with worker(tmp_path, broker, service, "prefork") as process:
            send_until_half_done(sender, service)
            process.kill()
        service.gate.set()
        with worker(tmp_path, broker, service, "prefork", VISIBILITY_TIMEOUT):
            assert_all_succeed(sender, service)


def test_no_task_is_lost_with_a_process_of_the_pool_that_is_killed(tmp_path, broker, sender):
    with Service(2) as service, worker(tmp_path, broker, service, "prefork") as process:
        send_until_half_done(sender, service)
        os.kill(service.processes[-1], signal.SIGKILL)
        process.wait_for("WorkerLostError")
        service.gate.set()
        assert_all_succeed(sender, service)
        assert service.total() == 3 * MANY  # that call was the second of its task


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_no_task_is_lost_with_a_broker_that_is_killed(tmp_path, broker, sender, pool):
    with (
        Service(2) as service,
        worker(tmp_path, broker, service, pool, VISIBILITY_TIMEOUT) as process,
    ):
        send_until_half_done(sender, service)
        broker.kill()
        service.gate.set()
        process.wait_for("reject requeue=True")  # what fails now cannot be sent back
        broker.start()
        assert_all_succeed(sender, service)

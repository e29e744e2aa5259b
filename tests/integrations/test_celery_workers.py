"""Tasks that are retried by real workers, whose broker is a real Redis: none is lost."""

import http.server
import json
import os
import signal
import threading
import time
from collections import Counter
from contextlib import ExitStack

import celery
import pytest

from tests.helpers import eventually
from tests.integrations.processes import PATIENCE, Process
from tests.integrations.redis_server import RedisServer, needs_redis

pytestmark = [pytest.mark.slow, pytest.mark.posix, pytest.mark.timeout(180), needs_redis]

TASKS = """\
import http.client
import os

from celery import Celery

from backoff_ticker import ExponentialBackOff
from backoff_ticker.integrations.celery import retry_task, shutdown_token

app = Celery("tasks", broker=os.environ["REDIS"], backend=os.environ["REDIS"])
app.conf.update(
    broker_connection_retry_on_startup=True,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=0,  # so that workers take all messages
)
policy = ExponentialBackOff(0.1, randomization_factor=0, multiplier=2)


class Failed(Exception):
    pass


def get(path):
    connection = http.client.HTTPConnection("127.0.0.1", int(os.environ["SERVICE"]), timeout=60)
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
    """A service that answers each path with 503 twice, then with 200; it counts calls.

    While it is closed, as at first, it answers first calls only, and the others hang.

    Attributes:
        calls: How often each path was called.
        hung: The processes whose calls have hung.
    """

    def __init__(self):
        self.calls = Counter()
        self.hung = []
        self.news = threading.Condition()
        self.gate = threading.Event()
        self.is_closed = True
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                with service.news:
                    service.calls[self.path] += 1
                    calls = service.calls[self.path]
                    status = 503 if calls <= 2 else 200
                    hangs, gate = service.is_closed and calls > 1, service.gate
                    if hangs:
                        service.hung.append(int(self.headers["Process"]))
                        service.news.notify_all()
                if hangs:
                    gate.wait(PATIENCE)
                self.send_response(status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"42")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *_: None  # clients that were killed
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))

    def wait_until_hung(self, number):
        """Wait until so many calls have hung in all."""
        with self.news:
            assert self.news.wait_for(lambda: len(self.hung) >= number, PATIENCE), self.hung

    def release(self, *, closed):
        """Answer the calls that hang; later ones hang again, or do not."""
        with self.news:
            gate, self.gate, self.is_closed = self.gate, threading.Event(), closed
        gate.set()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.release(closed=False)
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

    def wait_until_workers_have_all(self):
        """Wait until workers have a message of each task that is not done."""

        def have_all(client):
            held = [json.loads(each)[0] for each in client.hvals("unacked")]
            rest = {*self.sent} - {each["headers"]["id"] for each in held}
            found = [client.get(f"celery-task-meta-{each}") or b"" for each in rest]
            return all(b'"SUCCESS"' in each for each in found)

        with self.broker.client(socket_timeout=PATIENCE) as client:
            eventually(lambda: have_all(client))

    def wait_until_one_listens(self, process):
        """Wait until a worker takes messages from the broker, or has ended."""
        with self.broker.client(socket_timeout=PATIENCE) as client:
            takes = lambda: "brpop" in [each["cmd"] for each in client.client_list()]
            eventually(lambda: process.has_ended or takes())

    def redeliver(self):
        """Put all messages that workers hold back, as kombu does after the visibility timeout."""
        with self.app.connection(transport_options={"visibility_timeout": 0}) as connection:
            connection.default_channel.qos.restore_visible(num=None, interval=1)

    def results(self):
        """Return the results of all tasks once they have ended."""
        end = time.monotonic() + PATIENCE
        keys = [f"celery-task-meta-{each}" for each in self.sent]
        with self.broker.client(socket_timeout=PATIENCE) as client:
            while True:
                found = [json.loads(each or "{}") for each in client.mget(keys)]
                states = [each.get("status") for each in found]
                if {"SUCCESS", "FAILURE"}.issuperset(states):
                    return [each["result"] for each in found]
                assert time.monotonic() < end, states
                time.sleep(0.02)


@pytest.fixture
def sender(broker, tmp_path):
    (tmp_path / "tasks.py").write_text(TASKS)
    made = Sender(broker)
    yield made
    made.app.close()


PROCESSES = 4


def worker(tmp_path, broker, service):
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "INFO"]
    options = ["worker", "--pool", "prefork", "--concurrency", str(PROCESSES), *quiet]
    env = {"REDIS": broker.url, "SERVICE": str(service.server.server_port)}
    return Process(tmp_path, "-m", "celery", "-A", "tasks:app", *options, env=env)


TASKS_AT_ONCE = 50


@pytest.mark.faults
def test_no_task_is_lost_with_a_process_of_the_pool_the_broker_or_a_worker(
    tmp_path, broker, sender
):
    """Each is killed while a call hangs in each process, and all other messages are in memory."""
    with Service() as service:
        with ExitStack() as stack:
            process = stack.enter_context(worker(tmp_path, broker, service))
            sender.send(*map(str, range(TASKS_AT_ONCE)))
            service.wait_until_hung(PROCESSES)
            sender.wait_for_messages(0, TASKS_AT_ONCE)

            os.kill(service.hung[-1], signal.SIGKILL)
            process.wait_for("WorkerLostError")
            service.wait_until_hung(PROCESSES + 1)
            sender.wait_for_messages(0, TASKS_AT_ONCE)

            broker.kill()
            broker.start()
            service.release(closed=True)
            # Celery 5.6 connects again. 5.7 ends, and whoever looks after it starts it again.
            sender.wait_until_one_listens(process)
            if process.has_ended:
                process.kill()
                process = stack.enter_context(worker(tmp_path, broker, service))
                sender.wait_until_one_listens(process)
            sender.redeliver()
            service.wait_until_hung(2 * PROCESSES + 1)
            sender.wait_until_workers_have_all()  # those that were under way twice, perhaps

            process.kill()
        sender.redeliver()
        service.release(closed=False)
        with worker(tmp_path, broker, service):
            assert sender.results() == ["42"] * TASKS_AT_ONCE
            sender.wait_for_messages(0, 0)
    calls = service.calls
    assert (len(calls), min(calls.values())) == (TASKS_AT_ONCE, 3)
    assert calls.total() <= 3 * TASKS_AT_ONCE + len(service.hung)


CIRCUIT = """\
import os

from celery import Celery

from backoff_ticker import CircuitBreaker
from backoff_ticker.integrations.celery import retry_task

breaker = CircuitBreaker()
breaker.open(16)
app = Celery("tasks", broker=os.environ["REDIS"])
options = {"visibility_timeout": 3, "unacked_restore_interval": 1, "unacked_restore_throttle": 1}
app.conf.update(broker_transport_options=options, broker_connection_retry_on_startup=True)


@app.task(max_retries=0)
@retry_task(breaker=breaker)
def fetch(path):
    print(f"done {path}", flush=True)
"""
"""A worker that finds the circuit open for longer than the broker waits for a message."""


@pytest.mark.faults
def test_a_circuit_that_is_open_for_long_does_not_double_tasks(tmp_path, broker, sender):
    (tmp_path / "tasks.py").write_text(CIRCUIT)
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "WARNING"]
    options = ["worker", "--pool", "threads", "--concurrency", "2", *quiet]
    paths = [str(number) for number in range(10)]
    with Process(
        tmp_path, "-m", "celery", "-A", "tasks:app", *options, env={"REDIS": broker.url}
    ) as p:
        sender.send(*paths)
        p.wait_for("done", len(paths))
        sender.wait_for_messages(0, 0)
        assert [p.count(f"done {path}") for path in paths] == [1] * len(paths)

"""The example of a fleet that Celery polls: no device is lost, and doubled messages die out."""

import http.server
import importlib.util
import logging
import os
import signal
import sqlite3
import threading
import time
import uuid
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime

import celery
import pytest

from tests.helpers import eventually
from tests.integrations.processes import PATIENCE, ROOT, Process
from tests.integrations.redis_server import RedisServer, needs_redis

measured = logging.getLogger("measured")  # with --log-cli-level=INFO
EXAMPLES = ROOT / "examples" / "integrations"
NEW = "INSERT INTO devices (name) VALUES (?)"
COUNT = "SELECT name, number FROM devices"


# One message at a time


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("fleet", EXAMPLES / "use_celery_fleet.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def fleet(example, tmp_path, monkeypatch):
    """The program, with an empty database, and a broker in memory."""
    monkeypatch.setenv("DATABASE", str(tmp_path / "fleet.db"))
    monkeypatch.setattr(example, "asked", Counter())
    example.app.conf.task_default_queue = uuid.uuid4().hex  # queues belong to the process
    example.query(example.TABLE)
    return example


def received(fleet):
    """Return the ids, arguments and countdowns of the messages, and take these away."""
    found = []
    with fleet.app.connection() as connection, connection.channel() as channel:
        while message := channel.basic_get(fleet.app.conf.task_default_queue, no_ack=True):
            eta = message.headers["eta"]
            due = datetime.fromisoformat(eta) if eta else datetime.now(UTC)
            seconds = round((due - datetime.now(UTC)).total_seconds())
            found.append((message.headers["id"], message.payload[0], seconds))
    return found


def run(fleet, message, *args):
    """Do what a worker does with a message of that id."""
    assert fleet.poll.apply(args, task_id=message).get() is None


@pytest.mark.parametrize(
    "row, message, polls",
    [
        ((0, None), (1, "a"), 1),
        ((1, "a"), (1, "a"), 1),  # delivered again
        ((1, "a"), (1, "b"), 0),  # of two chains the first wins
        ((2, "b"), (1, "a"), 0),
        ((1, "a"), (3, "b"), 1),  # of a device that was taken out and put in again
        (None, (1, "a"), 0),  # taken out
    ],
)
def test_a_message_polls_if_it_is_the_latest_of_its_device(fleet, row, message, polls):
    if row:
        fleet.query("INSERT INTO devices (name, number, message) VALUES ('ant', ?, ?)", *row)
    number, name = message
    run(fleet, name, "ant", number)
    assert fleet.asked.total() == polls
    assert [args for _, args, _ in received(fleet)] == [["ant", number + 1, 0]] * polls


def test_a_doubled_chain_dies_out_in_the_next_round(fleet):
    fleet.query(NEW, "ant")
    run(fleet, "a", "ant", 1)
    run(fleet, "a", "ant", 1)  # sent again before it was acknowledged
    doubled = received(fleet)
    assert [args for _, args, _ in doubled] == [["ant", 2, 0]] * 2
    for message, args, _ in doubled:
        run(fleet, message, *args)
    assert (fleet.asked["ant"], len(received(fleet))) == (3, 1)


def test_a_device_is_polled_every_so_often_and_after_failures_with_back_off(fleet, monkeypatch):
    monkeypatch.setattr(fleet, "BACKOFF", fleet.ExponentialBackOff(100, 0, 2, 600))
    fleet.query(NEW, "bee")  # which fails at the second time
    args, countdowns = ["bee", 1], []
    for _ in range(3):
        run(fleet, uuid.uuid4().hex, *args)
        [(_, args, countdown)] = received(fleet)
        countdowns.append((args[2], countdown))
    assert countdowns == [(0, 60), (1, 100), (0, 60)]
    run(fleet, "another", "bee", 5, 3)
    assert received(fleet)[0][1:] == (["bee", 6, 0], 60)


def test_an_error_of_the_database_is_retried(fleet, monkeypatch):
    fleet.query(NEW, "ant")
    query, errors = fleet.query, [sqlite3.OperationalError("database is locked")]
    monkeypatch.setattr(fleet, "query", lambda *args: query(*args) if not errors else fail(errors))
    run(fleet, "a", "ant", 1)
    assert (fleet.asked["ant"], errors) == (1, [])


def fail(errors):
    raise errors.pop()


def test_a_sweep_sends_for_new_and_for_silent_devices_once_and_spreads_them(fleet):
    for number in range(4):
        fleet.query(NEW, f"device-{number}")
    fleet.sweep()
    fleet.sweep()
    sent = [(args, countdown) for _, args, countdown in received(fleet)]
    assert sent == [([f"device-{number}", 1], 15 * number) for number in range(4)]
    fleet.query("UPDATE devices SET number = 7, seen = unixepoch() - 1801 WHERE name = 'device-2'")
    fleet.sweep()
    assert [args for _, args, _ in received(fleet)] == [["device-2", 8]]


# Workers

SIZE, PROCESSES = 200, 2
EVERY, LONGEST = 3.0, 4.0
VISIBLE = 8.0
"""Seconds after which the broker delivers again: longer than the longest delay and a poll."""

PROGRAM = f"""\
import http.client, os, sys

sys.path.insert(0, {str(EXAMPLES)!r})
import use_celery_fleet as fleet

def ask(name):
    connection = http.client.HTTPConnection("127.0.0.1", int(os.environ["SERVICE"]), timeout=60)
    try:
        headers = {{"Worker": os.environ["WORKER"], "Process": str(os.getpid())}}
        connection.request("GET", f"/{{name}}", headers=headers)
        if connection.getresponse().status != 200:
            raise ConnectionError(name)
    finally:
        connection.close()

app = fleet.app
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={{"visibility_timeout": {VISIBLE}}},
    worker_prefetch_multiplier=0,  # so that workers take all messages
)
fleet.EVERY, fleet.SILENT, fleet.ask = {EVERY}, float(os.environ["SILENT"]), ask
fleet.BACKOFF = fleet.ExponentialBackOff(1, 0, 2, {LONGEST}, None)
"""


class Devices:
    """What answers for all devices; each tenth fails two times of three.

    Attributes:
        polls: How often each was polled.
        at_once: The devices that were polled by two at once.
        held: The devices, processes and workers of polls that hang.
    """

    def __init__(self):
        self.polls, self.at_once, self.held = Counter(), [], []
        self.last, self.longest = {}, 0.0
        self.under_way, self.news = {}, threading.Condition()
        self.gate, self.is_closed = threading.Event(), False
        devices = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                status = devices.poll(self.path[1:], self.headers)
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *_: None  # clients that were killed
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))

    def poll(self, name, headers):
        with self.news:
            now = time.monotonic()
            self.longest = max(self.longest, now - self.last.get(name, now))
            self.last[name] = now
            self.polls[name] += 1
            if name in self.under_way:
                self.at_once.append(name)
            process = int(headers["Process"])
            self.under_way[name] = process
            if is_held := self.is_closed:
                self.held.append((name, process, headers["Worker"]))
            self.news.notify_all()
            number = self.polls[name]
        if is_held:
            self.gate.wait(PATIENCE)
        with self.news:
            if self.under_way.get(name) == process:
                del self.under_way[name]
        return 503 if name.endswith("0") and number % 3 else 200

    def wait_for(self, condition, meanwhile=None):
        """Wait until a condition of this object is true; call a function meanwhile."""
        end = time.monotonic() + 2 * PATIENCE
        while True:
            with self.news:
                if self.news.wait_for(condition, 0.1):
                    return
                assert time.monotonic() < end, (self.polls, self.held)
            if meanwhile is not None:
                meanwhile()

    def wait_until_held(self, number):
        """Let polls hang, and wait until there are so many."""
        with self.news:
            self.is_closed = True
        self.wait_for(lambda: len(self.held) == number)

    def kill(self, kill, held):
        """Kill what makes some of the polls that hang."""
        with self.news:
            kill()
            for poll in held:
                del self.under_way[poll[0]]
                self.held.remove(poll)

    def release(self):
        """Let all polls go on, and measure from now on how long a device is silent."""
        with self.news:
            self.is_closed, self.longest = False, 0.0
        self.gate.set()

    def wait_until_polled(self, times, meanwhile=None):
        """Wait until each device was polled so many times since now."""
        with self.news:
            before = self.polls.copy()
        wanted = lambda: all(self.polls[name] - before[name] >= times for name in NAMES)
        self.wait_for(wanted, meanwhile)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.gate.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


NAMES = [f"device-{number}" for number in range(SIZE)]


class Broker:
    """Redis with the messages of the fleet, and what the test asks of it."""

    def __init__(self, server):
        self.server = server
        self.app = celery.Celery("fleet", broker=server.url, set_as_current=False)

    def sweep(self):
        self.app.send_task("fleet.sweep")

    def redeliver(self, seconds=VISIBLE):
        """Deliver again what was delivered so long ago: kombu's workers do, but look seldom."""
        options = {"visibility_timeout": seconds}
        with self.app.connection(transport_options=options) as connection:
            connection.default_channel.qos.restore_visible(num=None, interval=1)

    def wait_until_workers_have_all(self):
        """Wait until none is on its way to a worker: kombu loses it if the worker is killed."""
        self.wait_for(lambda client: (client.llen("celery"), client.hlen("unacked")) == (0, SIZE))

    def wait_until_one_listens(self):
        """Wait until Redis knows that a worker is dead, and hands it no message any more."""
        listens = lambda client: [each["cmd"] for each in client.client_list()].count("brpop")
        self.wait_for(lambda client: listens(client) == 1)

    def wait_for(self, condition, patience=PATIENCE):
        with self.server.client() as client:
            eventually(lambda: condition(client), patience=patience)

    def wait_until_none_is_doubled(self):
        """Wait for a moment in which there is one message a device, and no task runs.

        On a busy machine, on which tasks take long, that is seldom.
        """
        count = lambda client: client.pipeline().llen("celery").hlen("unacked").execute()
        self.wait_for(lambda client: sum(count(client)) == SIZE, 5 * PATIENCE)


@pytest.fixture
def broker(tmp_path):
    with RedisServer(tmp_path / "redis") as server:
        made = Broker(server)
        yield made
        made.app.close()


@pytest.fixture
def start(tmp_path, broker, monkeypatch, example):
    """Make the fleet, and start workers."""
    monkeypatch.setenv("DATABASE", str(tmp_path / "fleet.db"))
    (tmp_path / "tasks.py").write_text(PROGRAM)
    example.query(example.TABLE)
    with closing(sqlite3.connect(os.environ["DATABASE"])) as database, database:
        database.executemany(NEW, [(name,) for name in NAMES])

    def start(name, devices, silent):
        env = {"BROKER": broker.server.url, "WORKER": name}
        env |= {"SERVICE": str(devices.server.server_port), "SILENT": str(silent)}
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel"]
        options = ["--concurrency", str(PROCESSES), "--hostname", name, *quiet, "WARNING"]
        return Process(tmp_path, "-m", "celery", "-A", "tasks:app", "worker", *options, env=env)

    return start


@needs_redis
@pytest.mark.slow
@pytest.mark.posix
@pytest.mark.faults
@pytest.mark.timeout(180)
@pytest.mark.parametrize("by", ["the broker", "a sweep"])
def test_no_device_is_lost_with_a_process_of_the_pool_or_a_worker(broker, start, by):
    """The first of two workers is killed, and what it had comes back by the broker, or a sweep."""
    silent = 3600 if by == "the broker" else VISIBLE
    with (
        Devices() as devices,
        start("first", devices, silent) as first,
        start("second", devices, silent),
    ):
        broker.sweep()
        devices.wait_until_polled(2)
        broker.wait_until_none_is_doubled()

        devices.wait_until_held(2 * PROCESSES)
        lost = next(poll for poll in devices.held if poll[2] == "first")
        devices.kill(lambda: os.kill(lost[1], signal.SIGKILL), [lost])
        first.wait_for("WorkerLostError")
        devices.wait_until_held(2 * PROCESSES)
        broker.wait_until_workers_have_all()
        devices.kill(first.kill, [poll for poll in devices.held if poll[2] == "first"])
        killed = time.monotonic()
        broker.wait_until_one_listens()
        devices.release()
        devices.wait_until_polled(2, broker.redeliver if by == "the broker" else broker.sweep)
        seconds = time.monotonic() - killed
        if by == "a sweep":
            broker.redeliver(time.monotonic() - killed)  # all that the first one had
        broker.wait_until_none_is_doubled()
        devices.wait_until_polled(1)
        measured.info(
            "%s: all polled twice %.1f s after the kill, none silent for more than %.1f s;"
            " %d were polled by two at once",
            *(by, seconds, devices.longest, len(devices.at_once)),
        )
    assert devices.longest < VISIBLE + PATIENCE
    assert devices.at_once == []

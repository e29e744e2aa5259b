"""The example of a fleet that Celery polls: no device is lost, and doubled messages die out."""

import importlib.util
import logging
import os
import signal
import sqlite3
import time
import uuid
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime

import pytest

from tests.integrations.celery_workers import CALL, Queue, Service, messages_of, start_worker
from tests.integrations.processes import PATIENCE, ROOT
from tests.integrations.redis_server import RedisServer, needs_redis

measured = logging.getLogger("measured")  # with --log-cli-level=INFO
EXAMPLES = ROOT / "examples" / "integrations"
NEW = "INSERT INTO devices (name) VALUES (?)"


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
    for message in messages_of(fleet.app):
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
        ((1, "a"), (1, "a"), 1),  # delivered again: the messages that follow have the same number
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

PROGRAM = f"""{CALL}
import sys

sys.path.insert(0, {str(EXAMPLES)!r})
import use_celery_fleet as fleet

app = fleet.app
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={{"visibility_timeout": {VISIBLE}}},
    worker_prefetch_multiplier=0,  # so that workers take all messages
)
fleet.EVERY, fleet.SILENT, fleet.ask = {EVERY}, float(os.environ["SILENT"]), call
fleet.BACKOFF = fleet.ExponentialBackOff(1, 0, 2, {LONGEST}, None)
"""


def status(name, number):
    """Each tenth device fails two times of three."""
    return 503 if name.endswith("0") and number % 3 else 200


def wait_until_polled(devices, times, meanwhile=None):
    """Wait until each device was polled so many times since now."""
    with devices.news:
        before = devices.calls.copy()
    wanted = lambda: all(devices.calls[name] - before[name] >= times for name in NAMES)
    devices.wait_for(wanted, meanwhile)


NAMES = [f"device-{number}" for number in range(SIZE)]


class Broker(Queue):
    """Redis with the messages of the fleet."""

    def sweep(self):
        self.app.send_task("fleet.sweep")

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
        env |= {"SERVICE": devices.url, "SILENT": str(silent)}
        options = ["--concurrency", str(PROCESSES), "--hostname", name]
        return start_worker(tmp_path, "tasks:app", *options, env=env)

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
        Service(status) as devices,
        start("first", devices, silent) as first,
        start("second", devices, silent),
    ):
        broker.sweep()
        wait_until_polled(devices, 2)
        broker.wait_until_none_is_doubled()

        devices.wait_until_hung(2 * PROCESSES)
        process = next(process for _, process, worker in devices.hung if worker == "first")
        devices.kill(lambda: os.kill(process, signal.SIGKILL), process)
        first.wait_for("WorkerLostError")
        devices.wait_until_hung(2 * PROCESSES + 1)
        broker.wait_for_messages(0, SIZE)  # kombu loses one that is on its way to the worker
        devices.kill(first.kill, "first")
        killed = time.monotonic()
        broker.wait_until_one_listens()  # Redis knows that a worker is dead
        devices.release()
        redeliver = lambda: broker.redeliver(VISIBLE)
        wait_until_polled(devices, 2, redeliver if by == "the broker" else broker.sweep)
        seconds = time.monotonic() - killed
        if by == "a sweep":
            broker.redeliver(time.monotonic() - killed)  # all that the first one had
            broker.wait_until_none_is_doubled()
            wait_until_polled(devices, 1)
        told = "%s: all polled twice %.1f s after the kill, none silent for more than %.1f s"
        measured.info(told, by, seconds, devices.longest)
    assert devices.longest < VISIBLE + PATIENCE
    assert devices.at_once == []

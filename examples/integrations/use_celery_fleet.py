"""A fleet of devices that is polled from any number of machines, with Celery.

Problem: a fleet is too large for one machine, or has to be polled although a machine fails.
Shows: a task that sends itself again with ``countdown=``, after failures with ``delay_after``; a
row of a database for each device, by which doubled messages die out. Run as a program it needs no
broker, and takes some seconds: each device is sent for twice, and polled once at a time.

    python examples/integrations/use_celery_fleet.py
"""

import os
import sqlite3
import time
from collections import Counter
from contextlib import closing
from tempfile import TemporaryDirectory

from celery import Celery, Task
from celery.contrib.testing.worker import start_worker

from backoff_ticker import ExponentialBackOff, delay_after
from backoff_ticker.integrations.celery import retry_task

EVERY = 60.0  # seconds from one poll to the next
BACKOFF = ExponentialBackOff(60, max_interval=600, max_elapsed_time=None)
SILENT = 1800.0  # longer than any delay (600 s and jitter) with its poll

app = Celery("fleet", broker=os.environ.get("BROKER", "memory://"))
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    task_soft_time_limit=300,
    broker_transport_options={"visibility_timeout": SILENT},  # of Redis
    beat_schedule={"sweep": {"task": "fleet.sweep", "schedule": EVERY}},
)

TABLE = """CREATE TABLE devices (name TEXT PRIMARY KEY,
    number INTEGER DEFAULT 0, message TEXT, seen INTEGER DEFAULT 0)"""
CLAIM = """UPDATE devices SET number = ?, message = ?, seen = unixepoch()
    WHERE name = ? AND (number < ? OR number = ? AND message = ?)
    RETURNING name, number"""
OVERDUE = """UPDATE devices SET seen = unixepoch()
    WHERE seen <= unixepoch() - ? RETURNING name, number"""


def query(sql: str, *values: object) -> list[tuple[str, int]]:
    """Ask your database, which all machines reach; here it is a file."""
    with closing(sqlite3.connect(os.environ["DATABASE"])) as database:
        with database:  # a transaction
            return sorted(database.execute(sql, values))


@app.task(name="fleet.poll", bind=True, max_retries=None)
@retry_task(BACKOFF)  # when the database or the broker fails
def poll(self: Task, name: str, number: int, failures: int = 0) -> None:
    message = self.request.id  # the same if it is delivered again
    if not query(CLAIM, number, message, name, number, number, message):
        return  # a double, or a device that was taken out
    try:
        ask(name)
        failures = 0
    except OSError:
        failures += 1
    delay = delay_after(BACKOFF, failures) if failures else EVERY
    poll.apply_async((name, number + 1, failures), countdown=delay)


@app.task(name="fleet.sweep", expires=EVERY)
def sweep() -> None:
    """Send for the devices that are new, or were silent for too long."""
    overdue = query(OVERDUE, SILENT)
    for place, (name, number) in enumerate(overdue):
        spread = EVERY * place / len(overdue)
        poll.apply_async((name, number + 1), countdown=spread)


def ask(name: str) -> None:
    """Stand for a request to a device: write yours here."""
    asked[name] += 1
    if name == "bee" and asked[name] == 2:
        raise ConnectionError("no answer")


asked = Counter[str]()
if __name__ == "__main__":
    EVERY, BACKOFF = 0.1, ExponentialBackOff(0.1)
    with TemporaryDirectory() as folder:
        os.environ["DATABASE"] = f"{folder}/fleet.db"
        query(TABLE)
        for name in ("ant", "bee", "cat"):
            query("INSERT INTO devices (name) VALUES (?)", name)
            poll.delay(name, 1)
        sweep()
        with start_worker(app, pool="solo", perform_ping_check=False):
            while query("SELECT * FROM devices WHERE number < 4"):
                time.sleep(0.1)
        for name, number in query("SELECT name, number FROM devices"):
            print(f"{name}: each poll once: {asked[name] == number}")

"""Tasks that are retried by real workers, whose broker is a real Redis: none is lost."""

import json
import os
import signal
from contextlib import ExitStack

import pytest

from tests.integrations.celery_workers import CALL, Queue, Service, start_worker
from tests.integrations.redis_server import RedisServer, needs_redis

pytestmark = [pytest.mark.slow, pytest.mark.posix, pytest.mark.timeout(180), needs_redis]

TASKS = f"""{CALL}
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


@app.task(max_retries=4)
@retry_task(policy, on=(OSError, http.client.HTTPException))
def fetch(path):
    return call(path)
"""


@pytest.fixture
def broker(tmp_path):
    with RedisServer(tmp_path / "redis", durable=True) as server:
        yield server


class Sender(Queue):
    """What sends tasks to the workers and looks for their results."""

    def __init__(self, broker):
        super().__init__(broker)
        self.sent = []

    def send(self, *paths):
        self.sent += [self.app.send_task("tasks.fetch", (path,)).id for path in paths]

    def stored(self, client):
        """Return what is stored of the tasks that have ended, by their ids."""
        found = {each: client.get(f"celery-task-meta-{each}") for each in self.sent}
        parsed = {task: json.loads(result) for task, result in found.items() if result}
        return {task: each for task, each in parsed.items() if each["status"] != "RETRY"}

    def wait_until_workers_have_all(self):
        """Wait until workers have a message of each task that is not done."""

        def have_all(client):
            held = {json.loads(each)[0]["headers"]["id"] for each in client.hvals("unacked")}
            return {*self.sent} <= held | self.stored(client).keys()

        self.wait_for(have_all)

    def results(self):
        """Return the results of all tasks once they have ended."""
        self.wait_for(lambda client: len(self.stored(client)) == len(self.sent))
        with self.server.client() as client:
            return [each["result"] for each in self.stored(client).values()]


@pytest.fixture
def sender(broker, tmp_path):
    (tmp_path / "tasks.py").write_text(TASKS)
    made = Sender(broker)
    yield made
    made.app.close()


PROCESSES = 4


def worker(tmp_path, broker, service):
    options = ["--pool", "prefork", "--concurrency", str(PROCESSES)]
    env = {"REDIS": broker.url, "SERVICE": service.url}
    return start_worker(tmp_path, "tasks:app", *options, level="INFO", env=env)


TASKS_AT_ONCE = 50


@pytest.mark.faults
def test_no_task_is_lost_with_a_process_of_the_pool_the_broker_or_a_worker(
    tmp_path, broker, sender
):
    """Each is killed while a call hangs in each process, and all other messages are in memory."""
    with Service(
        lambda _, calls: 503 if calls <= 2 else 200, answered=1, is_closed=True
    ) as service:
        with ExitStack() as stack:
            process = stack.enter_context(worker(tmp_path, broker, service))
            sender.send(*map(str, range(TASKS_AT_ONCE)))
            service.wait_until_hung(PROCESSES)
            sender.wait_for_messages(0, TASKS_AT_ONCE)

            os.kill(service.hung[-1][1], signal.SIGKILL)
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
    options = ["--pool", "threads", "--concurrency", "2"]
    paths = [str(number) for number in range(10)]
    with start_worker(tmp_path, "tasks:app", *options, env={"REDIS": broker.url}) as p:
        sender.send(*paths)
        p.wait_for("done", len(paths))
        sender.wait_for_messages(0, 0)
        assert [p.count(f"done {path}") for path in paths] == [1] * len(paths)

"""Real workers of Celery, whose broker is a real Redis, and a service that their tasks call."""

import threading
import time
from collections import Counter

import celery

from tests.helpers import eventually
from tests.integrations.misbehaving_server import MisbehavingServer, answer
from tests.integrations.processes import PATIENCE, Process

QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel")

CALL = """\
import http.client, os, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # no proxy

def call(path):
    url = os.environ["SERVICE"] + f"{os.environ.get('WORKER')}/{os.getpid()}/{path}"
    with opener.open(url, timeout=60) as response:
        return response.read().decode()
"""
"""How a worker calls the service below, which is an OSError if the status is not 200."""


def start_worker(folder, app, *options, level="WARNING", env=()):
    """Start a worker for the application of a module in a folder."""
    return Process(folder, "-m", "celery", "-A", app, "worker", *QUIET, level, *options, env=env)


def messages_of(app):
    """Return the messages at the broker of an application, and take them away."""
    with app.connection() as connection, connection.channel() as channel:
        take = lambda: channel.basic_get(app.conf.task_default_queue, no_ack=True)
        return list(iter(take, None))


class Service(MisbehavingServer):
    """A service that answers a path at its n-th call as a function says; it counts calls.

    Calls hang while it is closed, but for the first of each path, so many as are answered then.

    Attributes:
        calls: How often each path was called.
        at_once: The paths that were called by two at once.
        hung: The paths, processes and workers of all calls that have hung.
        longest: The longest time between two calls of one path, since the last ``release()``.
    """

    def __init__(self, status, *, answered=0, is_closed=False):
        super().__init__()
        self._status, self._answered = status, answered
        self.calls, self.at_once, self.hung = Counter(), [], []
        self.news, self.gate, self.is_closed = threading.Condition(), threading.Event(), is_closed
        self.longest, self._last, self._under_way = 0.0, {}, {}

    def usual(self, connection):
        """Answer a call, or let it hang."""
        worker, process, path = connection.request.path[1:].split("/")
        with self.news:
            now = time.monotonic()
            self.longest = max(self.longest, now - self._last.get(path, now))
            self._last[path] = now
            self.calls[path] += 1
            calls, gate = self.calls[path], self.gate
            if path in self._under_way:
                self.at_once.append(path)
            self._under_way[path] = process
            if hangs := self.is_closed and calls > self._answered:
                self.hung.append((path, int(process), worker))
            self.news.notify_all()
        if hangs:
            gate.wait(PATIENCE)
        with self.news:
            if self._under_way.get(path) == process:
                del self._under_way[path]
        answer(self._status(path, calls), b"42")(connection)

    def wait_for(self, condition, meanwhile=None):
        """Wait until a condition of this object is true; call a function meanwhile."""
        end = time.monotonic() + 2 * PATIENCE
        while True:
            with self.news:
                if self.news.wait_for(condition, 0.1):
                    return
                assert time.monotonic() < end, (self.calls, self.hung)
            if meanwhile is not None:
                meanwhile()

    def wait_until_hung(self, number):
        """Let calls hang, and wait until so many have hung in all."""
        self.is_closed = True
        self.wait_for(lambda: len(self.hung) >= number)

    def kill(self, kill, process):
        """Kill what makes some of the calls that hang: a process, or all of a worker."""
        with self.news:
            kill()
            for path, *makers in self.hung:
                if process in makers:
                    self._under_way.pop(path, None)

    def release(self, *, closed=False):
        """Answer the calls that hang; later ones hang again, or do not."""
        with self.news:
            gate, self.gate, self.is_closed = self.gate, threading.Event(), closed
            self.longest = 0.0
        gate.set()

    def __exit__(self, *_):
        """Serve no more."""
        self.release()
        super().__exit__()


class Queue:
    """Celery's queue in Redis, and what tests ask of it."""

    def __init__(self, server):
        self.server = server
        self.app = celery.Celery("tasks", broker=server.url, set_as_current=False)

    def wait_for(self, condition, patience=PATIENCE):
        """Wait until a condition of a client is true."""
        with self.server.client() as client:
            eventually(lambda: condition(client), patience=patience)

    def wait_for_messages(self, queued, held):
        """Wait until so many messages are in the queue, and with workers; none is on its way."""
        found = lambda client: (client.llen("celery"), client.hlen("unacked"))
        self.wait_for(lambda client: found(client) == (queued, held))

    def wait_until_one_listens(self, process=None):
        """Wait until one worker takes messages from the broker, or a process has ended."""
        takes = lambda client: [each["cmd"] for each in client.client_list()].count("brpop") == 1
        self.wait_for(lambda client: takes(client) or (process and process.has_ended))

    def redeliver(self, seconds=0):
        """Put back what workers hold for so long, as they do themselves, but seldom look."""
        options = {"visibility_timeout": seconds}
        with self.app.connection(transport_options=options) as connection:
            connection.default_channel.qos.restore_visible(num=None, interval=1)

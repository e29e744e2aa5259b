"""Real workers of Celery, whose broker is a real Redis, and a service that their tasks call."""

import http.server
import threading
import time
from collections import Counter

import celery

from tests.helpers import eventually
from tests.integrations.processes import PATIENCE, Process

QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel")


def start_worker(folder, app, *options, level="WARNING", env=()):
    """Start a worker for the application of a module in a folder."""
    return Process(folder, "-m", "celery", "-A", app, "worker", *QUIET, level, *options, env=env)


def messages_of(app):
    """Return the messages at the broker of an application, and take them away."""
    with app.connection() as connection, connection.channel() as channel:
        take = lambda: channel.basic_get(app.conf.task_default_queue, no_ack=True)
        return list(iter(take, None))


class Service:
    """A service that answers a path at its n-th call as a function says; it counts calls.

    Calls hang while it is closed, but for the first of each path, so many as are answered then.

    Attributes:
        calls: How often each path was called.
        at_once: The paths that were called by two at once.
        hung: The paths, processes and workers of all calls that have hung.
        longest: The longest time between two calls of one path, since the last ``release()``.
    """

    def __init__(self, status, *, answered=0, is_closed=False):
        self.calls, self.at_once, self.hung = Counter(), [], []
        self.news, self.gate, self.is_closed = threading.Condition(), threading.Event(), is_closed
        self.longest, self._last, self._under_way = 0.0, {}, {}
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                path, process = self.path[1:], int(self.headers["Process"])
                with service.news:
                    now = time.monotonic()
                    service.longest = max(service.longest, now - service._last.get(path, now))
                    service._last[path] = now
                    service.calls[path] += 1
                    calls, gate = service.calls[path], service.gate
                    if path in service._under_way:
                        service.at_once.append(path)
                    service._under_way[path] = process
                    if hangs := service.is_closed and calls > answered:
                        service.hung.append((path, process, self.headers["Worker"]))
                    service.news.notify_all()
                if hangs:
                    gate.wait(PATIENCE)
                with service.news:
                    if service._under_way.get(path) == process:
                        del service._under_way[path]
                self.send_response(status(path, calls))
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"42")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *_: None  # clients that were killed
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))

    @property
    def port(self):
        """The port as a text."""
        return str(self.server.server_port)

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

    def __enter__(self):
        """Serve."""
        self.thread.start()
        return self

    def __exit__(self, *_):
        """Serve no more."""
        self.release()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


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

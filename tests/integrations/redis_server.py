"""A Redis server of the tests' own, which can be slowed down, killed, restarted and failed over."""

import asyncio
import shutil
import signal
import subprocess
import threading
from contextlib import contextmanager

import pytest
import redis

from backoff_ticker import CancellationToken
from tests.helpers import eventually
from tests.integrations.misbehaving_server import unused_port

PROGRAM = shutil.which("redis-server")
PATIENCE = 20.0
CLIENTS = []  # that the test made
needs_redis = pytest.mark.skipif(PROGRAM is None, reason="there is no redis-server")


class RedisServer:
    """A server on a port of this machine.

    Args:
        folder: Where it keeps its data.
        durable: Whether each write is on disk before it is answered, so that ``kill()`` loses none.
        follows: The server whose replica it is.
    """

    def __init__(self, folder, *, durable=False, follows=None):
        self.port = unused_port()
        folder.mkdir(parents=True, exist_ok=True)
        self._arguments = [
            *("--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(folder)),
            *("--save", "", "--loglevel", "warning"),
            *("--appendonly", "yes" if durable else "no", "--appendfsync", "always"),
            *("--repl-diskless-sync-delay", "0"),
        ]
        if follows is not None:
            self._arguments += ["--replicaof", "127.0.0.1", str(follows.port)]
        self._process = None

    @property
    def url(self):
        """What ``redis.Redis.from_url()`` takes."""
        return f"redis://127.0.0.1:{self.port}/0"

    def client(self, **options):
        """Return a client, by default one that waits long, on a machine with much to do."""
        client = redis.Redis.from_url(self.url, **{"socket_timeout": PATIENCE, **options})
        CLIENTS.append(client)
        return client

    def start(self):
        """Start it, and wait until it answers."""
        self._process = subprocess.Popen(
            [PROGRAM, *self._arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        with self.client(socket_timeout=1.0) as client:
            eventually(lambda: _answered(client.ping), "an answer of redis-server")

    def kill(self):
        """Kill it, as a machine that fails does; ``start()`` starts it again on the same port."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self):
        """Stop answering, but keep the connections open; new ones are taken by the kernel."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self):
        """Answer again."""
        self._process.send_signal(signal.SIGCONT)

    def wait_for_replicas(self, number=1):
        """Wait until that many replicas have all that was written."""
        with self.client(single_connection_client=True) as client:
            client.incr("followed")  # WAIT is for what its own connection wrote, and all before
            eventually(lambda: client.wait(number, 1000) >= number, "a replica that follows")

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()


class Proxy:
    """Passes on what clients and a server on this machine send, or does not."""

    def __init__(self, port):
        self.delay = 0.0  # by how many seconds answers come late
        self.url = ""
        self._server_port = port
        self._swallowed = object()
        self._stop = CancellationToken()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    async def _run(self):
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"
        await self._stop.wait_async()
        server.close()

    async def _serve(self, reader, writer):
        answers, requests = await asyncio.open_connection("127.0.0.1", self._server_port)
        passing = self._pass_on(reader, requests), self._pass_on(answers, writer, is_late=True)
        await asyncio.gather(*passing, return_exceptions=True)

    async def _pass_on(self, reader, writer, *, is_late=False):
        opened = self._swallowed
        try:
            while data := await reader.read(65536):
                await asyncio.sleep(self.delay * is_late)
                if opened is self._swallowed:
                    writer.write(data)
        finally:
            writer.close()

    def swallow(self):
        """Pass on nothing more on the connections that there are; they stay open."""
        self._swallowed = object()

    def __enter__(self):
        self._thread.start()
        eventually(lambda: self.url)
        return self

    def __exit__(self, *_):
        self._stop.cancel()
        self._thread.join()


@contextmanager
def failover(folder):
    """Run a server, its replica, and a sentinel that makes the replica take over from ``"jobs"``.

    Returns:
        Both servers, and the port of the sentinel, which knows them.
    """
    with (
        RedisServer(folder / "first") as first,
        RedisServer(folder / "second", follows=first) as second,
        RedisServer(folder / "watch") as unused,
    ):
        first.wait_for_replicas()
        unused.kill()  # the sentinel takes its port
        config = folder / "sentinel.conf"
        config.write_text(
            f"port {unused.port}\nsentinel monitor jobs 127.0.0.1 {first.port} 1\n"
            "sentinel down-after-milliseconds jobs 1000\nsentinel failover-timeout jobs 2000\n"
        )
        watch = subprocess.Popen([PROGRAM, str(config), "--sentinel"], stdout=subprocess.DEVNULL)
        try:
            with unused.client() as client:
                eventually(lambda: _answered(lambda: client.sentinel_slaves("jobs")))
            yield first, second, unused.port
        finally:
            watch.kill()
            watch.wait()


def _answered(ask):
    """Return what Redis answers, None if it does not yet."""
    try:
        return ask()
    except redis.RedisError:
        return None

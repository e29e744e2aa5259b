"""Processes that call a service which is down for a while, and what the service counts."""

from __future__ import annotations

import itertools
import socket
import socketserver
import threading
from collections import Counter
from contextlib import contextmanager
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from backoff_ticker import RetryBudget, ZeroBackOff, retry_call

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

FIRST, RETRY, GOOD, BAD = b"1", b"r", b"y", b"n"
MOST_ATTEMPTS = 5
KINDS = ("none", "local", "shared")
"""No budget, one for each process, and one for all."""


class Service(socketserver.ThreadingTCPServer):
    """Answers while it is up, and counts the calls, which say whether they are retries.

    Attributes:
        is_up: Whether it answers.
        calls: How many calls of each kind came, and ``GOOD`` answers went, in all.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Conversation)
        self.is_up = True
        self.calls: Counter[bytes] = Counter()
        self.lock = threading.Lock()

    def __enter__(self) -> Service:
        threading.Thread(target=self.serve_forever, args=(0.01,)).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Conversation(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        service: Any = self.server
        while call := self.request.recv(1):
            with service.lock:
                answer = GOOD if service.is_up else BAD
                service.calls.update((call, answer))
            self.request.sendall(answer)


def work(port: int, url: str, kind: str, numbers: dict[str, float], orders: Connection) -> None:
    """Do what a process does: as many requests as it is told, several times."""
    budget: Any = None if kind == "none" else RetryBudget(**numbers)
    if kind == "shared":
        from redis import Redis

        from backoff_ticker.integrations.redis import RedisRetryBudget

        budget = RedisRetryBudget(
            Redis.from_url(url, socket_timeout=20), "service", **numbers, fallback=None
        )
    with socket.create_connection(("127.0.0.1", port)) as connection:
        orders.send("ready")
        while requests := orders.recv():
            for _ in range(requests):
                kinds = itertools.chain([FIRST], itertools.repeat(RETRY))

                def call(kinds: Iterator[bytes] = kinds) -> None:
                    connection.sendall(next(kinds))
                    if connection.recv(1) != GOOD:
                        raise ConnectionError

                try:
                    retry_call(call, ZeroBackOff(), max_attempts=MOST_ATTEMPTS, budget=budget)
                except ConnectionError:
                    pass
            orders.send("done")


@contextmanager
def fleet(size: int, target: Any, *arguments: Any) -> Iterator[list[Connection]]:
    """Start processes that run a function of a module; yield a pipe to each, which has spoken.

    Args:
        size: How many.
        target: Takes the arguments and its end of the pipe.
        *arguments: As said.
    """
    context = get_context("spawn")
    pipes = [context.Pipe() for _ in range(size)]
    processes = [
        context.Process(target=target, args=(*arguments, theirs), daemon=True)
        for _, theirs in pipes
    ]
    ours = [each for each, _ in pipes]
    try:
        for process in processes:
            process.start()
        for pipe in ours:
            assert pipe.recv() == "ready"
        yield ours
        for pipe in ours:
            pipe.send(None)
        for process in processes:
            process.join(20)
    finally:
        for process in processes:
            process.kill()


def outage(
    url: str, kind: str, size: int, before: int, during: int, **numbers: float
) -> Counter[bytes]:
    """Return what a service counts that is up for so many requests of each process, then down."""
    with Service() as service:
        port = service.server_address[1]
        with fleet(size, work, port, url, kind, numbers) as pipes:
            for service.is_up, requests in ((True, before), (False, during)):
                for pipe in pipes:
                    pipe.send(requests)
                for pipe in pipes:
                    assert pipe.recv() == "done"
        return service.calls

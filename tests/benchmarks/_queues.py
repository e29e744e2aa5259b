"""The queues and channels that ``channels`` compares, each as threads and as loops use it."""

from __future__ import annotations

import asyncio
import math
import queue
from dataclasses import dataclass
from typing import TYPE_CHECKING

from backoff_ticker import Channel
from tests.benchmarks._table import say

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Maker = Callable[[float], "Ends"]

CHANNEL = "Channel"


async def _nothing() -> None:
    """Stand for a close that is not needed."""


@dataclass
class Ends:
    """The bound methods of one queue; None: it has no such thing.

    Attributes:
        send: Blocks its thread while there is no room.
        receive: Blocks its thread while there is nothing.
        send_async: Does so in a loop.
        receive_async: Does so in a loop.
        send_nowait: What a loop may call without ``await`` where there is always room.
        close: Run in the loop when all is done.
    """

    send: Callable[[object], object] | None = None
    receive: Callable[[], object] | None = None
    send_async: Callable[[object], Awaitable[object]] | None = None
    receive_async: Callable[[], Awaitable[object]] | None = None
    send_nowait: Callable[[object], object] | None = None
    close: Callable[[], Awaitable[object]] = _nothing


def _maxsize(capacity: float) -> int:
    return 0 if capacity == math.inf else int(capacity)


def simple_queue(capacity: float) -> Ends:
    """``queue.SimpleQueue``, which never blocks who puts."""
    made = queue.SimpleQueue()
    return Ends(made.put, made.get, send_nowait=made.put)


def thread_queue(capacity: float) -> Ends:
    """``queue.Queue``."""
    made = queue.Queue(_maxsize(capacity))
    return Ends(made.put, made.get, send_nowait=made.put_nowait)


def asyncio_queue(capacity: float) -> Ends:
    """``asyncio.Queue``; a thread reaches it through the loop, and only where there is room."""
    made, loop = asyncio.Queue(_maxsize(capacity)), asyncio.get_running_loop()
    ends = Ends(send_async=made.put, receive_async=made.get, send_nowait=made.put_nowait)
    if capacity == math.inf:
        ends.send = lambda item: loop.call_soon_threadsafe(made.put_nowait, item)
    return ends


def janus_queue(capacity: float) -> Ends:
    """``janus.Queue``."""
    import janus

    made = janus.Queue(_maxsize(capacity))
    threads, loops = made.sync_q, made.async_q
    return Ends(threads.put, threads.get, loops.put, loops.get, loops.put_nowait, made.aclose)


def aiologic_simple_queue(capacity: float) -> Ends:
    """``aiologic.SimpleQueue``."""
    import aiologic

    made = aiologic.SimpleQueue()
    return Ends(made.green_put, made.green_get, made.async_put, made.async_get, made.put)


def aiologic_queue(capacity: float) -> Ends:
    """``aiologic.Queue``."""
    import aiologic

    made = aiologic.Queue(_maxsize(capacity) or None)
    return Ends(made.green_put, made.green_get, made.async_put, made.async_get)


def culsans_queue(capacity: float) -> Ends:
    """``culsans.Queue``."""
    import culsans

    made = culsans.Queue(_maxsize(capacity))
    threads, loops = made.sync_q, made.async_q
    return Ends(threads.put, threads.get, loops.put, loops.get, loops.put_nowait)


def anyio_stream(capacity: float) -> Ends:
    """An ``anyio`` memory object stream, which knows one loop and no thread."""
    import anyio

    sender, receiver = anyio.create_memory_object_stream(capacity)

    async def close() -> None:
        sender.close()
        receiver.close()

    return Ends(
        send_async=sender.send,
        receive_async=receiver.receive,
        send_nowait=sender.send_nowait,
        close=close,
    )


def channel(capacity: float) -> Ends:
    """``Channel``."""
    made = Channel(capacity)
    return Ends(made.send, made.receive, made.send_async, made.receive_async, made.send_nowait)


UNBOUNDED: dict[str, Maker] = {
    "queue.SimpleQueue": simple_queue,
    "queue.Queue": thread_queue,
    "asyncio.Queue": asyncio_queue,
    "janus": janus_queue,
    "aiologic.SimpleQueue": aiologic_simple_queue,
    "aiologic.Queue": aiologic_queue,
    "culsans": culsans_queue,
    "anyio": anyio_stream,
    CHANNEL: channel,
}
BOUNDED = {
    name: maker
    for name, maker in UNBOUNDED.items()
    if maker not in (simple_queue, aiologic_simple_queue)
}
RENDEZVOUS = {name: UNBOUNDED[name] for name in ("anyio", CHANNEL)}


@dataclass
class Subject:
    """A queue of some capacity, and how it is made."""

    make: Maker
    capacity: float
    ends: Ends

    def __call__(self) -> Ends:
        """Make one, in a running loop."""
        return self.make(self.capacity)


def installed() -> dict[str, Subject]:
    """Return by name all that can be measured here; say what cannot."""
    found: dict[str, Subject] = {}
    absent: dict[str, None] = {}

    async def find() -> None:
        for capacity, makers in (
            (math.inf, UNBOUNDED),
            (128, BOUNDED),
            (1, BOUNDED),
            (0, RENDEZVOUS),
        ):
            for name, make in makers.items():
                try:
                    ends = make(capacity)
                except ImportError:
                    absent[name.partition(".")[0]] = None
                    continue
                await ends.close()
                found[f"{name}({capacity:g})"] = Subject(make, capacity, ends)

    asyncio.run(find())
    for name in absent:
        say(f"{name} is not installed: left out")
    return found

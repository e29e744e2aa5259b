"""The queues and channels that are compared, each as threads and as loops use it."""

from __future__ import annotations

import asyncio
import math
import queue
from dataclasses import dataclass
from typing import Any

from backoff_ticker import Channel
from tests.benchmarks._table import is_installed


async def _nothing():
    """Stand for a close that is not needed."""


@dataclass
class Ends:
    """The methods of one queue; None: it has no such thing. The loop closes it in the end."""

    send: Any = None
    receive: Any = None
    send_async: Any = None
    receive_async: Any = None
    close: Any = _nothing


def _maxsize(capacity):
    return 0 if capacity == math.inf else int(capacity)


def simple_queue(_):
    made = queue.SimpleQueue()

    async def put(item):
        made.put(item)

    return Ends(made.put, made.get, put)


def thread_queue(capacity):
    made = queue.Queue(_maxsize(capacity))
    return Ends(made.put, made.get)


def asyncio_queue(capacity):
    """Return an ``asyncio.Queue``; a thread reaches it through the loop, if there is room."""
    made, loop = asyncio.Queue(_maxsize(capacity)), asyncio.get_running_loop()

    def put(item):
        loop.call_soon_threadsafe(made.put_nowait, item)

    return Ends(put, None, made.put, made.get)


def janus_queue(capacity):
    import janus

    made = janus.Queue(_maxsize(capacity))
    threads, loops = made.sync_q, made.async_q
    return Ends(threads.put, threads.get, loops.put, loops.get, made.aclose)


def aiologic_simple_queue(_):
    import aiologic

    made = aiologic.SimpleQueue()
    return Ends(made.green_put, made.green_get, made.async_put, made.async_get)


def aiologic_queue(capacity):
    import aiologic

    made = aiologic.Queue(_maxsize(capacity) or None)
    return Ends(made.green_put, made.green_get, made.async_put, made.async_get)


def culsans_queue(capacity):
    import culsans

    made = culsans.Queue(_maxsize(capacity))
    threads, loops = made.sync_q, made.async_q
    return Ends(threads.put, threads.get, loops.put, loops.get)


def channel(capacity):
    made = Channel(capacity)
    return Ends(made.send, made.receive, made.send_async, made.receive_async)


MAKERS = {
    "queue.SimpleQueue": simple_queue,
    "queue.Queue": thread_queue,
    "asyncio.Queue": asyncio_queue,
    "janus.Queue": janus_queue,
    "aiologic.SimpleQueue": aiologic_simple_queue,
    "aiologic.Queue": aiologic_queue,
    "culsans.Queue": culsans_queue,
    "Channel": channel,
}


def installed(names):
    return [name for name in names if name == "Channel" or is_installed(name.partition(".")[0])]

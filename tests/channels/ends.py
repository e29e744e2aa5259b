"""The two ends of a channel, each in threads or in an event loop, behind one interface."""

from __future__ import annotations

import asyncio
from concurrent.futures import wait
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from backoff_ticker import Channel, merge, select, select_async
from tests.helpers import PATIENCE, LoopThread, in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future

    from backoff_ticker.testing import VirtualClock


class ThreadEnd:
    """Each operation in a thread of its own."""

    name = "thread"

    def send(self, channel: Any, item: Any, timeout: Any = None) -> Future[Any]:
        return in_thread(channel.send, item, timeout)

    def send_all(self, channel: Any, items: Iterable[Any]) -> Future[Any]:
        """Send ``items`` one after the other."""

        def run() -> None:
            for item in items:
                channel.send(item)

        return in_thread(run)

    def receive(self, channel: Any, timeout: Any = None) -> Future[Any]:
        return in_thread(channel.receive, timeout)

    def collect(self, source: Any) -> Future[list[Any]]:
        """Iterate to the end."""
        return in_thread(list, source)

    def select(self, *sources: Any, timeout: Any = None) -> Future[Any]:
        return in_thread(lambda: select(*sources, timeout=timeout))

    def select_times(self, times: int, *sources: Any) -> list[Any]:
        """Select so many times from what is ready."""
        return in_thread(lambda: [select(*sources) for _ in range(times)]).result(PATIENCE)

    def merge(self, *sources: Any) -> Future[list[Any]]:
        return in_thread(lambda: list(merge(*sources)))

    def close(self) -> None:
        """Nothing to do."""


class LoopEnd:
    """Each operation in a task of one event loop, in debug mode."""

    name = "loop"

    def __init__(self) -> None:
        self.thread = LoopThread()

    def send(self, channel: Any, item: Any, timeout: Any = None) -> Future[Any]:
        return self.thread.submit(channel.send_async(item, timeout))

    def send_all(self, channel: Any, items: Iterable[Any]) -> Future[Any]:
        async def run() -> None:
            for item in items:
                await channel.send_async(item)

        return self.thread.submit(run())

    def receive(self, channel: Any, timeout: Any = None) -> Future[Any]:
        return self.thread.submit(channel.receive_async(timeout))

    def collect(self, source: Any) -> Future[list[Any]]:
        async def run() -> list[Any]:
            return [item async for item in source]

        return self.thread.submit(run())

    def select(self, *sources: Any, timeout: Any = None) -> Future[Any]:
        async def run() -> Any:
            return await select_async(*sources, timeout=timeout)

        return self.thread.submit(run())

    def select_times(self, times: int, *sources: Any) -> list[Any]:
        async def run() -> list[Any]:
            return [await select_async(*sources) for _ in range(times)]

        return self.thread.run(run())

    def merge(self, *sources: Any) -> Future[list[Any]]:
        async def run() -> list[Any]:
            return [pair async for pair in merge(*sources)]

        return self.thread.submit(run())

    def close(self) -> None:
        self.thread.close()
        assert self.thread.errors == []


@contextmanager
def an_end(kind: str) -> Iterator[ThreadEnd | LoopEnd]:
    made = ThreadEnd() if kind == "thread" else LoopEnd()
    yield made
    made.close()


def value(future: Future[Any]) -> Any:
    """Return what ``future`` ends with now."""
    return future.result(PATIENCE)


def error(future: Future[Any]) -> BaseException | None:
    """Return what ``future`` fails with now."""
    return future.exception(PATIENCE)


def still_waits(clock: VirtualClock, *futures: Future[Any]) -> None:
    """Check that all of ``futures`` go on waiting once everything else has come to rest."""
    clock.settle()
    assert not any(future.done() for future in futures)


def in_turn(
    clock: VirtualClock, start: Callable[..., Future[Any]], channel: Any, *arguments: Any
) -> list[Future[Any]]:
    """Start one wait for each of ``arguments``; each stands in line before the next one starts."""
    started = []
    for argument in arguments:
        started.append(start(channel, argument))
        still_waits(clock, *started)
    return started


def ended(clock: VirtualClock, futures: Iterable[Future[Any]]) -> list[Future[Any]]:
    """Return those of ``futures`` that are done once everything has come to rest."""
    clock.settle()
    return [future for future in futures if future.done()]


def values(futures: Iterable[Future[Any]]) -> list[Any]:
    """Return what all of ``futures`` end with now."""
    all_of_them = list(futures)
    wait(all_of_them, PATIENCE)
    return [value(future) for future in all_of_them]


def filled(capacity: float) -> Channel[Any]:
    """Return a channel with the items 0, 1 and 2, or as many of them as it has room for."""
    channel: Channel[Any] = Channel(capacity)
    for item in range(int(min(capacity, 3))):
        channel.send_nowait(item)
    return channel


def drained(channel: Any) -> list[Any]:
    """Take what can be taken now without waiting."""
    return [channel.receive_nowait() for _ in range(len(channel))]


async def turns(count: int) -> None:
    """Let everything that is ready in this loop run, so many times."""
    for _ in range(count):
        await asyncio.sleep(0)

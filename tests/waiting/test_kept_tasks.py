"""A task that nothing else refers to is kept by its loop while it waits, and goes with its loop."""

from __future__ import annotations

import asyncio
import weakref
from contextlib import suppress
from typing import Any

import pytest

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    Cancelled,
    Channel,
    ConstantBackOff,
    TickerClosed,
    merge,
    retry,
    select_async,
)
from tests.helpers import collect_garbage, wait_until_collected

HOUR = 3600.0


def held_waiters() -> object:
    """Return what the running loop holds."""
    return getattr(asyncio.get_running_loop(), "_backoff_ticker_waiters", None)


class Sources:
    """What the tasks wait for, and what ends all their waits."""

    def __init__(self) -> None:
        self.token = CancellationToken()
        self.empty: Channel[str] = Channel(1)
        self.full: Channel[str] = Channel(1)
        self.full.send("first")
        self.ticker = AsyncTicker(ConstantBackOff(HOUR), token=self.token)
        self.ticker.receive_nowait()

    def end(self) -> None:
        self.empty.send("item")
        self.full.receive()
        self.ticker.stop()
        self.token.cancel("enough")


async def scope(of: Sources) -> None:
    async with of.token.scope():
        await asyncio.Event().wait()


async def attempt(of: Sources) -> None:
    @retry(ConstantBackOff(HOUR), token=of.token)
    async def operation() -> None:
        await asyncio.Event().wait()

    await operation()


WAITS: dict[str, Any] = {
    "receive": lambda of: of.empty.receive_async(),
    "send": lambda of: of.full.send_async("second"),
    "select": lambda of: select_async(of.token, Channel()),
    "merge": lambda of: anext(merge(of.token, of.ticker, of.empty)),
    "token": lambda of: of.token.wait_async(),
    "tick": lambda of: of.ticker.receive(),
    "scope": scope,
    "attempt": attempt,
}


@pytest.mark.parametrize("wait", WAITS)
def test_a_task_is_kept_while_it_waits(wait):
    ended: list[str] = []

    async def main():
        sources = Sources()
        # The first reader of a ticker watches the time, so the loop knows it anyway.
        first = asyncio.create_task(sources.ticker.receive())

        async def task():
            with suppress(TickerClosed, Cancelled):
                await WAITS[wait](sources)
            ended.append(wait)

        await asyncio.sleep(0)
        asyncio.create_task(task())  # nothing refers to it
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        collect_garbage()
        sources.end()
        await asyncio.wait([first])
        for _ in range(20):  # turns in which all that has ended goes
            await asyncio.sleep(0)
        assert not held_waiters()

    asyncio.run(main())
    assert ended == [wait]


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("wait", WAITS)
def test_tasks_of_a_loop_that_is_dropped_are_collected_and_leave(wait, unraisable):
    sources = Sources()
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)
    for _ in range(3):
        loop.create_task(WAITS[wait](sources))
    for _ in range(3):
        loop.run_until_complete(asyncio.sleep(0))
    link = weakref.ref(loop)
    del loop
    wait_until_collected(link)
    assert unraisable == []
    for source in (sources.token._wait_set(), sources.ticker._readers, sources.empty._buffer):
        assert (source.first, source.others or {}) == (None, {})

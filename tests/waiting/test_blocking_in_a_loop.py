"""Waits for threads in an event loop are refused before they block it; the rest works."""

from __future__ import annotations

import asyncio
import queue
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    CancellationToken,
    Channel,
    ConstantBackOff,
    Ticker,
    Timer,
    merge,
    select,
)
from tests.helpers import PATIENCE, in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

HOUR = 3600.0


def full() -> Channel[Any]:
    channel = Channel[Any](1)
    channel.send(1)
    return channel


def pending() -> Ticker:
    ticker = Ticker(ConstantBackOff(HOUR))
    ticker.receive()
    return ticker


WAITS: dict[str, Callable[[], object]] = {
    "await token.wait_async()": lambda: CancellationToken().wait(1),
    "await channel.receive_async()": lambda: Channel[Any]().receive(timeout=1),
    "await channel.send_async()": lambda: full().send(2),
    "an AsyncTicker": lambda: next(pending()),
    "await select_async()": lambda: select(Channel(), Timer(), timeout=1),
    "async for": lambda: next(merge(Channel())),
}


@pytest.mark.parametrize("instead", WAITS)
def test_it_is_refused_and_the_way_for_coroutines_is_named(instead: str) -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match="would block the event loop") as caught:
            WAITS[instead]()
        assert str(caught.value).endswith(f"; use {instead}")

    asyncio.run(main())


def test_a_refused_wait_leaves_nothing_behind() -> None:
    channel: Channel[str] = Channel()

    async def main() -> None:
        for refused in (channel.receive, lambda: channel.send("lost")):
            with pytest.raises(RuntimeError):
                refused()

    asyncio.run(main())
    receiver = in_thread(channel.receive)
    channel.send("sent", PATIENCE)
    assert receiver.result(PATIENCE) == "sent"


def test_calls_that_need_not_wait_work() -> None:
    async def main() -> list[object]:
        token, ticker = CancellationToken(), Ticker(ConstantBackOff(HOUR))
        token.cancel("enough")
        channel: Channel[str] = Channel(1)
        channel.send("item")
        return [token.wait(), ticker.receive().number, select(token)[1], channel.receive()]

    assert asyncio.run(main()) == [True, 1, "enough", "item"]


def test_a_time_out_of_zero_looks_without_a_wait() -> None:
    async def main() -> None:
        assert not CancellationToken().wait(0)
        for receive in (Channel[Any]().receive, pending().receive):
            with pytest.raises(TimeoutError):
                receive(timeout=0)

    asyncio.run(main())


def test_threads_wait_while_another_thread_imports_asyncio(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module stands in ``sys.modules`` long before it has all its names."""
    for name in ("asyncio", "janus"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    with pytest.raises(TimeoutError):
        Channel[Any]().receive(timeout=0.001)
    ticks: queue.SimpleQueue[Any] = queue.SimpleQueue()
    ticker = Ticker(ConstantBackOff(HOUR))
    ticker.send_to(ticks)
    assert ticks.get(timeout=PATIENCE).number == 1
    ticker.stop()

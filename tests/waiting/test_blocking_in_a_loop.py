"""Waits in the wrong place say so: in an event loop that they block, or without one."""

from __future__ import annotations

import asyncio
import queue
import sys
from types import ModuleType
from typing import Any

import pytest

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    Channel,
    ConstantBackOff,
    Ticker,
    Timer,
    ZeroBackOff,
    attempts,
    hedge_call_async,
    merge,
    retry,
    retry_call_async,
    select,
    select_async,
)
from backoff_ticker.waiting import checkpoint, on_loop_wait
from tests.helpers import PATIENCE
from tests.interleaving import each_interleaving

HOUR = 3600.0


def pending(kind: Any = Ticker) -> Any:
    ticker = kind(ConstantBackOff(HOUR))
    ticker.receive_nowait()
    return ticker


WAITS = {
    "await token.wait_async()": lambda: CancellationToken().wait(1),
    "await channel.receive_async()": lambda: Channel[Any]().receive(timeout=1),
    "await channel.send_async()": lambda: Channel[Any]().send(1),
    "an AsyncTicker": lambda: next(pending()),
    "await select_async()": lambda: select(Channel(), Timer(), timeout=1),
    "async for": lambda: next(merge(Channel())),
}


@pytest.mark.parametrize("instead", WAITS)
def test_it_is_refused_and_the_way_for_coroutines_is_named(instead):
    async def main():
        with pytest.raises(RuntimeError, match="would block the event loop") as caught:
            WAITS[instead]()
        assert str(caught.value).endswith(f"; use {instead}")

    asyncio.run(main())


def test_calls_that_need_not_wait_work():
    async def main():
        token, ticker = CancellationToken(), Ticker(ConstantBackOff(HOUR))
        assert not token.wait(0)
        for receive in (Channel[Any]().receive, pending().receive):
            with pytest.raises(TimeoutError):
                receive(timeout=0)
        token.cancel("enough")
        channel: Channel[str] = Channel(1)
        channel.send("item")
        return [token.wait(), ticker.receive().number, select(token)[1], channel.receive()]

    assert asyncio.run(main()) == [True, 1, "enough", "item"]


def test_threads_wait_while_another_thread_imports_asyncio(monkeypatch):
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


async def failing() -> None:
    raise OSError("of the operation")


async def working() -> int:
    return 7


async def take_ticks_without_a_wait() -> None:
    async for _ in AsyncTicker(ZeroBackOff()):
        pass


async def exchange_without_a_wait() -> None:
    channel = Channel[int](1)
    while True:
        await channel.send_async(1)
        await channel.receive_async()


async def loop_over_attempts() -> None:
    async for attempt in attempts(ConstantBackOff(HOUR)):
        with attempt:
            await failing()


NEED_A_LOOP: dict[str, Any] = {
    "ticker": lambda: pending(AsyncTicker).receive(),
    "ticker, zero": take_ticks_without_a_wait,
    "send": lambda: Channel[int]().send_async(1),
    "receive": lambda: Channel[int]().receive_async(),
    "channel, no wait": exchange_without_a_wait,
    "select": lambda: select_async(Channel[int]()),
    "merge": lambda: anext(merge(Channel())),
    "token": lambda: CancellationToken().wait_async(),
    "scope": lambda: CancellationToken().scope().__aenter__(),
    "retry": lambda: retry(ConstantBackOff(HOUR))(failing)(),
    "retry_call_async": lambda: retry_call_async(failing, ConstantBackOff(HOUR)),
    "retry, zero": lambda: retry_call_async(failing, ZeroBackOff()),
    "retry, cut": lambda: retry_call_async(working, attempt_timeout=HOUR),
    "attempts": loop_over_attempts,
    "hedge": lambda: hedge_call_async(working, ConstantBackOff(HOUR)),
}


@pytest.mark.parametrize("name", NEED_A_LOOP)
def test_what_needs_a_loop_says_so(name):
    coroutine = NEED_A_LOOP[name]()
    with pytest.raises(RuntimeError, match="needs a running asyncio event loop") as caught:
        coroutine.send(None)
    assert "trio.to_thread.run_sync" in str(caught.value)
    if name in ("retry", "retry_call_async", "attempts"):  # which tell the operation's error, too
        assert isinstance(caught.value.__cause__, OSError)


def test_what_need_not_wait_needs_no_loop():
    async def main():
        channel: Channel[int] = Channel(1)
        await channel.send_async(3)
        tick = await AsyncTicker(ConstantBackOff(HOUR)).receive()
        retried = await retry_call_async(working), await retry(working)()
        return await channel.receive_async(), tick.number, *retried

    with pytest.raises(StopIteration) as caught:
        main().send(None)
    assert caught.value.value == (3, 1, 7, 7)


def test_who_no_longer_asks_to_be_told_of_waits_does_no_harm_to_them(monkeypatch):
    async def wait():
        await checkpoint()

    def begin():
        on_loop_wait([].append)
        return lambda: asyncio.run(wait()), lambda: on_loop_wait(None)

    try:
        for outcomes in each_interleaving(begin, monkeypatch):
            assert outcomes == (None, None)
    finally:
        on_loop_wait(None)

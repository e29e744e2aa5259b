"""Waits in the wrong place say so: in an event loop that they block, or without one."""

from __future__ import annotations

import asyncio
import queue
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

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
from tests.helpers import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

HOUR = 3600.0


def full() -> Channel[Any]:
    channel = Channel[Any](1)
    channel.send(1)
    return channel


def pending(kind: Any = Ticker) -> Any:
    ticker = kind(ConstantBackOff(HOUR))
    ticker.receive_nowait()
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
def test_it_is_refused_and_the_way_for_coroutines_is_named(instead):
    async def main():
        with pytest.raises(RuntimeError, match="would block the event loop") as caught:
            WAITS[instead]()
        assert str(caught.value).endswith(f"; use {instead}")

    asyncio.run(main())


def test_calls_that_need_not_wait_work():
    async def main():
        token, ticker = CancellationToken(), Ticker(ConstantBackOff(HOUR))
        token.cancel("enough")
        channel: Channel[str] = Channel(1)
        channel.send("item")
        return [token.wait(), ticker.receive().number, select(token)[1], channel.receive()]

    assert asyncio.run(main()) == [True, 1, "enough", "item"]


def test_a_time_out_of_zero_looks_without_a_wait():
    async def main():
        assert not CancellationToken().wait(0)
        for receive in (Channel[Any]().receive, pending().receive):
            with pytest.raises(TimeoutError):
                receive(timeout=0)

    asyncio.run(main())


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


# Without a loop


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


NEED_A_LOOP: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
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


@pytest.mark.parametrize("name", ["retry", "retry_call_async", "attempts"])
def test_the_error_of_the_operation_is_its_cause(name):
    with pytest.raises(RuntimeError) as caught:
        NEED_A_LOOP[name]().send(None)
    assert isinstance(caught.value.__cause__, OSError)


async def take_a_first_tick() -> int:
    return (await AsyncTicker(ConstantBackOff(HOUR)).receive()).number


async def send_to_a_channel_with_room() -> int:
    channel = Channel[int](1)
    await channel.send_async(3)
    return await channel.receive_async()


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (lambda: retry_call_async(working), 7),
        (lambda: retry(working)(), 7),
        (take_a_first_tick, 1),
        (send_to_a_channel_with_room, 3),
    ],
)
def test_what_need_not_wait_needs_no_loop(operation, expected):
    with pytest.raises(StopIteration) as caught:
        operation().send(None)
    assert caught.value.value == expected

"""Coroutines that run without asyncio, as under trio, say so where they need its event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    Channel,
    ConstantBackOff,
    ZeroBackOff,
    attempts,
    hedge_call_async,
    merge,
    retry,
    retry_call_async,
    select_async,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

HOUR = 3600.0


async def failing() -> None:
    raise OSError("of the operation")


async def working() -> int:
    return 7


async def wait_for_the_second_tick() -> None:
    ticker = AsyncTicker(ConstantBackOff(HOUR))
    assert (await ticker.receive()).number == 1
    await ticker.receive()


async def take_ticks_without_a_wait() -> None:
    async for _ in AsyncTicker(ZeroBackOff()):
        pass


async def exchange_without_a_wait() -> None:
    channel = Channel[int](1)
    while True:
        await channel.send_async(1)
        await channel.receive_async()


async def iterate_over_a_merge() -> None:
    async for _ in merge(Channel[int]()):
        pass


async def enter_a_scope() -> None:
    async with CancellationToken().scope():
        pass


async def loop_over_attempts() -> None:
    async for attempt in attempts(ConstantBackOff(HOUR)):
        with attempt:
            await failing()


NEED_A_LOOP: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
    "ticker": wait_for_the_second_tick,
    "ticker, zero": take_ticks_without_a_wait,
    "send": lambda: Channel[int]().send_async(1),
    "receive": lambda: Channel[int]().receive_async(),
    "channel, no wait": exchange_without_a_wait,
    "select": lambda: select_async(Channel[int]()),
    "merge": iterate_over_a_merge,
    "token": lambda: CancellationToken().wait_async(),
    "scope": enter_a_scope,
    "retry": lambda: retry(ConstantBackOff(HOUR))(failing)(),
    "retry_call_async": lambda: retry_call_async(failing, ConstantBackOff(HOUR)),
    "retry, zero": lambda: retry_call_async(failing, ZeroBackOff()),
    "retry, cut": lambda: retry_call_async(working, attempt_timeout=HOUR),
    "attempts": loop_over_attempts,
    "hedge": lambda: hedge_call_async(working, ConstantBackOff(HOUR)),
}


@pytest.mark.parametrize("name", NEED_A_LOOP)
def test_what_needs_a_loop_says_so(name: str) -> None:
    coroutine = NEED_A_LOOP[name]()
    with pytest.raises(RuntimeError, match="needs a running asyncio event loop") as caught:
        coroutine.send(None)
    assert "trio.to_thread.run_sync" in str(caught.value)


@pytest.mark.parametrize("name", ["retry", "retry_call_async", "attempts"])
def test_the_error_of_the_operation_is_its_cause(name: str) -> None:
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
def test_what_need_not_wait_needs_no_loop(operation: Any, expected: int) -> None:
    with pytest.raises(StopIteration) as caught:
        operation().send(None)
    assert caught.value.value == expected

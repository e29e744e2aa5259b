"""``asyncio.wait_for`` and ``asyncio.timeout`` around channels, up to a tie."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import Channel, WouldBlock, select_async
from tests.channels.ends import drained, turns

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from backoff_ticker.testing import VirtualClock
    from tests.helpers import LoopThread


async def by_wait_for(wait: Coroutine[Any, Any, Any], seconds: float) -> Any:
    return await asyncio.wait_for(wait, seconds)


async def by_timeout(wait: Coroutine[Any, Any, Any], seconds: float) -> Any:
    async with asyncio.timeout(seconds):
        return await wait


LIMITED = pytest.mark.parametrize("limited", [by_wait_for, by_timeout])
CAPACITY = pytest.mark.parametrize("capacity", [0, 1, 3])


@LIMITED
@CAPACITY
@pytest.mark.parametrize("scheduled", ["before", "after"])
def test_a_tie_of_item_and_time_limit_loses_and_doubles_nothing(
    loop: LoopThread, clock: VirtualClock, limited: Any, capacity: int, scheduled: str
) -> None:
    channel: Channel[str] = Channel(capacity)
    accepted: list[str] = []

    def send() -> None:
        try:
            channel.send_nowait("a")
        except WouldBlock:
            return
        accepted.append("a")

    async def main() -> list[str]:
        running = asyncio.get_running_loop()
        if scheduled == "before":
            running.call_at(1005, send)
        receiving = asyncio.ensure_future(limited(channel.receive_async(), 5))
        await turns(3)
        if scheduled == "after":
            running.call_at(1005, send)
        await asyncio.wait([receiving])
        await turns(3)
        if receiving.exception() is None:
            return [receiving.result()]
        assert isinstance(receiving.exception(), TimeoutError)
        return []

    outcome = loop.submit(main())
    clock.advance(5)
    assert outcome.result(1) + drained(channel) == accepted
    assert accepted or capacity == 0


@LIMITED
@CAPACITY
def test_a_tie_with_another_one_waiting_passes_the_item_on(
    loop: LoopThread, clock: VirtualClock, limited: Any, capacity: int
) -> None:
    channel: Channel[str] = Channel(capacity)

    async def main() -> None:
        running = asyncio.get_running_loop()
        first = asyncio.ensure_future(limited(channel.receive_async(), 5))
        await turns(3)
        other = asyncio.ensure_future(channel.receive_async())
        await turns(3)
        running.call_at(1005, channel.send_nowait, "a")
        await asyncio.wait([first])
        await turns(3)
        got = [first.result()] if first.exception() is None else []
        if other.done():
            got.append(other.result())
        assert got == ["a"]
        channel.close()
        await asyncio.wait([other])
        assert other.exception() is not None or got[0] == other.result()

    outcome = loop.submit(main())
    clock.advance(5)
    outcome.result(1)


@LIMITED
@CAPACITY
@pytest.mark.parametrize("scheduled", ["before", "after"])
def test_a_tie_of_room_and_time_limit_sends_once_at_the_most(
    loop: LoopThread, clock: VirtualClock, limited: Any, capacity: int, scheduled: str
) -> None:
    channel: Channel[Any] = Channel(capacity)
    for number in range(capacity):
        channel.send_nowait(number)
    taken: list[Any] = []

    def receive() -> None:
        try:
            taken.append(channel.receive_nowait())
        except WouldBlock:
            pass

    async def main() -> bool:
        running = asyncio.get_running_loop()
        if scheduled == "before":
            running.call_at(1005, receive)
        sending = asyncio.ensure_future(limited(channel.send_async("late"), 5))
        await turns(3)
        if scheduled == "after":
            running.call_at(1005, receive)
        await asyncio.wait([sending])
        await turns(3)
        return sending.exception() is None

    outcome = loop.submit(main())
    clock.advance(5)
    sent = outcome.result(1)
    taken += drained(channel)
    assert taken in ([*range(capacity)], [*range(capacity), "late"])
    assert taken[-1:] == ["late"] or not sent


@LIMITED
@CAPACITY
def test_what_is_given_up_leaves_nothing_behind(
    loop: LoopThread, clock: VirtualClock, limited: Any, capacity: int
) -> None:
    channel: Channel[Any] = Channel(capacity)

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await limited(channel.receive_async(), 2)
        with pytest.raises(TimeoutError):
            await limited(select_async(channel, Channel()), 2)
        for number in range(capacity):
            channel.send_nowait(number)
        with pytest.raises(TimeoutError):
            await limited(channel.send_async("late"), 2)

    outcome = loop.submit(main())
    clock.advance(6)
    outcome.result(1)
    assert clock.pending() == []
    assert drained(channel) == list(range(capacity))
    for refused in (channel.receive_nowait, lambda: Channel().send_nowait(1)):
        with pytest.raises(WouldBlock):
            refused()


@LIMITED
def test_its_own_time_limit_and_that_of_asyncio_can_tie(
    loop: LoopThread, clock: VirtualClock, limited: Any
) -> None:
    channel: Channel[Any] = Channel()

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await limited(channel.receive_async(3), 3)
        with pytest.raises(TimeoutError):
            await limited(channel.send_async(1, 3), 3)

    outcome = loop.submit(main())
    clock.advance(6)
    outcome.result(1)
    assert clock.monotonic() == 1006
    assert clock.pending() == []

"""Time limits of channels, and of asyncio around them: to the moment, and up to a tie."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import Channel, WouldBlock, select_async
from tests.channels.ends import drained, error, still_waits, turns, value
from tests.helpers import PATIENCE, in_thread

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from backoff_ticker.testing import VirtualClock
    from tests.helpers import LoopThread

TIMEOUT = pytest.mark.parametrize("timeout", [0.25, timedelta(minutes=90)])


CAPACITY = pytest.mark.parametrize("capacity", [0, 1, 3])


def seconds(timeout: Any) -> float:
    return timeout.total_seconds() if isinstance(timeout, timedelta) else timeout


def full(capacity: int) -> Channel[Any]:
    channel: Channel[Any] = Channel(capacity)
    for number in range(capacity):
        channel.send_nowait(number)
    return channel


@TIMEOUT
@CAPACITY
def test_receiving_ends_when_its_time_is_up_and_not_before(
    receivers: Any, clock: VirtualClock, timeout: Any, capacity: int
) -> None:
    channel: Channel[Any] = Channel(capacity)
    receiving = receivers.receive(channel, timeout)
    clock.settle()
    clock.advance(seconds(timeout) - 0.125)
    assert not receiving.done()
    clock.advance(0.125)
    assert type(error(receiving)) is TimeoutError
    assert clock.pending() == []
    if capacity:
        channel.send_nowait("next")
        assert value(receivers.receive(channel)) == "next"


@TIMEOUT
@CAPACITY
def test_sending_ends_when_its_time_is_up_and_nothing_was_sent(
    senders: Any, clock: VirtualClock, timeout: Any, capacity: int
) -> None:
    channel = full(capacity)
    sending = senders.send(channel, "late", timeout)
    clock.settle()
    clock.advance(seconds(timeout) - 0.125)
    assert not sending.done()
    clock.advance(0.125)
    assert type(error(sending)) is TimeoutError
    assert clock.pending() == []
    assert drained(channel) == list(range(capacity))
    with pytest.raises(WouldBlock):
        channel.receive_nowait()


@CAPACITY
@pytest.mark.parametrize("timeout", [0, 0.0, timedelta()])
def test_no_time_is_no_wait(
    senders: Any, receivers: Any, clock: VirtualClock, capacity: int, timeout: Any
) -> None:
    channel = full(capacity)
    assert type(error(senders.send(channel, "late", timeout))) is TimeoutError
    for number in range(capacity):
        assert value(receivers.receive(channel, timeout)) == number
    assert type(error(receivers.receive(channel, timeout))) is TimeoutError
    assert clock.monotonic() == 1000
    assert clock.pending() == []


@CAPACITY
def test_what_is_ready_beats_the_time_limit(
    senders: Any, receivers: Any, clock: VirtualClock, capacity: int
) -> None:
    channel: Channel[Any] = Channel(capacity)
    waiting = senders.send(channel, "a") if capacity == 0 else None
    if waiting is None:
        assert value(senders.send(channel, "a", 0)) is None
    else:
        still_waits(clock, waiting)
    assert value(receivers.receive(channel, 0)) == "a"
    receiving = receivers.receive(channel)
    clock.settle()
    assert value(senders.send(channel, "b", 0)) is None
    assert value(receiving) == "b"


@pytest.mark.parametrize("waiting", [2, 8])
def test_an_item_goes_to_one_who_still_waits(
    receivers: Any, clock: VirtualClock, waiting: int
) -> None:
    """The first of the line gives up; what comes then goes to another one."""
    channel: Channel[Any] = Channel(1)
    first = receivers.receive(channel, 4)
    clock.settle()
    others = [receivers.receive(channel) for _ in range(waiting - 1)]
    clock.settle()
    clock.advance(4)
    assert type(error(first)) is TimeoutError
    channel.send_nowait("a")
    clock.settle()
    assert [value(each) for each in others if each.done()] == ["a"]
    channel.close()


@CAPACITY
@pytest.mark.parametrize("scheduled", ["before", "after"])
def test_an_item_that_comes_as_the_time_is_up_is_received_or_left(
    receivers: Any, clock: VirtualClock, capacity: int, scheduled: str
) -> None:
    channel: Channel[Any] = Channel(capacity)
    accepted: list[bool] = []

    def send() -> None:
        try:
            channel.send_nowait("a")
        except WouldBlock:
            accepted.append(False)
        else:
            accepted.append(True)

    if scheduled == "before":
        clock.call_at(1005, send)
    receiving = receivers.receive(channel, 5)
    clock.settle()
    if scheduled == "after":
        clock.call_at(1005, send)
    clock.advance(5)
    received = [] if error(receiving) else [value(receiving)]
    assert received + drained(channel) == ["a"] * accepted[0]
    assert accepted[0] or capacity == 0


@CAPACITY
@pytest.mark.parametrize("scheduled", ["before", "after"])
def test_room_that_comes_as_the_time_is_up_is_taken_or_left(
    senders: Any, clock: VirtualClock, capacity: int, scheduled: str
) -> None:
    channel = full(capacity)
    received: list[Any] = []

    def receive() -> None:
        try:
            received.append(channel.receive_nowait())
        except WouldBlock:
            pass

    if scheduled == "before":
        clock.call_at(1005, receive)
    sending = senders.send(channel, "late", 5)
    clock.settle()
    if scheduled == "after":
        clock.call_at(1005, receive)
    clock.advance(5)
    delivered = error(sending) is None
    assert received + drained(channel) == [*range(capacity), *["late"] * delivered]


async def by_wait_for(wait: Coroutine[Any, Any, Any], seconds: float) -> Any:
    return await asyncio.wait_for(wait, seconds)


async def by_timeout(wait: Coroutine[Any, Any, Any], seconds: float) -> Any:
    async with asyncio.timeout(seconds):
        return await wait


LIMITED = pytest.mark.parametrize("limited", [by_wait_for, by_timeout])


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
    assert outcome.result(PATIENCE) + drained(channel) == accepted
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
    outcome.result(PATIENCE)


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
    sent = outcome.result(PATIENCE)
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
    outcome.result(PATIENCE)
    assert clock.pending() == []
    assert drained(channel) == list(range(capacity))
    for refused in (channel.receive_nowait, lambda: Channel().send_nowait(1)):
        with pytest.raises(WouldBlock):
            refused()


class ReceivesAt:
    """A clock on which somebody else receives from ``channel`` as the time is looked at."""

    def __init__(self, clock: VirtualClock, at: float) -> None:
        self._clock = clock
        self._at = at
        self.parker = clock.parker
        self.channel: Channel[Any] | None = None
        self.received: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clock, name)

    def monotonic(self) -> float:
        now = self._clock.monotonic()
        if now >= self._at and not self.received and self.channel is not None:
            self.received.append(self.channel.receive_nowait())
        return now


def test_an_item_that_is_accepted_as_the_time_runs_out_was_sent(clock: VirtualClock) -> None:
    receiving = ReceivesAt(clock, clock.monotonic() + 5)
    channel: Channel[Any] = Channel(1, clock=receiving)
    channel.send("first")
    receiving.channel = channel
    sending = in_thread(channel.send, "late", 5)
    clock.settle()
    clock.advance(5)
    assert sending.exception(PATIENCE) is None
    assert receiving.received == ["first"]
    assert channel.receive_nowait() == "late"

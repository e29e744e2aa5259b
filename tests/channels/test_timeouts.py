"""Time limits of channels: to the moment, and at a tie."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import Channel, WouldBlock
from tests.channels.ends import drained, error, value
from tests.helpers import PATIENCE, in_thread

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from backoff_ticker.testing import VirtualClock

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

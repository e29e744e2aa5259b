"""Waiting for so long and no longer: time-outs, to the moment."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import Channel, WouldBlock
from tests.channels.ends import drained, error, still_waits, value

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock

TIMEOUT = pytest.mark.parametrize("timeout", [5, 0.25, timedelta(minutes=90), 1e6])
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


@CAPACITY
def test_what_comes_in_time_ends_the_wait_at_once(
    senders: Any, receivers: Any, clock: VirtualClock, capacity: int
) -> None:
    channel: Channel[Any] = Channel(capacity)
    receiving = receivers.receive(channel, 10)
    clock.settle()
    clock.advance(4)
    assert value(senders.send(channel, "a", 10)) is None
    assert value(receiving) == "a"
    assert clock.monotonic() == 1004
    blocked = full(capacity)
    sending = senders.send(blocked, "b", 10)
    clock.settle()
    clock.advance(4)
    value(receivers.receive(blocked))
    assert value(sending) is None
    assert clock.monotonic() == 1008
    assert clock.pending() == []


def test_each_has_a_time_limit_of_its_own(receivers: Any, clock: VirtualClock) -> None:
    channel: Channel[Any] = Channel()
    waiting = []
    for timeout in (9, 3, 7, 5, 1):
        waiting.append((timeout, receivers.receive(channel, timeout)))
        clock.settle()
    patient = receivers.receive(channel)
    for timeout, receiving in sorted(waiting, key=lambda pair: pair[0]):
        clock.advance_to(1000 + timeout - 0.5)
        assert not receiving.done()
        clock.advance_to(1000 + timeout)
        assert type(error(receiving)) is TimeoutError
    channel.send_nowait("a")
    assert value(patient) == "a"


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


def test_two_whose_time_is_up_together_both_end(
    senders: Any, receivers: Any, clock: VirtualClock
) -> None:
    """Sender and receiver of two channels, and those of one, at the same moment."""
    lonely: Channel[Any] = Channel()
    other = full(1)
    waiting = [
        receivers.receive(lonely, 5),
        senders.send(other, "late", 5),
        receivers.receive(lonely, 5),
    ]
    still_waits(clock, *waiting)
    clock.advance(5)
    assert [type(error(each)) for each in waiting] == [TimeoutError] * 3
    assert drained(other) == [0]
    assert clock.pending() == []

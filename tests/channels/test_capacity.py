"""Room for a number of items, or for none: who waits for it, and in which order."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import Channel, ChannelClosed, WouldBlock
from tests.channels.ends import drained, ended, error, in_turn, still_waits, value, values

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock
    from tests.helpers import LoopThread

CAPACITY = pytest.mark.parametrize("capacity", [1, 3])


def full(capacity: int) -> Channel[int]:
    """Return a channel with items -capacity to -1, and no more room."""
    channel: Channel[int] = Channel(capacity)
    for number in range(-capacity, 0):
        channel.send_nowait(number)
    return channel


@CAPACITY
def test_senders_wait_only_when_there_is_no_room(
    senders: Any, clock: VirtualClock, capacity: int
) -> None:
    channel: Channel[int] = Channel(capacity)
    for number in range(capacity):
        assert value(senders.send(channel, number)) is None
        assert len(channel) == number + 1
    blocked = senders.send(channel, capacity)
    still_waits(clock, blocked)
    assert len(channel) == capacity
    assert channel.receive_nowait() == 0
    assert value(blocked) is None
    assert len(channel) == capacity
    assert drained(channel) == list(range(1, capacity + 1))


def test_without_a_bound_nobody_waits(senders: Any, receivers: Any, clock: VirtualClock) -> None:
    channel: Channel[int] = Channel(math.inf)
    assert value(senders.send_all(channel, range(2000))) is None
    for number in range(2000, 4000):
        channel.send_nowait(number)
    assert len(channel) == 4000
    channel.close()
    assert value(receivers.collect(channel)) == list(range(4000))


@pytest.mark.parametrize("capacity", [0, 1, 7])
def test_blocked_senders_are_let_in_in_the_order_they_came(
    senders: Any, clock: VirtualClock, capacity: int
) -> None:
    channel = full(capacity)
    sending = in_turn(clock, senders.send, channel, *range(6))
    for number in range(6):
        assert channel.receive_nowait() == number - capacity
        assert ended(clock, sending) == sending[: number + 1]
        assert len(channel) == capacity
    assert drained(channel) == list(range(6 - capacity, 6))


@CAPACITY
def test_nobody_overtakes_a_blocked_sender(
    senders: Any, clock: VirtualClock, capacity: int
) -> None:
    """The room that a received item leaves is the blocked sender's, before it has run."""
    channel = full(capacity)
    blocked = senders.send(channel, 0)
    still_waits(clock, blocked)
    channel.receive_nowait()
    with pytest.raises(WouldBlock):
        channel.send_nowait(99)
    assert value(blocked) is None
    with pytest.raises(WouldBlock):
        channel.send_nowait(99)
    assert drained(channel) == list(range(1 - capacity, 1))


@pytest.mark.parametrize("capacity", [0, 1, 7])
def test_items_of_blocked_senders_are_taken_before_any_of_them_runs(
    senders: Any, clock: VirtualClock, capacity: int
) -> None:
    channel = full(capacity)
    sending = in_turn(clock, senders.send, channel, *range(4))
    taken = [channel.receive_nowait() for _ in range(4 + capacity)]
    assert taken == list(range(-capacity, 4))
    with pytest.raises(WouldBlock):
        channel.receive_nowait()
    assert values(sending) == [None] * 4
    assert len(channel) == 0


@CAPACITY
def test_a_sender_whose_time_is_up_leaves_the_line(
    senders: Any, clock: VirtualClock, capacity: int
) -> None:
    channel = full(capacity)
    first = senders.send(channel, 1, 5)
    still_waits(clock, first)
    second = senders.send(channel, 2)
    still_waits(clock, first, second)
    clock.advance(5)
    assert type(error(first)) is TimeoutError
    still_waits(clock, second)
    channel.receive_nowait()
    assert value(second) is None
    assert drained(channel) == [*range(1 - capacity, 0), 2]


@pytest.mark.parametrize("capacity", [1, 3, math.inf])
def test_each_of_those_who_wait_gets_one(
    receivers: Any, clock: VirtualClock, capacity: float
) -> None:
    channel: Channel[int] = Channel(capacity)
    receiving = [receivers.receive(channel) for _ in range(5)]
    still_waits(clock, *receiving)
    for number in range(5):
        channel.send_nowait(number)
        done = ended(clock, receiving)
        assert sorted(values(done)) == list(range(number + 1))
    assert len(channel) == 0


def test_a_sender_waits_for_a_receiver(senders: Any, receivers: Any, clock: VirtualClock) -> None:
    channel: Channel[str] = Channel()
    sending = senders.send(channel, "a")
    still_waits(clock, sending)
    assert len(channel) == 0
    assert value(receivers.receive(channel)) == "a"
    assert value(sending) is None
    assert len(channel) == 0


def test_a_receiver_waits_for_a_sender(senders: Any, receivers: Any, clock: VirtualClock) -> None:
    channel: Channel[str] = Channel()
    receiving = receivers.receive(channel)
    still_waits(clock, receiving)
    sending = senders.send(channel, "a")
    clock.settle()
    assert value(sending) is None
    assert value(receiving) == "a"
    assert len(channel) == 0


@pytest.mark.parametrize("waiting", [1, 2, 5])
def test_without_waiting_as_many_are_sent_as_receivers_wait(
    receivers: Any, clock: VirtualClock, waiting: int
) -> None:
    channel: Channel[int] = Channel()
    receiving = [receivers.receive(channel) for _ in range(waiting)]
    still_waits(clock, *receiving)
    for number in range(waiting):
        channel.send_nowait(number)
        clock.settle()  # a receiver that is about to take an item counts neither here nor there
    assert sorted(values(receiving)) == list(range(waiting))
    with pytest.raises(WouldBlock):
        channel.send_nowait(-1)


def test_nobody_there_nothing_moves(senders: Any, clock: VirtualClock) -> None:
    channel: Channel[int] = Channel()
    with pytest.raises(WouldBlock):
        channel.send_nowait(1)
    with pytest.raises(WouldBlock):
        channel.receive_nowait()
    sending = senders.send(channel, 2)
    still_waits(clock, sending)
    with pytest.raises(WouldBlock):
        channel.send_nowait(3)
    assert channel.receive_nowait() == 2
    assert value(sending) is None
    with pytest.raises(WouldBlock):
        channel.receive_nowait()


def test_a_receiver_whose_time_is_up_is_no_receiver(receivers: Any, clock: VirtualClock) -> None:
    channel: Channel[int] = Channel()
    receiving = receivers.receive(channel, 3)
    clock.settle()
    clock.advance(3)
    assert type(error(receiving)) is TimeoutError
    with pytest.raises(WouldBlock):
        channel.send_nowait(1)
    assert len(channel) == 0


def test_a_sender_whose_time_is_up_is_no_sender(senders: Any, clock: VirtualClock) -> None:
    channel: Channel[int] = Channel()
    sending = senders.send(channel, 1, 3)
    clock.settle()
    clock.advance(3)
    assert type(error(sending)) is TimeoutError
    with pytest.raises(WouldBlock):
        channel.receive_nowait()


def test_a_receiver_with_a_time_limit_is_one_to_meet(
    senders: Any, receivers: Any, clock: VirtualClock
) -> None:
    channel: Channel[int] = Channel()
    receiving = receivers.receive(channel, 10)
    clock.settle()
    clock.advance(9)
    assert value(senders.send(channel, 4, 0)) is None
    assert value(receiving) == 4
    assert clock.pending() == []


@pytest.mark.parametrize("cancel_first", [False, True])
def test_an_accepted_item_whose_receiver_leaves_stays_readable(
    loop: LoopThread, clock: VirtualClock, cancel_first: bool
) -> None:
    """The receiver may have it, or the channel; an item that was refused is nowhere."""
    channel: Channel[str] = Channel()

    async def main() -> tuple[bool, list[str], list[str]]:
        receiver = asyncio.ensure_future(channel.receive_async())
        await asyncio.sleep(0)
        accepted = True
        if cancel_first:
            receiver.cancel()
        try:
            channel.send_nowait("a")
        except WouldBlock:
            accepted = False
        receiver.cancel()
        await asyncio.wait([receiver])
        received = [] if receiver.cancelled() else [receiver.result()]
        return accepted, received, drained(channel)

    accepted, received, left = loop.run(main())
    assert received + left == ["a"] * accepted
    assert accepted or cancel_first
    channel.close()
    with pytest.raises(ChannelClosed):
        channel.receive_nowait()

"""Room for so many items: who waits for it, in which order, and that it is never exceeded."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import Channel, WouldBlock
from tests.channels.ends import drained, ended, error, in_turn, still_waits, value, values

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock

CAPACITY = pytest.mark.parametrize("capacity", [1, 2, 7])


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


@CAPACITY
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
def test_blocked_threads_and_coroutines_stand_in_one_line(
    senders: Any, receivers: Any, clock: VirtualClock, capacity: int
) -> None:
    channel = full(capacity)
    sending = []
    for number in range(6):
        end = (senders, receivers)[number % 2]
        sending += in_turn(clock, end.send, channel, number)
    assert [value(receivers.receive(channel)) for _ in range(6 + capacity)] == list(
        range(-capacity, 6)
    )
    assert values(sending) == [None] * 6


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


@CAPACITY
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


@CAPACITY
def test_there_is_never_more_than_there_is_room_for(
    senders: Any, receivers: Any, clock: VirtualClock, capacity: int
) -> None:
    channel: Channel[Any] = Channel(capacity)
    sent = [senders.send_all(channel, [(number, each) for each in range(5)]) for number in range(4)]
    received = []
    for _ in range(20):
        clock.settle()
        assert len(channel) <= capacity
        received.append(value(receivers.receive(channel)))
        assert len(channel) <= capacity
    values(sent)
    assert Counter(received) == Counter((number, each) for number in range(4) for each in range(5))
    for number in range(4):
        assert [each for sender, each in received if sender == number] == list(range(5))


@pytest.mark.parametrize("capacity", [1, 3, math.inf])
def test_each_receiver_gets_the_items_of_one_sender_in_order(
    senders: Any, receivers: Any, clock: VirtualClock, capacity: float
) -> None:
    channel: Channel[Any] = Channel(capacity)
    collecting = [receivers.collect(channel) for _ in range(3)]
    values(senders.send_all(channel, [(number, each) for each in range(12)]) for number in range(3))
    channel.close()
    lists = values(collecting)
    assert Counter(sum(lists, [])) == Counter(
        (number, each) for number in range(3) for each in range(12)
    )
    for items in lists:
        for number in range(3):
            mine = [each for sender, each in items if sender == number]
            assert mine == sorted(mine)
    assert clock.pending() == []


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

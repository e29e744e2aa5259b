"""What a channel is: its capacity, what it takes and gives, who waits for room, iteration."""

from __future__ import annotations

import copy
import math
import pickle
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    CLOSED,
    Channel,
    ChannelClosed,
    WouldBlock,
)
from tests.channels.ends import (
    BAD_TIMEOUTS,
    drained,
    ended,
    error,
    in_turn,
    still_waits,
    value,
    values,
)

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock

CAPACITIES = [0, 1, 2, 7, math.inf]


# The object


@pytest.mark.parametrize("capacity", [*CAPACITIES, 10**30])
def test_a_channel_is_open_empty_and_true(clock: VirtualClock, capacity: float) -> None:
    channel: Channel[int] = Channel(capacity)
    assert channel.capacity == capacity
    assert channel.clock is clock
    assert (len(channel), channel.closed, bool(channel)) == (0, False, True)


def test_a_clock_can_be_given_by_name() -> None:
    class Other:
        def monotonic(self) -> float:
            return 5.0

        time = call_at = parker = timer = monotonic

    given: Any = Other()
    assert Channel(clock=given).clock is given
    with pytest.raises(TypeError):
        Channel(1, given)
    with pytest.raises(TypeError, match="clock"):
        Channel(clock=object())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("capacity", "expected"),
    [
        (True, TypeError),
        (False, TypeError),
        (0.0, TypeError),
        (math.nan, TypeError),
        (-math.inf, TypeError),
        (1.5, TypeError),
        ("3", TypeError),
        (None, TypeError),
        ([], TypeError),
        (timedelta(1), TypeError),
        (-1, ValueError),
        (-(10**30), ValueError),
    ],
)
def test_a_bad_capacity_is_named(capacity: Any, expected: type[Exception]) -> None:
    with pytest.raises(expected) as caught:
        Channel(capacity)
    assert "capacity" in str(caught.value)
    assert repr(capacity) in str(caught.value)


def test_a_copy_is_the_channel_itself_and_none_is_pickled() -> None:
    channel: Channel[int] = Channel(1)
    assert copy.copy(channel) is channel
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError):
            pickle.dumps(channel, protocol)


# Items


@pytest.mark.parametrize("capacity", CAPACITIES)
def test_what_is_sent_is_received_in_order(
    senders: Any, receivers: Any, clock: VirtualClock, capacity: float
) -> None:
    channel: Channel[int] = Channel(capacity)
    sending = senders.send_all(channel, range(20))
    clock.settle()
    assert len(channel) == min(20, capacity)
    assert [value(receivers.receive(channel)) for _ in range(20)] == list(range(20))
    assert value(sending) is None
    assert len(channel) == 0
    assert clock.pending() == []


@pytest.mark.parametrize("capacity", [0, 1])
def test_any_object_can_be_sent(senders: Any, receivers: Any, capacity: int) -> None:
    channel: Channel[Any] = Channel(capacity)
    items = [None, False, 0, "", CLOSED, StopIteration(), ChannelClosed("sent"), channel, object()]
    for item in items:
        sending = senders.send(channel, item)
        assert value(receivers.receive(channel)) is item
        assert value(sending) is None


# Iteration


@pytest.mark.parametrize("capacity", CAPACITIES)
def test_iteration_gives_all_and_ends_when_closed_and_drained(
    senders: Any, receivers: Any, clock: VirtualClock, capacity: float
) -> None:
    channel: Channel[int] = Channel(capacity)
    collecting = receivers.collect(channel)
    value(senders.send_all(channel, range(10)))
    still_waits(clock, collecting)
    channel.close()
    assert value(collecting) == list(range(10))
    assert value(receivers.collect(channel)) == []


@pytest.mark.parametrize(("timeout", "expected"), BAD_TIMEOUTS)
@pytest.mark.parametrize("full", [False, True])
def test_a_bad_timeout_is_named_and_nothing_is_moved(
    senders: Any, timeout: Any, expected: type[Exception], full: bool
) -> None:
    channel: Channel[int] = Channel(1)
    if full:
        channel.send_nowait(7)
    for failing in (senders.send(channel, 1, timeout), senders.receive(channel, timeout)):
        assert type(error(failing)) is expected
        assert "timeout" in str(error(failing))
    assert drained(channel) == [7] * full


def test_a_channel_is_shown_whatever_its_capacity(clock: VirtualClock) -> None:
    for capacity, shown in [(0, "0"), (math.inf, "inf"), (10**5000, "one of type int")]:
        channel: Channel[int] = Channel(capacity)
        assert repr(channel) == f"<Channel open, capacity={shown}, 0 items>"
        channel.close()
        assert repr(channel) == f"<Channel closed, capacity={shown}, 0 items>"


def test_a_subclass_may_send_in_its_own_way():
    class Doubling(Channel[int]):
        def send(self, item: int, timeout: Any = None) -> None:
            self.send_nowait(2 * item)

    for capacity in (1, math.inf):
        channel = Doubling(capacity)
        channel.send(3)
        assert channel.receive() == 6


# Room


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

"""What a channel is: its capacity, what it takes and gives, how it is counted and iterated."""

from __future__ import annotations

import copy
import math
import pickle
import weakref
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    CLOSED,
    Channel,
    ChannelClosed,
    WouldBlock,
)
from tests.channels.ends import BAD_TIMEOUTS, drained, error, still_waits, value

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock

CAPACITIES = [0, 1, 2, 7, math.inf]


ROOMY = [1, 2, 7, math.inf]


# The object


@pytest.mark.parametrize("capacity", [*CAPACITIES, 10**30])
def test_a_channel_is_open_empty_and_true(clock: VirtualClock, capacity: float) -> None:
    channel: Channel[int] = Channel(capacity)
    assert channel.capacity == capacity
    assert channel.clock is clock
    assert (len(channel), channel.closed, bool(channel)) == (0, False, True)


def test_without_a_capacity_it_is_a_rendezvous(clock: VirtualClock) -> None:
    assert Channel[str]().capacity == 0


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
        (2.0, TypeError),
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


@pytest.mark.parametrize("capacity", [math.nan, -math.inf])
def test_no_other_float_is_a_capacity(capacity: float) -> None:
    with pytest.raises((TypeError, ValueError), match="capacity"):
        Channel(capacity)


def test_a_copy_is_the_channel_itself_and_none_is_pickled() -> None:
    channel: Channel[int] = Channel(1)
    assert copy.copy(channel) is channel
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError):
            pickle.dumps(channel, protocol)


def test_channels_with_the_same_items_are_two() -> None:
    first, second = Channel[int](1), Channel[int](1)
    assert first != second
    assert {first: 1, second: 2}[first] == 1
    assert repr(first) != ""


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


@pytest.mark.parametrize("capacity", ROOMY)
def test_without_waiting_items_go_through_in_order(clock: VirtualClock, capacity: float) -> None:
    channel: Channel[int] = Channel(capacity)
    for start in (0, 100):
        room = int(min(capacity, 50))
        for number in range(room):
            assert len(channel) == number
            assert channel.send_nowait(start + number) is None
        assert drained(channel) == list(range(start, start + room))
    with pytest.raises(WouldBlock):
        channel.receive_nowait()


def test_an_item_is_let_go_of_once_it_is_received(clock: VirtualClock) -> None:
    class Item:
        pass

    channel: Channel[Item] = Channel(2)
    channel.send_nowait(Item())
    taken = channel.receive_nowait()
    watch = weakref.ref(taken)
    del taken
    assert watch() is None


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


def test_leaving_an_iteration_leaves_the_rest(clock: VirtualClock) -> None:
    channel: Channel[int] = Channel(5)
    for number in range(5):
        channel.send_nowait(number)
    for item in channel:
        if item == 2:
            break
    assert drained(channel) == [3, 4]


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

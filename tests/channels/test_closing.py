"""The end of a channel: what was accepted is still received, and nobody waits on."""

from __future__ import annotations

import math
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import CLOSED, Channel, ChannelClosed
from backoff_ticker.channels._buffer import _take_out
from tests.channels.ends import drained, error, in_turn, still_waits, value
from tests.helpers import collect_garbage, wait_until_collected

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock

CAPACITY = pytest.mark.parametrize("capacity", [0, 1, 3, math.inf])


BOUNDED = pytest.mark.parametrize("capacity", [0, 1, 3])


def filled(capacity: float) -> tuple[Channel[int], list[int]]:
    """Return a channel with at most three items in it, and those."""
    channel: Channel[int] = Channel(capacity)
    items = list(range(int(min(capacity, 3))))
    for item in items:
        channel.send_nowait(item)
    return channel, items


@CAPACITY
def test_what_is_closed_says_so_at_once_and_stays_closed(
    clock: VirtualClock, capacity: float
) -> None:
    channel, items = filled(capacity)
    assert not channel.closed
    for _ in range(3):
        assert channel.close() is None
        assert channel.closed
    assert drained(channel) == items
    channel.close()
    assert channel.closed
    assert bool(channel)


@CAPACITY
@pytest.mark.parametrize("timeout", [None, 0, 5])
def test_nothing_is_sent_on_a_closed_channel(
    senders: Any, clock: VirtualClock, capacity: float, timeout: Any
) -> None:
    channel, items = filled(capacity)
    channel.close()
    assert type(error(senders.send(channel, 9, timeout))) is ChannelClosed
    with pytest.raises(ChannelClosed):
        channel.send_nowait(9)
    assert drained(channel) == items


@CAPACITY
@pytest.mark.parametrize("timeout", [None, 0, 5])
def test_what_was_accepted_is_received_before_the_end(
    receivers: Any, clock: VirtualClock, capacity: float, timeout: Any
) -> None:
    channel, items = filled(capacity)
    channel.close()
    assert len(channel) == len(items)
    assert [value(receivers.receive(channel, timeout)) for _ in items] == items
    for _ in range(2):
        assert type(error(receivers.receive(channel, timeout))) is ChannelClosed
        with pytest.raises(ChannelClosed):
            channel.receive_nowait()
    assert clock.pending() == []


@BOUNDED
@pytest.mark.parametrize("timeout", [None, 5])
def test_what_blocked_senders_hold_is_never_received(
    senders: Any, clock: VirtualClock, capacity: int, timeout: Any
) -> None:
    channel, items = filled(capacity)
    sending = [senders.send(channel, 90 + number, timeout) for number in range(4)]
    still_waits(clock, *sending)
    channel.close()
    assert [type(error(each)) for each in sending] == [ChannelClosed] * 4
    assert drained(channel) == items
    with pytest.raises(ChannelClosed):
        channel.receive_nowait()
    assert clock.pending() == []


def test_who_was_let_in_before_the_close_was_let_in(senders: Any, clock: VirtualClock) -> None:
    """Its item was accepted, so its send has succeeded, though it had not run yet."""
    channel, _ = filled(1)
    first, second = in_turn(clock, senders.send, channel, 1, 2)
    assert channel.receive_nowait() == 0
    channel.close()
    outcomes = [error(first), error(second)]
    left = drained(channel)
    assert type(outcomes[1]) is ChannelClosed
    assert left == ([1] if outcomes[0] is None else [])


@CAPACITY
def test_all_who_wait_end_whatever_they_wait_with(
    receivers: Any, clock: VirtualClock, capacity: float
) -> None:
    channel: Channel[int] = Channel(capacity)
    receiving = receivers.receive(channel)
    collecting = receivers.collect(channel)
    selecting = receivers.select(channel, Channel())
    merging = receivers.merge(channel)
    still_waits(clock, receiving, collecting, selecting, merging)
    channel.close()
    assert type(error(receiving)) is ChannelClosed
    assert value(collecting) == []
    assert value(selecting) == (channel, CLOSED)
    assert value(merging) == [(channel, CLOSED)]


@CAPACITY
def test_an_item_accepted_just_before_the_close_is_received(
    receivers: Any, clock: VirtualClock, capacity: float
) -> None:
    channel: Channel[int] = Channel(capacity)
    receiving = [receivers.receive(channel) for _ in range(3)]
    still_waits(clock, *receiving)
    channel.send_nowait(7)
    channel.close()
    outcomes = [error(each) for each in receiving]
    assert sorted(type(each).__name__ for each in outcomes) == [
        "ChannelClosed",
        "ChannelClosed",
        "NoneType",
    ]
    assert [value(each) for each in receiving if error(each) is None] == [7]


@CAPACITY
def test_anybody_closes(senders: Any, receivers: Any, clock: VirtualClock, capacity: float) -> None:
    """The close itself comes from a thread or a loop in which others wait, too."""
    channel: Channel[int] = Channel(capacity)

    class ClosesWhenIterated:
        def __iter__(self) -> Any:
            channel.close()
            return iter(())

    receiving = [end.receive(channel) for end in (senders, receivers)]
    still_waits(clock, *receiving)
    value(senders.send_all(channel, ClosesWhenIterated()))
    assert [type(error(each)) for each in receiving] == [ChannelClosed] * 2


def test_a_finalizer_may_send_receive_and_close(receivers: Any, clock: VirtualClock) -> None:
    channel: Channel[str] = Channel(2)
    channel.send_nowait("first")
    log: list[str] = []

    class Owner:
        def __init__(self) -> None:
            self.myself = self

        def __del__(self) -> None:
            log.append(channel.receive_nowait())
            channel.send_nowait("last")
            channel.close()

    Owner()
    collect_garbage()
    assert log == ["first"]
    assert value(receivers.collect(channel)) == ["last"]


def test_a_channel_that_is_dropped_lets_go_of_its_items(clock: VirtualClock) -> None:
    class Item:
        pass

    channel: Channel[Item] = Channel(3)
    items = [Item(), Item()]
    watches = [weakref.ref(item) for item in items]
    for item in items:
        channel.send_nowait(item)
    watch = weakref.ref(items[0])
    del item, items
    assert watch() is not None
    del channel
    wait_until_collected(*watches)


class Late(dict[str, object]):
    """The items that came after the end; another sender of the same object comes during a look."""

    def copy(self) -> dict[str, object]:
        seen = super().copy()
        if "mine" in self:
            self["other"] = self.pop("mine")  # it adds its own, and takes the one there was
        return seen


def test_of_two_late_senders_of_the_same_object_each_is_refused() -> None:
    late = Late(mine=None)
    assert _take_out(late, None) is True
    assert late == {}
    assert _take_out(late, None) is False

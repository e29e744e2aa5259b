"""The end of a channel: what was accepted is still received, and nobody waits on."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import CLOSED, Channel, ChannelClosed
from tests.channels.ends import drained, error, still_waits, value

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

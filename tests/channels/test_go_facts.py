"""What Go's channels and those made after them are known to do, on threads and loops."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import CLOSED, Channel, ChannelClosed, WouldBlock
from tests.channels.ends import drained, ended, error, in_turn, still_waits, value, values

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock

OFTEN = 12


def nobody_waits_on(*channels: Channel[Any]) -> None:
    """Check that neither a receiver nor a sender is left on a rendezvous."""
    for channel in channels:
        with pytest.raises(WouldBlock):
            channel.send_nowait("left")
        with pytest.raises(WouldBlock):
            channel.receive_nowait()


# Channels


def test_a_talk_back_and_forth_ends_with_the_close(
    senders: Any, receivers: Any, clock: VirtualClock
) -> None:
    channel: Channel[int] = Channel()
    sending = senders.send(channel, 1)
    assert value(receivers.receive(channel)) == 1
    answering = receivers.send(channel, 2)
    assert value(senders.receive(channel)) == 2
    values([sending, answering])
    channel.close()
    for end in (senders, receivers):
        for _ in range(2):
            assert isinstance(error(end.receive(channel)), ChannelClosed)


def test_those_who_come_after_the_close_end_like_those_who_waited(
    senders: Any, receivers: Any, clock: VirtualClock
) -> None:
    channel: Channel[int] = Channel()
    waiting = [end.receive(channel) for end in (senders, receivers)]
    still_waits(clock, *waiting)
    channel.close()
    waiting.append(receivers.receive(channel))
    assert [type(error(each)) for each in waiting] == [ChannelClosed] * 3


def test_one_more_than_there_is_room_for_waits_and_all_are_received_in_order(
    senders: Any, receivers: Any, clock: VirtualClock
) -> None:
    channel: Channel[int] = Channel(3)
    for _ in range(2):
        value(senders.send_all(channel, range(3)))
        assert len(channel) == 3
        assert [value(receivers.receive(channel)) for _ in range(3)] == [0, 1, 2]
        assert len(channel) == 0
    sending = senders.send_all(channel, range(4))
    still_waits(clock, sending)
    assert value(receivers.receive(channel)) == 0
    value(sending)
    channel.close()
    assert value(receivers.collect(channel)) == [1, 2, 3]


def test_who_looks_in_while_another_waits_doubles_and_loses_nothing(
    senders: Any, receivers: Any, clock: VirtualClock
) -> None:
    channel: Channel[int] = Channel(1)
    for number in range(OFTEN):
        receiving = receivers.receive(channel)
        still_waits(clock, receiving)
        sending = senders.send(channel, number)
        taken = []
        try:
            taken.append(channel.receive_nowait())
        except WouldBlock:
            pass
        assert value(sending) is None
        taken += [value(each) for each in ended(clock, [receiving])]
        if not receiving.done():
            channel.send_nowait(-1)
            assert value(receiving) == -1
        taken += drained(channel)
        assert taken == [number]


def test_who_tries_to_send_while_another_waits_is_refused(
    senders: Any, receivers: Any, clock: VirtualClock
) -> None:
    channel: Channel[int] = Channel(1)
    sending = senders.send_all(channel, range(OFTEN + 2))
    for number in range(OFTEN):
        still_waits(clock, sending)
        assert len(channel) == 1
        assert channel.receive_nowait() == number
        with pytest.raises(WouldBlock):
            channel.send_nowait(-1)
    assert [value(receivers.receive(channel)) for _ in range(2)] == [OFTEN, OFTEN + 1]
    value(sending)


@pytest.mark.parametrize("how", ["receive", "select", "collect"])
def test_closing_wakes_everybody(
    senders: Any, receivers: Any, clock: VirtualClock, how: str
) -> None:
    channel: Channel[int] = Channel()
    waiting = [getattr(end, how)(channel) for end in (senders, receivers) for _ in range(5)]
    still_waits(clock, *waiting)
    channel.close()
    if how == "receive":
        assert [type(error(each)) for each in waiting] == [ChannelClosed] * 10
    else:
        assert values(waiting) == [(channel, CLOSED) if how == "select" else []] * 10


# Select


def test_trying_in_vain_again_and_again_leaves_nothing_behind(
    receivers: Any, clock: VirtualClock
) -> None:
    first, second = Channel[int](), Channel[int]()
    for _ in range(OFTEN):
        assert type(error(receivers.select(first, second, timeout=0))) is TimeoutError
    nobody_waits_on(first, second)
    assert clock.pending() == []


def test_trying_where_somebody_waits_succeeds_each_time(
    senders: Any, receivers: Any, clock: VirtualClock
) -> None:
    channel, other = Channel[int](), Channel[int]()
    collecting = receivers.collect(channel)
    for number in range(OFTEN):
        still_waits(clock, collecting)
        channel.send_nowait(number)
    still_waits(clock, collecting)
    channel.close()
    assert value(collecting) == list(range(OFTEN))
    sending = senders.send_all(other, range(OFTEN))
    for number in range(OFTEN):
        clock.settle()
        assert value(receivers.select(other, timeout=0)) == (other, number)
    value(sending)
    nobody_waits_on(other)


def test_a_source_on_which_nothing_ever_comes_is_no_hindrance(
    senders: Any, receivers: Any, clock: VirtualClock
) -> None:
    channel, silent = Channel[int](), Channel[int]()
    for number in range(OFTEN):
        selecting = receivers.select(silent, channel)
        still_waits(clock, selecting)
        sending = senders.send(channel, number)
        assert value(selecting) == (channel, number)
        assert value(sending) is None
    clock.settle()
    nobody_waits_on(channel, silent)


def test_items_of_one_come_in_order_through_one_place(
    senders: Any, receivers: Any, clock: VirtualClock
) -> None:
    channel: Channel[int] = Channel(1)
    for number in range(OFTEN):
        value(senders.send(channel, number, 0))
        assert type(error(senders.send(channel, -1, 0))) is TimeoutError
        assert value(receivers.select(channel, timeout=0)) == (channel, number)
        assert type(error(receivers.select(channel, timeout=0))) is TimeoutError


def test_two_select_from_the_same_two(senders: Any, receivers: Any, clock: VirtualClock) -> None:
    first, second = Channel[str](), Channel[str]()
    for _ in range(OFTEN):
        selecting = [end.select(first, second) for end in (senders, receivers)]
        still_waits(clock, *selecting)
        sending = [senders.send(first, "a"), receivers.send(second, "b")]
        assert sorted(item for _, item in values(selecting)) == ["a", "b"]
        assert values(sending) == [None, None]
        clock.settle()
        nobody_waits_on(first, second)


def test_senders_that_waited_before_the_select_are_met_by_it(
    senders: Any, receivers: Any, clock: VirtualClock
) -> None:
    first, second = Channel[str](), Channel[str]()
    sending = in_turn(clock, senders.send, first, "a", "b")
    sending += in_turn(clock, receivers.send, second, "c")
    taken = [value(receivers.select(first, second))[1] for _ in range(3)]
    assert sorted(taken) == ["a", "b", "c"]
    assert taken.index("a") < taken.index("b")
    assert values(sending) == [None] * 3


def test_what_was_selected_is_not_kept(receivers: Any, clock: VirtualClock) -> None:
    class Item:
        pass

    channel, other = Channel[Any](1), Channel[Any](1)
    item = Item()
    watch = weakref.ref(item)
    channel.send_nowait(item)
    assert type(error(receivers.select(other, "unknown", channel))) is TypeError
    assert value(receivers.select(channel, other))[1] is item
    with pytest.raises(WouldBlock):
        channel.receive_nowait()
    del item
    clock.settle()
    gc.collect()
    assert watch() is None

"""What a channel is: its capacity, what it takes and gives, who waits and how long, its end."""

from __future__ import annotations

import copy
import math
import pickle
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from backoff_ticker import (
    CLOSED,
    CancellationToken,
    Channel,
    ChannelClosed,
    SystemClock,
    Timer,
    WouldBlock,
)
from backoff_ticker.testing import VirtualClock
from tests.channels.ends import drained, ended, error, filled, still_waits, value, values

CAPACITY = pytest.mark.parametrize("capacity", [0, 1, 3, math.inf])
BOUNDED = pytest.mark.parametrize("capacity", [0, 1, 3])


@pytest.mark.parametrize("capacity", [0, 1, 10**30, math.inf])
def test_a_channel_is_open_empty_and_true(clock, capacity):
    channel: Channel[int] = Channel(capacity)
    assert channel.capacity == capacity
    assert channel.clock is clock
    assert (len(channel), channel.closed, bool(channel)) == (0, False, True)


def test_a_clock_can_be_given_by_name():
    given = SystemClock()
    assert Channel(clock=given).clock is given
    with pytest.raises(TypeError):
        Channel(1, given)
    with pytest.raises(TypeError, match="clock"):
        Channel(clock=object())


NO_COUNTS = [True, False, 0.0, math.nan, -math.inf, 1.5, "3", None, [], timedelta(1)]


@pytest.mark.parametrize("capacity", [*NO_COUNTS, -1, -(10**30)])
def test_a_bad_capacity_is_named(capacity):
    with pytest.raises(TypeError if capacity in NO_COUNTS else ValueError) as caught:
        Channel(capacity)
    assert "capacity" in str(caught.value)
    assert repr(capacity) in str(caught.value)


@pytest.mark.parametrize(
    ("made", "kind"),
    [(Channel(1), "a Channel"), (Timer(), "a timer"), (Timer(clock=VirtualClock()), "a timer")],
    ids=["channel", "timer", "virtual timer"],
)
def test_a_copy_is_the_thing_itself_and_none_is_pickled(made, kind):
    assert copy.copy(made) is made
    assert copy.deepcopy([made]) == [made]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match=f"{kind} .* cannot be pickled"):
            pickle.dumps(made, protocol)


@CAPACITY
def test_what_is_sent_is_received_in_order(senders, receivers, clock, capacity):
    channel: Channel[int] = Channel(capacity)
    sending = senders.send_all(channel, range(20))
    clock.settle()
    assert len(channel) == min(20, capacity)
    assert [value(receivers.receive(channel)) for _ in range(20)] == list(range(20))
    assert value(sending) is None
    assert len(channel) == 0
    assert clock.pending() == []


@pytest.mark.parametrize("capacity", [0, 1])
def test_any_object_can_be_sent(senders, receivers, capacity):
    channel: Channel[Any] = Channel(capacity)
    items = [None, False, 0, "", CLOSED, StopIteration(), ChannelClosed("sent"), channel, object()]
    for item in items:
        sending = senders.send(channel, item)
        assert value(receivers.receive(channel)) is item
        assert value(sending) is None


@CAPACITY
def test_iteration_gives_all_and_ends_when_closed_and_drained(senders, receivers, clock, capacity):
    channel: Channel[int] = Channel(capacity)
    collecting = receivers.receive_all(channel)
    value(senders.send_all(channel, range(10)))
    still_waits(clock, collecting)
    channel.close()
    assert value(collecting) == list(range(10))
    assert value(receivers.receive_all(channel)) == []


def test_a_channel_is_shown_whatever_its_capacity(clock):
    for capacity, shown in [(0, "0"), (math.inf, "inf"), (10**5000, "one of type int")]:
        channel: Channel[int] = Channel(capacity)
        assert repr(channel) == f"<Channel open, capacity={shown}, 0 items>"
        channel.close()
        assert repr(channel) == f"<Channel closed, capacity={shown}, 0 items>"


@BOUNDED
def test_blocked_senders_are_let_in_in_the_order_they_came(senders, clock, capacity):
    channel = filled(capacity)
    items = [*range(capacity), *"abcdef"]
    sending = []
    for item in "abcdef":
        sending.append(senders.send(channel, item))
        still_waits(clock, *sending)
    for number in range(6):
        assert channel.receive_nowait() == items.pop(0)
        assert ended(clock, sending) == sending[: number + 1]
        assert len(channel) == capacity
    assert drained(channel) == items


@CAPACITY
def test_each_of_those_who_wait_gets_one(receivers, clock, capacity):
    channel: Channel[int] = Channel(capacity)
    receiving = [receivers.receive(channel) for _ in range(5)]
    still_waits(clock, *receiving)
    for number in range(5):
        channel.send_nowait(number)
        done = ended(clock, receiving)
        assert sorted(values(done)) == list(range(number + 1))
    assert len(channel) == 0
    if capacity == 0:  # at a rendezvous as many are sent as receivers wait
        with pytest.raises(WouldBlock):
            channel.send_nowait(5)


@CAPACITY
@pytest.mark.parametrize("timeout", [None, 0, 5])
def test_a_closed_channel_takes_nothing_and_gives_what_it_holds(
    senders, receivers, clock, capacity, timeout
):
    channel = filled(capacity)
    items = list(range(len(channel)))
    channel.close()
    assert type(error(senders.send(channel, 9, timeout))) is ChannelClosed
    with pytest.raises(ChannelClosed):
        channel.send_nowait(9)
    assert [value(receivers.receive(channel, timeout)) for _ in items] == items
    for _ in range(2):
        assert type(error(receivers.receive(channel, timeout))) is ChannelClosed
        with pytest.raises(ChannelClosed):
            channel.receive_nowait()
    assert clock.pending() == []


@BOUNDED
@pytest.mark.parametrize("timeout", [None, 5])
def test_what_blocked_senders_hold_is_never_received(senders, clock, capacity, timeout):
    channel = filled(capacity)
    items = list(range(len(channel)))
    sending = [senders.send(channel, 90 + number, timeout) for number in range(4)]
    still_waits(clock, *sending)
    channel.close()
    assert [type(error(each)) for each in sending] == [ChannelClosed] * 4
    assert drained(channel) == items
    with pytest.raises(ChannelClosed):
        channel.receive_nowait()
    assert clock.pending() == []


def test_a_subclass_may_send_in_its_own_way():
    class Doubling(Channel[int]):
        def send(self, item, timeout=None):
            self.send_nowait(2 * item)

    for capacity in (1, math.inf):
        channel = Doubling(capacity)
        channel.send(3)
        assert channel.receive() == 6


# Time limits of channels and of ``select``: to the moment, and at a tie


SCHEDULED = pytest.mark.parametrize("scheduled", ["before", "after"])


@pytest.mark.parametrize("timeout", [0.25, 5, timedelta(minutes=90)])
@BOUNDED
def test_a_wait_ends_when_its_time_is_up_and_not_before(senders, clock, timeout, capacity):
    empty, full = Channel[Any](capacity), filled(capacity)
    waits = [
        senders.receive(empty, timeout),
        senders.send(full, "late", timeout),
        senders.select(Channel(), empty, CancellationToken(), timeout=timeout),
    ]
    clock.settle()
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    clock.advance(seconds - 0.125)
    assert not any(each.done() for each in waits)
    clock.advance(0.125)
    assert [type(error(each)) for each in waits] == [TimeoutError] * 3
    assert clock.pending() == []
    assert drained(full) == list(range(capacity))
    if capacity == 0:
        for nobody_waits in (lambda: empty.send_nowait("a"), full.receive_nowait):
            with pytest.raises(WouldBlock):
                nobody_waits()


@pytest.mark.parametrize(
    ("timeout", "expected"),
    [
        ("1", TypeError),
        (True, TypeError),
        (-0.001, ValueError),
        (math.nan, ValueError),
        (math.inf, ValueError),
        (timedelta(seconds=-1), ValueError),
    ],
)
def test_a_bad_timeout_is_named_and_nothing_is_moved(senders, clock, timeout, expected):
    empty, full = Channel[Any](1), filled(1)
    for channel in (empty, full):
        for failing in (
            senders.send(channel, 1, timeout),
            senders.receive(channel, timeout),
            senders.select(channel, timeout=timeout),
        ):
            assert type(error(failing)) is expected
            assert "timeout" in str(error(failing))
    assert (drained(empty), drained(full)) == ([], [0])
    for timer in (Timer(clock=clock), Timer(clock=SystemClock())):
        with pytest.raises(expected, match="delay"):
            timer.start(timeout)
        with pytest.raises(TypeError, match="delay"):
            timer.start(None)
        assert timer.stop() is False


def tied(clock, scheduled, act, wait):
    """Begin a wait of five seconds; ``act()``, which comes as they end, is scheduled so."""
    if scheduled == "before":
        clock.call_at(1005, act)
    waiting = wait()
    clock.settle()
    if scheduled == "after":
        clock.call_at(1005, act)
    clock.advance(5)
    return waiting


@BOUNDED
@SCHEDULED
def test_an_item_that_comes_as_the_time_is_up_is_received_or_left(
    receivers, clock, capacity, scheduled
):
    channel = Channel(capacity)
    accepted = []

    def send():
        with suppress(WouldBlock):
            channel.send_nowait("a")
            accepted.append("a")

    receiving = tied(clock, scheduled, send, lambda: receivers.receive(channel, 5))
    received = [] if error(receiving) else [value(receiving)]
    assert received + drained(channel) == accepted
    assert accepted or capacity == 0


@BOUNDED
@SCHEDULED
def test_room_that_comes_as_the_time_is_up_is_taken_or_left(senders, clock, capacity, scheduled):
    channel = filled(capacity)
    received = []

    def receive():
        with suppress(WouldBlock):
            received.append(channel.receive_nowait())

    sending = tied(clock, scheduled, receive, lambda: senders.send(channel, "late", 5))
    delivered = error(sending) is None
    assert received + drained(channel) == [*range(capacity), *["late"] * delivered]

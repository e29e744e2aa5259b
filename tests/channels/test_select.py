"""``select``: the first of several sources, in threads and loops."""

from __future__ import annotations

import math
import queue
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import CLOSED, CancellationToken, Channel, WouldBlock
from tests.channels.ends import drained, ended, error, still_waits, value, values
from tests.channels.test_channel_contract import BAD_TIMEOUTS

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock

CAPACITY = pytest.mark.parametrize("capacity", [0, 1, math.inf])


def of(*items: Any) -> Channel[Any]:
    """Return a channel without a bound that holds ``items``."""
    channel: Channel[Any] = Channel(math.inf)
    for item in items:
        channel.send_nowait(item)
    return channel


# The first of several


@CAPACITY
@pytest.mark.parametrize("first", [0, 1, 2])
def test_the_source_that_is_ready_is_taken(
    senders: Any, receivers: Any, clock: VirtualClock, capacity: float, first: int
) -> None:
    channels = [Channel[str](capacity) for _ in range(3)]
    sending = senders.send(channels[first], "a")
    clock.settle()
    source, item = value(receivers.select(*channels))
    assert source is channels[first]
    assert item == "a"
    assert value(sending) is None
    assert [len(channel) for channel in channels] == [0, 0, 0]


@CAPACITY
@pytest.mark.parametrize("first", [0, 1, 2])
def test_the_first_that_gets_ready_ends_the_wait(
    senders: Any, receivers: Any, clock: VirtualClock, capacity: float, first: int
) -> None:
    channels = [Channel[str](capacity) for _ in range(3)]
    selecting = receivers.select(*channels)
    still_waits(clock, selecting)
    assert value(senders.send(channels[first], "a")) is None
    assert value(selecting) == (channels[first], "a")
    assert clock.pending() == []


def test_what_is_not_chosen_keeps_its_items(receivers: Any, clock: VirtualClock) -> None:
    channels = {name: of(f"{name}1", f"{name}2") for name in "abc"}
    taken = [value(receivers.select(*channels.values())) for _ in range(3)]
    for name, channel in channels.items():
        mine = [item for source, item in taken if source is channel]
        assert mine + drained(channel) == [f"{name}1", f"{name}2"]


def test_any_item_is_a_value_and_none_is_an_end(receivers: Any, clock: VirtualClock) -> None:
    for item in (None, False, 0, ""):
        channel = of(item)
        source, got = value(receivers.select(channel))
        assert source is channel
        assert got is item


def test_many_sources_are_one_wait(senders: Any, receivers: Any, clock: VirtualClock) -> None:
    channels = [Channel[int]() for _ in range(100)]
    for number in (99, 0, 57):
        selecting = receivers.select(*channels)
        still_waits(clock, selecting)
        assert value(senders.send(channels[number], number)) is None
        assert value(selecting) == (channels[number], number)


@CAPACITY
def test_an_item_goes_to_one_of_those_who_select_and_receive(
    senders: Any, receivers: Any, clock: VirtualClock, capacity: float
) -> None:
    channel: Channel[str] = Channel(capacity)
    other: Channel[str] = Channel()
    selecting = [end.select(channel, other) for end in (senders, receivers, receivers)]
    receiving = [receivers.receive(channel)]
    still_waits(clock, *selecting, *receiving)
    for number in range(1, 5):
        value(senders.send(channel, "a"))
        assert len(ended(clock, [*selecting, *receiving])) == number
    assert values(selecting) == [(channel, "a")] * 3
    assert values(receiving) == ["a"]


# At a rendezvous


@pytest.mark.parametrize("first", [0, 1])
def test_who_selects_is_a_receiver_to_meet(receivers: Any, clock: VirtualClock, first: int) -> None:
    channels = [Channel[str](), Channel[str]()]
    selecting = receivers.select(*channels)
    still_waits(clock, selecting)
    channels[first].send_nowait("a")
    assert value(selecting) == (channels[first], "a")


def test_who_has_selected_waits_nowhere_any_more(receivers: Any, clock: VirtualClock) -> None:
    channels = [Channel[str]() for _ in range(3)]
    for number in range(3):
        selecting = receivers.select(*channels)
        still_waits(clock, selecting)
        channels[number].send_nowait("a")
        value(selecting)
        clock.settle()
        for channel in channels:
            with pytest.raises(WouldBlock):
                channel.send_nowait("b")


def test_items_accepted_on_two_at_once_are_both_received(
    receivers: Any, clock: VirtualClock
) -> None:
    """One is selected; the other, if it was accepted at all, stays readable."""
    channels = [Channel[str](), Channel[str]()]
    selecting = receivers.select(*channels)
    still_waits(clock, selecting)
    accepted = []
    for channel, item in zip(channels, "ab", strict=True):
        try:
            channel.send_nowait(item)
        except WouldBlock:
            continue
        accepted.append((channel, item))
    got = [value(selecting)]
    clock.settle()
    got += [(channel, item) for channel in channels for item in drained(channel)]
    assert sorted(got, key=str) == sorted(accepted, key=str)
    assert accepted


# Time limits


@pytest.mark.parametrize("timeout", [5, 0.25, timedelta(hours=2)])
def test_selecting_ends_when_its_time_is_up(
    receivers: Any, clock: VirtualClock, timeout: Any
) -> None:
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    channels = [Channel[str](), Channel[str](1)]
    selecting = receivers.select(*channels, CancellationToken(), timeout=timeout)
    clock.settle()
    clock.advance(seconds - 0.125)
    assert not selecting.done()
    clock.advance(0.125)
    assert type(error(selecting)) is TimeoutError
    assert clock.pending() == []
    with pytest.raises(WouldBlock):
        channels[0].send_nowait("a")


def test_what_is_ready_beats_the_time_limit(receivers: Any, clock: VirtualClock) -> None:
    channel = of("a")
    assert value(receivers.select(Channel(), channel, timeout=0)) == (channel, "a")
    assert type(error(receivers.select(Channel(), channel, timeout=0))) is TimeoutError
    assert clock.monotonic() == 1000


def test_what_comes_as_the_time_is_up_is_selected_or_left(
    receivers: Any, clock: VirtualClock
) -> None:
    for early in (True, False):
        channel = of()
        moment = clock.monotonic() + 5
        if early:
            clock.call_at(moment, lambda: channel.send_nowait("a"))
        selecting = receivers.select(Channel(), channel, timeout=5)
        clock.settle()
        if not early:
            clock.call_at(moment, lambda: channel.send_nowait("a"))
        clock.advance(5)
        got = [] if error(selecting) else [value(selecting)[1]]
        assert got + drained(channel) == ["a"]


@pytest.mark.parametrize(("timeout", "expected"), BAD_TIMEOUTS)
def test_a_bad_timeout_is_named_and_nothing_is_taken(
    receivers: Any, clock: VirtualClock, timeout: Any, expected: type[Exception]
) -> None:
    channel = of("a")
    failing = receivers.select(channel, timeout=timeout)
    assert type(error(failing)) is expected
    assert "timeout" in str(error(failing))
    assert drained(channel) == ["a"]


# What is no source


def test_without_sources_there_is_nothing_to_wait_for(receivers: Any) -> None:
    assert type(error(receivers.select())) is TypeError
    assert type(error(receivers.select(timeout=1))) is TypeError


@pytest.mark.parametrize(
    "unknown",
    [None, 1, "abc", [], (), object(), Channel, CancellationToken, CLOSED, queue.Queue()],
    ids=lambda unknown: type(unknown).__name__,
)
@pytest.mark.parametrize("last", [True, False])
def test_an_unknown_source_is_refused_before_anything_is_taken(
    receivers: Any, clock: VirtualClock, unknown: Any, last: bool
) -> None:
    channel = of("a")
    token = CancellationToken()
    sources = (channel, token, unknown) if last else (unknown, token, channel)
    for timeout in (None, 0):
        failing = receivers.select(*sources, timeout=timeout)
        assert type(error(failing)) is TypeError
    assert type(error(receivers.merge(*sources))) is TypeError
    assert drained(channel) == ["a"]


def test_channels_in_a_list_are_no_source(receivers: Any, clock: VirtualClock) -> None:
    channel = of("a")
    assert type(error(receivers.select([channel]))) is TypeError
    assert drained(channel) == ["a"]

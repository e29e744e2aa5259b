"""``select``: the first of several sources, in threads and loops, with equal chances."""

from __future__ import annotations

import math
import queue
import weakref
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    CLOSED,
    AsyncTicker,
    CancellationToken,
    Channel,
    ConstantBackOff,
    SystemClock,
    Ticker,
    Timer,
    WouldBlock,
    ZeroBackOff,
    merge,
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
from tests.helpers import wait_until_collected

if TYPE_CHECKING:
    from collections.abc import Sequence

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


@pytest.mark.parametrize("capacity", [0, 1, math.inf])
def test_a_source_given_twice_gives_one_item_at_a_time(
    senders: Any, receivers: Any, clock: VirtualClock, capacity: float
) -> None:
    channel: Channel[int] = Channel(capacity)
    for number in range(3):
        selecting = receivers.select(channel, channel)
        still_waits(clock, selecting)
        value(senders.send(channel, number))
        assert value(selecting) == (channel, number)
        assert len(channel) == 0
    assert clock.pending() == []


@pytest.mark.parametrize("kind", [Ticker, AsyncTicker])
def test_a_ticker_given_twice_gives_one_tick_at_a_time(
    receivers: Any, clock: VirtualClock, kind: Any
) -> None:
    ticker = kind(ConstantBackOff(10))
    numbers = []
    for _ in range(3):
        selecting = receivers.select(ticker, ticker)
        clock.settle()
        while not selecting.done():
            clock.advance_next()
        numbers.append((value(selecting)[1].number, clock.monotonic()))
    assert numbers == [(1, 1000), (2, 1010), (3, 1020)]


def test_the_end_of_a_source_given_twice_is_told_once(receivers: Any, clock: VirtualClock) -> None:
    channel: Channel[int] = Channel(1)
    channel.send_nowait(1)
    channel.close()
    token = CancellationToken()
    token.cancel("why")
    pairs = value(receivers.merge(channel, token, channel, token))
    assert [got for source, got in pairs if source is channel] == [1, CLOSED]
    assert [got for source, got in pairs if source is token] == ["why"]


EITHER_ORDER = pytest.mark.parametrize("order", [1, -1])


TIMED = {
    "timer": lambda clock: Timer(clock=clock),
    "its channel": lambda clock: Timer(clock=clock).c,
    "ticker": lambda clock: Ticker(ConstantBackOff(1), clock=clock),
    "deadline": lambda clock: CancellationToken(clock=clock).child(timeout=60),
}


def elsewhere() -> Channel[Any]:
    """Return a channel on which nothing comes, on the clock of the system."""
    return Channel(clock=SystemClock())


@EITHER_ORDER
def test_a_timer_fires_beside_a_channel_of_another_clock(
    receivers: Any, clock: VirtualClock, order: int
) -> None:
    timer = Timer(clock=clock)
    timer.start(3600)
    selecting = receivers.select(*[elsewhere(), timer][::order])
    still_waits(clock, selecting)
    clock.advance(3600)
    assert value(selecting) == (timer, clock.time())


@EITHER_ORDER
@pytest.mark.parametrize("kind", ["timer", "its channel"])
def test_a_time_limit_is_measured_by_the_clock_of_a_timer(
    receivers: Any, clock: VirtualClock, order: int, kind: str
) -> None:
    selecting = receivers.select(*[elsewhere(), TIMED[kind](clock)][::order], timeout=1800)
    still_waits(clock, selecting)
    clock.advance(1799)
    assert not selecting.done()
    clock.advance(1)
    assert type(error(selecting)) is TimeoutError


@EITHER_ORDER
@pytest.mark.parametrize("other", list(TIMED))
def test_a_timer_is_not_mixed_with_times_of_another_clock(
    receivers: Any, clock: VirtualClock, order: int, other: str
) -> None:
    ready: Channel[int] = Channel(1)
    ready.send_nowait(1)
    sources = [ready, *[Timer(clock=clock), TIMED[other](SystemClock())][::order]]
    assert "needs sources on one clock" in str(error(receivers.select(*sources)))
    assert type(error(receivers.select(*sources))) is ValueError
    with pytest.raises(ValueError, match="needs sources on one clock"):
        merge(*sources)
    assert len(ready) == 1


OFTEN = 12


def nobody_waits_on(*channels: Channel[Any]) -> None:
    """Check that neither a receiver nor a sender is left on a rendezvous."""
    for channel in channels:
        with pytest.raises(WouldBlock):
            channel.send_nowait("left")
        with pytest.raises(WouldBlock):
            channel.receive_nowait()


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
    wait_until_collected(watch)


EACH = 100


def endless(items: int) -> Channel[int]:
    channel: Channel[int] = Channel(math.inf)
    for number in range(items):
        channel.send_nowait(number)
    return channel


def even(counts: Sequence[int]) -> bool:
    """Whether counts are as even as chance would have them; a fair choice fails once in 10**11."""
    expected = sum(counts) / len(counts)
    return sum((count - expected) ** 2 for count in counts) / expected < 60


def test_the_measure_tells_chance_from_favour() -> None:
    assert even([EACH + 15, EACH - 15])
    assert not even([2 * EACH, 0])
    assert not even([3 * EACH // 2, 3 * EACH // 2, 0])
    assert not even([400, 25, 25, 25, 25])


@pytest.mark.parametrize("ready", [2, 3, 5])
def test_channels_that_are_ready_are_chosen_equally_often(
    receivers: Any, clock: VirtualClock, ready: int
) -> None:
    channels = [endless(EACH * ready) for _ in range(ready)]
    chosen = Counter(source for source, _ in receivers.select_times(EACH * ready, *channels))
    assert even([chosen[channel] for channel in channels])


def test_each_kind_of_source_has_the_same_chance(receivers: Any, clock: VirtualClock) -> None:
    token = CancellationToken()
    token.cancel("over")
    ended: Channel[int] = Channel()
    ended.close()
    stopped = Ticker(ZeroBackOff())
    stopped.stop()
    sources = [endless(600), Ticker(ZeroBackOff()), AsyncTicker(ZeroBackOff())]
    sources += [token, ended, stopped]
    pairs = receivers.select_times(EACH * len(sources), *sources)
    chosen = Counter(source for source, _ in pairs)
    assert even([chosen[source] for source in sources])
    for source, got in pairs:
        if source is token:
            assert got == "over"
        elif source is ended or source is stopped:
            assert got is CLOSED


def test_chance_has_no_pattern(receivers: Any, clock: VirtualClock) -> None:
    """Taking turns would be even, too, and starve a source that is ready at each second turn."""
    channels = [endless(EACH * 4) for _ in range(2)]
    chosen = [source for source, _ in receivers.select_times(EACH * 4, *channels)]
    pairs = Counter(zip(chosen[::2], chosen[1::2], strict=True))
    assert even([pairs[one, other] for one in channels for other in channels])

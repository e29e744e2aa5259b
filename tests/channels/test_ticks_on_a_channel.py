"""``ticker.send_to(channel)``: ticks for whoever receives, in threads and loops."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    CLOSED,
    AsyncTicker,
    CancellationToken,
    Channel,
    ChannelClosed,
    ConstantBackOff,
    Ticker,
    with_max_retries,
)
from tests.channels.ends import drained, error, still_waits, value
from tests.tickers.made_policies import Counting

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock

EITHER = pytest.mark.parametrize("kind", [Ticker, AsyncTicker])


@EITHER
@pytest.mark.parametrize("capacity", [1, 3, math.inf])
def test_ticks_are_received_as_they_fall_due(
    receivers: Any, clock: VirtualClock, kind: Any, capacity: float
) -> None:
    channel: Channel[Any] = Channel(capacity)
    ticker = kind(Counting())
    handle = ticker.send_to(channel)
    received = []
    for due in (1000, 1001, 1003, 1006):
        receiving = receivers.receive(channel)
        clock.settle()
        clock.advance_to(due)
        received.append(value(receiving))
    assert [(tick.number, tick.due) for tick in received] == [
        (1, 1000),
        (2, 1001),
        (3, 1003),
        (4, 1006),
    ]
    assert handle.dropped == 0
    ticker.stop()
    clock.settle()
    assert type(error(receivers.receive(channel))) is ChannelClosed
    assert clock.pending() == []


def test_a_full_channel_drops_ticks_and_they_are_counted(clock: VirtualClock) -> None:
    channel: Channel[Any] = Channel(1)
    ticker = Ticker(ConstantBackOff(10))
    handle = ticker.send_to(channel)
    clock.advance(20)
    assert handle.dropped == 2
    assert [tick.number for tick in drained(channel)] == [1]
    clock.advance(10)
    [tick] = drained(channel)
    assert tick.missed == 2
    ticker.stop()
    clock.settle()


def test_at_a_rendezvous_a_tick_needs_somebody_who_waits(
    receivers: Any, clock: VirtualClock
) -> None:
    channel: Channel[Any] = Channel()
    ticker = Ticker(ConstantBackOff(10))
    handle = ticker.send_to(channel)
    clock.settle()
    assert handle.dropped == 1
    for wait in (receivers.receive, receivers.select):
        waiting = wait(channel)
        still_waits(clock, waiting)
        clock.advance(10.001)
        got = value(waiting)
        tick = got[1] if wait == receivers.select else got
        assert tick.due > 1000
    assert handle.dropped == 1
    ticker.stop()
    clock.settle()


@EITHER
@pytest.mark.parametrize("ending", ["stop", "cancel", "exhaust"])
def test_the_channel_is_closed_when_the_ticker_ends(
    receivers: Any, clock: VirtualClock, kind: Any, ending: str
) -> None:
    channel: Channel[Any] = Channel(math.inf)
    token = CancellationToken()
    retries = 1 if ending == "exhaust" else 100
    ticker = kind(with_max_retries(ConstantBackOff(10), retries), token=token)
    ticker.send_to(channel)
    collecting = receivers.collect(channel)
    merging = receivers.merge(channel)
    clock.advance(10)
    if ending != "exhaust":
        ticker.stop() if ending == "stop" else token.cancel()
        clock.settle()
    numbers = [tick.number for tick in value(collecting)]
    numbers += [tick.number for _, tick in value(merging) if tick is not CLOSED]
    assert sorted(numbers) == [1, 2]
    assert channel.closed
    assert clock.pending() == []


@EITHER
def test_a_channel_of_several_tickers_outlives_the_first_that_ends(
    clock: VirtualClock, kind: Any
) -> None:
    channel: Channel[Any] = Channel(10)
    short = kind(with_max_retries(ConstantBackOff(10), 1))
    long = kind(ConstantBackOff(10))
    for ticker in (short, long):
        ticker.send_to(channel, close=False)
    clock.advance(10)
    assert short.closed
    assert not channel.closed
    assert sorted(tick.number for tick in drained(channel)) == [1, 1, 2, 2]
    clock.advance(10)
    assert [tick.number for tick in drained(channel)] == [3]
    long.stop()
    clock.settle()
    assert not channel.closed


@EITHER
@pytest.mark.parametrize("close", [None, 0, 1, "no"])
def test_whether_to_close_is_a_bool(clock: VirtualClock, kind: Any, close: Any) -> None:
    channel: Channel[Any] = Channel(10)
    ticker = kind(ConstantBackOff(10))
    with pytest.raises(TypeError, match=f"close must be a bool, not {close!r}"):
        ticker.send_to(channel, close=close)
    clock.settle()
    assert len(channel) == 0
    assert ticker.receive_nowait().number == 1


def test_a_channel_that_is_closed_first_takes_no_ticks(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What becomes of the sending is the ticker's affair; the channel keeps what it had."""
    monkeypatch.setattr("sys.unraisablehook", lambda _: None)
    channel: Channel[Any] = Channel(5)
    ticker = Ticker(ConstantBackOff(10))
    ticker.send_to(channel)
    clock.advance(10)
    channel.close()
    clock.advance(30)
    assert [tick.number for tick in drained(channel)] == [1, 2]
    ticker.stop()
    clock.settle()

"""``ticker.send_to(channel)``: at a rendezvous, and with several tickers."""

from __future__ import annotations

from typing import Any

import pytest

from backoff_ticker import (
    AsyncTicker,
    Channel,
    ConstantBackOff,
    Ticker,
    with_max_retries,
)
from tests.channels.ends import drained, still_waits, value

EITHER = pytest.mark.parametrize("kind", [Ticker, AsyncTicker])


def test_at_a_rendezvous_a_tick_needs_somebody_who_waits(receivers, clock):
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
def test_a_channel_of_several_tickers_outlives_the_first_that_ends(clock, kind):
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
def test_whether_to_close_is_a_bool(clock, kind, close):
    channel: Channel[Any] = Channel(10)
    ticker = kind(ConstantBackOff(10))
    with pytest.raises(TypeError, match=f"close must be a bool, not {close!r}"):
        ticker.send_to(channel, close=close)
    clock.settle()
    assert len(channel) == 0
    assert ticker.receive_nowait().number == 1

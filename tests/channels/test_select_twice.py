"""A source that is named twice in a ``select`` or ``merge`` counts once."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    CLOSED,
    AsyncTicker,
    CancellationToken,
    Channel,
    ConstantBackOff,
    Ticker,
)
from tests.channels.ends import still_waits, value
from tests.channels.test_select_fairness import EACH, endless, even

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock


def test_it_has_the_same_chance_as_the_others(receivers: Any, clock: VirtualClock) -> None:
    once, twice = endless(EACH * 2), endless(EACH * 2)
    pairs = receivers.select_times(EACH * 2, twice, once, twice, twice)
    chosen = Counter(source for source, _ in pairs)
    assert even([chosen[once], chosen[twice]])


@pytest.mark.parametrize("capacity", [0, 1, math.inf])
def test_it_gives_one_item_at_a_time(
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
def test_it_gives_one_tick_at_a_time(receivers: Any, clock: VirtualClock, kind: Any) -> None:
    ticker = kind(ConstantBackOff(10))
    numbers = []
    for _ in range(3):
        selecting = receivers.select(ticker, ticker)
        clock.settle()
        while not selecting.done():
            clock.advance_next()
        numbers.append((value(selecting)[1].number, clock.monotonic()))
    assert numbers == [(1, 1000), (2, 1010), (3, 1020)]


def test_its_end_is_told_once(receivers: Any, clock: VirtualClock) -> None:
    channel: Channel[int] = Channel(1)
    channel.send_nowait(1)
    channel.close()
    token = CancellationToken()
    token.cancel("why")
    pairs = value(receivers.merge(channel, token, channel, token))
    assert [got for source, got in pairs if source is channel] == [1, CLOSED]
    assert [got for source, got in pairs if source is token] == ["why"]

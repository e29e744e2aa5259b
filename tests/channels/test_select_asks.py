"""``select`` asks all its tickers for a tick, whichever of its sources it looks at first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    AsyncTicker,
    Channel,
    ConstantBackOff,
    ExponentialFeedbackBackOff,
    Pace,
    Ticker,
    WouldBlock,
)
from tests.channels.ends import value

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock

EITHER = pytest.mark.parametrize("kind", [Ticker, AsyncTicker])


@pytest.fixture(params=[0.0, 0.99])
def looks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have ``select`` look at the first of its sources first, or at the last."""
    monkeypatch.setattr("backoff_ticker.channels._select.shared_random", lambda: request.param)


def ready() -> Channel[str]:
    channel: Channel[str] = Channel(1)
    channel.send_nowait("a")
    return channel


@EITHER
def test_the_delay_of_return_runs_from_the_select(
    receivers: Any, clock: VirtualClock, looks: None, kind: Any
) -> None:
    tickers = [kind(ConstantBackOff(10), pace=Pace.RETURN) for _ in range(2)]
    channel = ready()
    for ticker in tickers:
        ticker.receive_nowait()
    clock.advance(25)
    assert value(receivers.select(tickers[0], channel, tickers[1])) == (channel, "a")
    clock.advance(9)
    for ticker in tickers:
        with pytest.raises(WouldBlock):
            ticker.receive_nowait()
    clock.advance(1)
    assert [ticker.receive_nowait().due for ticker in tickers] == [1035, 1035]


@EITHER
def test_a_select_without_a_word_before_it_is_a_failure(
    receivers: Any, clock: VirtualClock, looks: None, kind: Any
) -> None:
    tickers = [kind(ExponentialFeedbackBackOff(initial_delay=5)) for _ in range(2)]
    channel = ready()
    for ticker in tickers:
        ticker.receive_nowait()
        assert ticker.next_delay is None
    assert value(receivers.select(tickers[0], channel, tickers[1])) == (channel, "a")
    assert [ticker.next_delay for ticker in tickers] == [5, 5]


@EITHER
def test_ticks_are_skipped_when_they_are_taken(
    receivers: Any, clock: VirtualClock, looks: None, kind: Any
) -> None:
    """A ``select`` that takes something else neither drops ticks of a schedule nor moves it."""
    ticker = kind(ConstantBackOff(10), pace=Pace.SKIP)
    channel = ready()
    ticker.receive_nowait()
    clock.advance(5)
    assert value(receivers.select(ticker, channel)) == (channel, "a")
    clock.advance(20)
    with pytest.raises(WouldBlock):
        ticker.receive_nowait()
    clock.advance(5)
    tick = ticker.receive_nowait()
    assert (tick.due, tick.missed) == (1030, 2)

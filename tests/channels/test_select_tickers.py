"""``select`` over tickers of either kind: ticks to the moment, ends, the errors of policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    CLOSED,
    AsyncTicker,
    CancellationToken,
    Channel,
    ConstantBackOff,
    Ticker,
    TickerClosed,
    ZeroBackOff,
    with_max_retries,
)
from tests.channels.ends import error, still_waits, value, values
from tests.tickers.made_policies import Counting, Scripted

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock

EITHER = pytest.mark.parametrize("kind", [Ticker, AsyncTicker])


def silent() -> Channel[Any]:
    """Return a channel on which nothing comes."""
    return Channel()


@EITHER
def test_ticks_are_selected_as_they_fall_due(
    receivers: Any, clock: VirtualClock, kind: Any
) -> None:
    ticker = kind(Counting())
    for number, due in enumerate([1000, 1001, 1003, 1006], start=1):
        selecting = receivers.select(silent(), ticker)
        clock.settle()
        if due > clock.monotonic():
            clock.advance_to(due - 0.25)
            assert not selecting.done()
            clock.advance_to(due)
        source, tick = value(selecting)
        assert source is ticker
        assert (tick.number, tick.due, tick.lateness) == (number, due, 0)
    assert clock.pending() == []


@EITHER
def test_a_ticker_that_is_not_chosen_keeps_its_tick(
    receivers: Any, clock: VirtualClock, kind: Any
) -> None:
    ticker = kind(with_max_retries(ZeroBackOff(), 20))
    channel: Channel[int] = Channel(20)
    for number in range(20):
        channel.send_nowait(number)
    channel.close()
    taken = []
    while not taken or taken[-2:] != [(channel, CLOSED), (ticker, CLOSED)]:
        sources = [source for source in (channel, ticker) if (source, CLOSED) not in taken]
        if not sources:
            break
        taken.append(value(receivers.select(*sources)))
    ticks = [got.number for source, got in taken if source is ticker and got is not CLOSED]
    items = [got for source, got in taken if source is channel and got is not CLOSED]
    assert ticks == list(range(1, 22))
    assert items == list(range(20))


@EITHER
def test_a_tick_and_an_item_come_in_the_order_of_their_times(
    senders: Any, receivers: Any, clock: VirtualClock, kind: Any
) -> None:
    channel: Channel[str] = Channel()
    ticker = kind(ConstantBackOff(10))
    assert value(receivers.select(ticker, channel))[0] is ticker
    selecting = receivers.select(ticker, channel)
    clock.settle()
    clock.advance(4)
    value(senders.send(channel, "a"))
    assert value(selecting) == (channel, "a")
    selecting = receivers.select(ticker, channel)
    clock.settle()
    clock.advance(6)
    assert value(selecting)[1].due == 1010


@EITHER
@pytest.mark.parametrize("ending", ["stop", "cancel", "exhaust"])
def test_a_ticker_that_has_ended_says_so_each_time(
    receivers: Any, clock: VirtualClock, kind: Any, ending: str
) -> None:
    token = CancellationToken()
    ticker = kind(Scripted(10.0) if ending == "exhaust" else ConstantBackOff(10), token=token)
    ticker.receive_nowait()
    selecting = receivers.select(ticker, silent())
    still_waits(clock, selecting)
    if ending == "exhaust":
        clock.advance(10)
        assert value(selecting)[1].number == 2
        selecting = receivers.select(ticker, silent())
    else:
        ticker.stop() if ending == "stop" else token.cancel()
    assert value(selecting) == (ticker, CLOSED)
    assert value(receivers.select(silent(), ticker, timeout=0)) == (ticker, CLOSED)


@EITHER
def test_the_error_of_a_policy_is_raised_once(
    receivers: Any, clock: VirtualClock, kind: Any
) -> None:
    failure = LookupError("the policy failed")
    ticker = kind(Scripted(failure))
    assert value(receivers.select(silent(), ticker))[1].number == 1
    assert error(receivers.select(silent(), ticker)) is failure
    assert value(receivers.select(silent(), ticker)) == (ticker, CLOSED)
    with pytest.raises(TickerClosed):
        ticker.receive_nowait()


@EITHER
def test_those_who_select_and_receive_share_the_ticks(
    senders: Any, receivers: Any, clock: VirtualClock, kind: Any
) -> None:
    ticker = kind(ConstantBackOff(10))
    ticker.receive_nowait()
    waiting = [end.select(ticker, silent()) for end in (senders, receivers, receivers)]
    still_waits(clock, *waiting)
    for number in range(1, 4):
        clock.advance(10)
        assert sum(each.done() for each in waiting) == number
    assert sorted(tick.number for _, tick in values(waiting)) == [2, 3, 4]
    assert clock.pending() == []

"""``select`` over tickers, tokens and timers, to the moment; channels that get ticks."""

import pytest

from backoff_ticker import (
    CLOSED,
    AsyncTicker,
    CancellationToken,
    Channel,
    ConstantBackOff,
    ExponentialFeedbackBackOff,
    Pace,
    Ticker,
    TickerClosed,
    Timer,
    WouldBlock,
    with_max_retries,
)
from tests.channels.ends import drained, error, still_waits, value
from tests.tickers.made_policies import Scripted, nothing_is_due
from tests.tickers.made_timers import Fake

EITHER = pytest.mark.parametrize("kind", [Ticker, AsyncTicker])


@pytest.mark.parametrize("cause", [None, "a text", "", ValueError("an error")])
@pytest.mark.parametrize("before", [True, False])
def test_a_cancelled_token_gives_its_cause(receivers, clock, cause, before):
    token = CancellationToken()
    if before:
        token.cancel(cause)
    selecting = receivers.select(Channel(), token)
    if not before:
        still_waits(clock, selecting)
        token.cancel(cause)
    source, got = value(selecting)
    assert source is token
    assert got is cause
    assert value(receivers.select(token, timeout=0)) == (token, cause)


def test_a_timer_of_the_users_own_is_a_source(receivers, clock):
    fake = Fake()
    selecting = receivers.select(fake, Channel())
    still_waits(clock, selecting)
    fake.fire(7)
    assert value(selecting) == (fake, 7)


def test_each_kind_of_source_ends_the_wait_for_all(senders, receivers, clock):
    channel = Channel()
    ticker = Ticker(ConstantBackOff(10))
    other = AsyncTicker(ConstantBackOff(25))
    ticker.receive_nowait()
    other.receive_nowait()
    token = CancellationToken().child(timeout=27)
    timer = Timer(clock=clock)
    timer.start(3)
    happened = []
    clock.call_at(1007, lambda: senders.send(channel, "a"))
    while not happened or happened[-1][1] is not token:
        selecting = receivers.select(channel, ticker, other, token, timer)
        clock.settle()
        while not selecting.done():
            clock.advance_next()
        happened.append((clock.monotonic() - 1000, value(selecting)[0]))
    assert happened == [
        (3, timer),
        (7, channel),
        (10, ticker),
        (20, ticker),
        (25, other),
        (27, token),
    ]
    assert drained(channel) == []
    for refused in (channel.receive_nowait, ticker.receive_nowait, other.receive_nowait):
        with pytest.raises(WouldBlock):
            refused()


@EITHER
@pytest.mark.parametrize("ending", ["stop", "cancel", "exhaust"])
def test_a_ticker_that_has_ended_says_so_each_time(receivers, clock, kind, ending):
    token = CancellationToken()
    ticker = kind(Scripted(10.0) if ending == "exhaust" else ConstantBackOff(10), token=token)
    ticker.receive_nowait()
    selecting = receivers.select(ticker, Channel())
    still_waits(clock, selecting)
    if ending == "exhaust":
        clock.advance(10)
        assert value(selecting)[1].number == 2
        selecting = receivers.select(ticker, Channel())
    else:
        ticker.stop() if ending == "stop" else token.cancel()
    assert value(selecting) == (ticker, CLOSED)
    assert value(receivers.select(Channel(), ticker, timeout=0)) == (ticker, CLOSED)


@EITHER
def test_the_error_of_a_policy_is_raised_once(receivers, clock, kind):
    failure = LookupError("the policy failed")
    ticker = kind(Scripted(failure))
    assert value(receivers.select(Channel(), ticker))[1].number == 1
    assert error(receivers.select(Channel(), ticker)) is failure
    assert value(receivers.select(Channel(), ticker)) == (ticker, CLOSED)
    with pytest.raises(TickerClosed):
        ticker.receive_nowait()


@pytest.fixture(params=[0.0, 0.99])
def looks(request, monkeypatch):
    """Have it look at the first of its sources first, or at the last."""
    for module in ("_select", "_merge"):
        path = f"backoff_ticker.channels.{module}.shared_random"
        monkeypatch.setattr(path, lambda: request.param)


HOW = pytest.mark.parametrize("how", ["select", "merge"])


def take_another(receivers, how, tickers):
    """Take an item, which is there, while tickers whose first tick was taken are sources, too."""
    channel = Channel(1)
    channel.send_nowait("a")
    choose = receivers.chooser(how, tickers[0], channel, *tickers[1:])
    assert value(choose()) == (channel, "a")


@HOW
@EITHER
def test_the_delay_of_return_runs_from_the_choice(receivers, clock, looks, kind, how):
    tickers = [kind(ConstantBackOff(10), pace=Pace.RETURN) for _ in range(2)]
    for ticker in tickers:
        ticker.receive_nowait()
    clock.advance(25)
    take_another(receivers, how, tickers)
    clock.advance(9)
    for ticker in tickers:
        nothing_is_due(ticker)
    clock.advance(1)
    assert [ticker.receive_nowait().due for ticker in tickers] == [1035, 1035]


@HOW
@EITHER
def test_a_choice_without_a_word_before_it_is_a_failure(receivers, clock, looks, kind, how):
    tickers = [kind(ExponentialFeedbackBackOff(initial_delay=5)) for _ in range(2)]
    for ticker in tickers:
        ticker.receive_nowait()
        assert ticker.next_delay is None
    take_another(receivers, how, tickers)
    assert [ticker.next_delay for ticker in tickers] == [5, 5]


@HOW
@EITHER
def test_ticks_are_skipped_when_they_are_taken(receivers, clock, looks, kind, how):
    """Who takes something else neither drops ticks of a schedule nor moves it."""
    ticker = kind(ConstantBackOff(10), pace=Pace.SKIP)
    ticker.receive_nowait()
    clock.advance(5)
    take_another(receivers, how, [ticker])
    clock.advance(20)
    nothing_is_due(ticker)
    clock.advance(5)
    tick = ticker.receive_nowait()
    assert (tick.due, tick.missed) == (1030, 2)


def test_at_a_rendezvous_a_tick_needs_somebody_who_waits(receivers, clock):
    channel = Channel()
    ticker = Ticker(ConstantBackOff(10))
    handle = ticker.send_to(channel)
    clock.settle()
    assert handle.dropped == 1
    waiting = receivers.receive(channel)
    still_waits(clock, waiting)
    clock.advance(10.001)
    assert value(waiting).due > 1000
    assert handle.dropped == 1
    ticker.stop()
    clock.settle()


@EITHER
def test_a_channel_of_several_tickers_outlives_the_first_that_ends(clock, kind):
    channel = Channel(10)
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
    channel = Channel(10)
    ticker = kind(ConstantBackOff(10))
    with pytest.raises(TypeError, match=f"close must be a bool, not {close!r}"):
        ticker.send_to(channel, close=close)
    clock.settle()
    assert len(channel) == 0
    assert ticker.receive_nowait().number == 1

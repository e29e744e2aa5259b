"""``reset()`` of a ticker: what becomes of the pending tick, of readers and policies."""

import pytest

from backoff_ticker import (
    CancellationToken,
    CloseReason,
    ConstantBackOff,
    StopBackOff,
    TickerClosed,
    ZeroBackOff,
    with_token,
)
from tests.channels.ends import value_after
from tests.helpers import PATIENCE, waiters_of
from tests.tickers.made_policies import (
    EVERY_PACE,
    Counting,
    Scripted,
    nothing_is_due,
    reader_that_waits,
    reason_of,
    ticked,
)


@EVERY_PACE
def test_the_next_tick_comes_after_a_full_first_delay(face, clock, pace):
    ticker = face.ticker(Counting(), clock=clock, pace=pace)
    for delay in (0, 1, 2):
        clock.advance(delay)
        face.receive(ticker)
        nothing_is_due(ticker)
    clock.advance(0.5)
    ticker.reset()
    clock.advance(0.75)
    nothing_is_due(ticker)
    clock.advance(0.25)
    tick = ticker.receive_nowait()
    assert (tick.number, tick.due, tick.delay, tick.missed) == (4, 1004.5, 1, 0)


@EVERY_PACE
@pytest.mark.parametrize("taken", [0, 1])
def test_a_tick_that_was_due_is_dropped(face, clock, pace, taken):
    """Also the first one, if nobody took it."""
    ticker = face.ticker(ConstantBackOff(10), clock=clock, pace=pace)
    if taken:
        face.receive(ticker)
        nothing_is_due(ticker)
        clock.advance(35)
    began = clock.monotonic()
    ticker.reset()
    nothing_is_due(ticker)
    clock.advance(10)
    tick = ticker.receive_nowait()
    assert (tick.number, tick.due, tick.delay, tick.missed) == (1 + taken, began + 10, 10, 0)


@EVERY_PACE
def test_immediately_lets_the_next_tick_come_at_once(face, clock, pace):
    ticker = ticked(face, Counting(), clock=clock, pace=pace)
    clock.advance(0.5)
    ticker.reset(immediately=True)
    tick = ticker.receive_nowait()
    assert (tick.number, tick.due, tick.delay) == (2, 1000.5, 0)
    nothing_is_due(ticker)
    clock.advance(1)
    assert ticker.receive_nowait().delay == 1


def test_a_reader_that_waits_goes_on_waiting_for_the_new_time(face, clock):
    ticker = ticked(face, ConstantBackOff(10), clock=clock)
    waiting = reader_that_waits(face, clock, ticker)
    clock.advance(9)
    ticker.reset()
    tick = value_after(clock, 10, waiting)
    assert (tick.number, tick.due) == (2, 1019)


@pytest.mark.parametrize("ending", ["stop", "cancel", "exhaust", "fail"])
def test_a_closed_ticker_refuses(face, ending):
    token = CancellationToken()
    policy = {"exhaust": StopBackOff(), "fail": Scripted(ValueError())}.get(ending, ZeroBackOff())
    ticker = ticked(face, policy, token=token)
    if ending == "stop":
        ticker.stop()
    if ending == "cancel":
        token.cancel()
    reason = ticker.close_reason
    for arguments in ({}, {"immediately": True}, {"backoff": ZeroBackOff()}):
        with pytest.raises(TickerClosed) as caught:
            ticker.reset(**arguments)
        assert caught.value.reason is reason is ticker.close_reason


@pytest.mark.parametrize("arguments", [{"backoff": 1}, {"immediately": 1}])
def test_a_wrong_parameter_is_refused_and_changes_nothing(face, clock, arguments):
    ticker = ticked(face, ConstantBackOff(10), clock=clock)
    with pytest.raises(TypeError, match=next(iter(arguments))):
        ticker.reset(**arguments)
    clock.advance(10)
    assert ticker.receive_nowait().due == 1010


def test_the_token_of_the_old_policy_counts_no_more(face, clock):
    """Also for the reader of a loop, which stays registered with it after a wait."""
    old, own, new = CancellationToken(), CancellationToken(), CancellationToken()
    ticker = ticked(face, with_token(ConstantBackOff(10), old), token=own, clock=clock)
    timed_out = face.start_receive(ticker, 1)
    clock.advance(1)
    assert type(timed_out.exception(PATIENCE)) is TimeoutError
    ticker.reset(with_token(ConstantBackOff(10), new))
    waiting = reader_that_waits(face, clock, ticker)
    assert waiters_of(old._wait_set()) == []
    old.cancel()
    clock.settle()
    assert (waiting.done(), ticker.closed) == (False, False)
    new.cancel()
    assert reason_of(waiting) is CloseReason.CANCELLED


@pytest.mark.parametrize("immediately", [False, True])
def test_a_failing_reset_of_the_policy_fails_the_ticker(face, clock, immediately):
    class OnceResettable(Scripted):
        def reset(self):
            super().reset()
            if self.resets == 2:  # the first was that of the ticker's own run
                raise LookupError("no reset today")

    ticker = ticked(face, OnceResettable(then=1.0), clock=clock)
    waiting = reader_that_waits(face, clock, ticker)
    ticker.reset(immediately=immediately)
    error = waiting.exception(PATIENCE)
    assert isinstance(error, LookupError)
    assert "<the scripted policy>" in "".join(error.__notes__)
    assert ticker.close_reason is CloseReason.FAILED

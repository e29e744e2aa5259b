"""``first=``: the delay before the first tick, on both faces."""

from datetime import timedelta

import pytest

from backoff_ticker import (
    CancellationToken,
    CloseReason,
    ConstantBackOff,
    ExponentialFeedbackBackOff,
    Pace,
)
from tests.channels.ends import value_after
from tests.helpers import PATIENCE
from tests.tickers.made_policies import (
    EVERY_PACE,
    Counting,
    nothing_is_due,
    reader_that_waits,
    reason_of,
)
from tests.tickers.made_timers import Fake


@EVERY_PACE
@pytest.mark.parametrize("first", [20, 20.0, timedelta(seconds=20)])
def test_the_first_tick_comes_after_it_and_the_second_a_back_off_later(face, clock, pace, first):
    ticker = face.ticker(ConstantBackOff(5), clock=clock, pace=pace, first=first)
    waiting = reader_that_waits(face, clock, ticker)
    assert ticker.next_delay == 20
    tick = value_after(clock, 20, waiting)
    assert tick._replace(time=0) == (1, 0, 1020, 20, 0, 0, 0)
    nothing_is_due(ticker)
    clock.advance(5)
    assert face.receive(ticker).due == 1025


@pytest.mark.parametrize(
    ("pace", "due"), [(Pace.RECEIPT, 1020), *((p, 1027) for p in list(Pace)[1:])]
)
def test_it_runs_from_the_start_of_the_ticker(face, clock, pace, due):
    """With all paces but the default, that is the first request for a tick."""
    ticker = face.ticker(ConstantBackOff(5), clock=clock, pace=pace, first=20)
    clock.advance(7)
    if pace is not Pace.RECEIPT:
        nothing_is_due(ticker)
    clock.advance(due - 1007)
    assert ticker.receive_nowait().due == due


@EVERY_PACE
def test_a_cancel_before_it_prevents_the_first_tick(face, clock, pace):
    token = CancellationToken(clock=clock)
    ticker = face.ticker(ConstantBackOff(5), token=token, clock=clock, pace=pace, first=20)
    waiting = reader_that_waits(face, clock, ticker)
    token.cancel()
    assert reason_of(waiting) is CloseReason.CANCELLED
    assert reason_of(face.start_receive(ticker)) is CloseReason.CANCELLED


@pytest.mark.parametrize("policy", [Counting(), ExponentialFeedbackBackOff(1)])
@pytest.mark.parametrize("outcome", ["success", "failure"])
def test_no_report_changes_it(face, clock, policy, outcome):
    ticker = face.ticker(policy, clock=clock, first=20)
    getattr(ticker, outcome)()
    assert ticker.next_delay == 20
    clock.advance(20)
    assert face.receive(ticker).due == 1020


@EVERY_PACE
def test_a_reset_before_it_has_a_delay_of_the_policy_follow(face, clock, pace):
    ticker = face.ticker(ConstantBackOff(5), clock=clock, pace=pace, first=20)
    ticker.reset()
    ticker.success()
    clock.advance(5)
    tick = face.receive(ticker)
    assert (tick.number, tick.due, tick.delay) == (1, 1005, 5)


def test_a_timer_measures_it(face, clock):
    timer = Fake()
    ticker = face.ticker(ConstantBackOff(5), clock=clock, timer=timer, first=20)
    waiting = reader_that_waits(face, clock, ticker)
    assert timer.delays == [20]
    timer.fire()
    assert waiting.result(PATIENCE).time == 7.5
    nothing_is_due(ticker)
    assert timer.delays == [20, 5]


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_tick_after_it_that_was_given_back_comes_again_but_not_after_a_cancel(
    face, clock, cancelled
):
    token = CancellationToken(clock=clock)
    ticker = face.ticker(ConstantBackOff(5), clock=clock, token=token, first=20)
    clock.advance(20)
    tick = ticker.receive_nowait()
    ticker._put_back(tick)
    if cancelled:
        token.cancel()
        assert reason_of(face.start_receive(ticker)) is CloseReason.CANCELLED
    else:
        assert face.receive(ticker) == tick


@pytest.mark.parametrize("first", [-1, "soon", None, float("nan"), float("inf"), True])
def test_what_is_no_duration_is_refused(face, first):
    with pytest.raises((TypeError, ValueError), match="first"):
        face.ticker(ConstantBackOff(5), first=first)

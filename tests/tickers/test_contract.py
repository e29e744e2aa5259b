"""What a ticker promises, on both faces: first tick, endings, what a tick tells, no leaks."""

import asyncio
import copy
import pickle
import weakref
from datetime import timedelta

import pytest

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    CloseReason,
    ConstantBackOff,
    ExponentialFeedbackBackOff,
    Pace,
    TickerClosed,
    ZeroBackOff,
    with_max_retries,
    with_token,
)
from tests.channels.ends import value_after
from tests.helpers import PATIENCE, turns, wait_until_collected, waiters_of
from tests.retries.faces import in_a_loop
from tests.retries.scripts import cancelled_token
from tests.stress.tools import children_of
from tests.tickers.made_policies import (
    EVERY_PACE,
    Counting,
    Scripted,
    nothing_is_due,
    reader_that_waits,
    reason_of,
    ticked,
)
from tests.tickers.made_timers import Fake


@EVERY_PACE
@pytest.mark.parametrize("inside", [False, True])
def test_a_ticker_ticks_once_with_a_token_cancelled_before(face, clock, pace, inside):
    token = cancelled_token()
    if inside:
        ticker = face.ticker(with_token(ConstantBackOff(0), token), clock=clock, pace=pace)
    else:
        ticker = face.ticker(ConstantBackOff(0), token=token, clock=clock, pace=pace)
    assert not ticker.closed
    assert [tick.number for tick in face.iterate(ticker).result(PATIENCE)] == [1]
    assert ticker.close_reason is CloseReason.CANCELLED


@EVERY_PACE
@pytest.mark.parametrize("token", [None, cancelled_token()])
def test_a_ticker_does_not_tick_after_stop(face, clock, pace, token):
    ticker = face.ticker(ConstantBackOff(0), token=token, clock=clock, pace=pace)
    ticker.stop()
    assert face.iterate(ticker).result(PATIENCE) == []
    assert reason_of(face.start_receive(ticker)) is CloseReason.STOPPED


# Endings: cancelled before stopped before due


@EVERY_PACE
@pytest.mark.parametrize("what", ["cancel", "stop"])
def test_a_tick_that_is_due_is_not_delivered_after_the_end(face, clock, pace, what):
    token = CancellationToken()
    ticker = ticked(face, ConstantBackOff(10), token=token, clock=clock, pace=pace)
    nothing_is_due(ticker)
    clock.advance(10)
    token.cancel() if what == "cancel" else ticker.stop()
    for _ in range(2):
        with pytest.raises(TickerClosed):
            ticker.receive_nowait()
        assert reason_of(face.start_receive(ticker, 0)) is ticker.close_reason
    assert face.iterate(ticker).result(PATIENCE) == []


def test_a_deadline_and_a_due_time_at_the_same_moment_cancel(face, clock):
    token = CancellationToken(clock=clock).child(timeout=10)
    ticker = ticked(face, ConstantBackOff(10), token=token, clock=clock)
    waiting = reader_that_waits(face, clock, ticker)
    clock.advance(10)
    assert reason_of(waiting) is CloseReason.CANCELLED


@EVERY_PACE
@pytest.mark.parametrize("retries", [0, 1, 5])
def test_it_closes_when_the_policy_stops(face, pace, retries):
    ticker = face.ticker(with_max_retries(ZeroBackOff(), retries), pace=pace)
    ticks = face.iterate(ticker).result(PATIENCE)
    assert [tick.number for tick in ticks] == list(range(1, retries + 2))
    assert (ticker.closed, ticker.close_reason) == (True, CloseReason.EXHAUSTED)
    for _ in range(2):
        assert reason_of(face.start_receive(ticker)) is CloseReason.EXHAUSTED
        with pytest.raises(TickerClosed):
            ticker.receive_nowait()


def test_a_context_manager_stops_it(face):
    with face.ticker(ZeroBackOff()) as ticker:
        assert not ticker.closed
        face.receive(ticker)
    assert ticker.close_reason is CloseReason.STOPPED
    with pytest.raises(KeyError), face.ticker(ZeroBackOff()) as ticker:
        raise KeyError
    assert ticker.close_reason is CloseReason.STOPPED


def test_a_copy_is_the_ticker_itself_and_none_is_pickled(face):
    ticker = face.ticker(ZeroBackOff())
    assert copy.copy(ticker) is ticker
    assert copy.deepcopy([ticker]) == [ticker]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="a ticker .* cannot be pickled"):
            pickle.dumps(ticker, protocol)


def test_a_close_reason_is_a_str():
    reasons = [str(reason) for reason in CloseReason]
    assert reasons == ["stopped", "exhausted", "cancelled", "failed"]
    assert CloseReason.STOPPED == "stopped"
    assert TickerClosed(CloseReason.STOPPED).reason is CloseReason.STOPPED


def test_a_tick_tells_when_it_fell_due_and_how_late_it_is(face, clock):
    ticker = ticked(face, ConstantBackOff(10), clock=clock)
    clock.advance(14)
    assert face.receive(ticker) == (2, clock.time() - 4, 1010.0, 10.0, 4.0, 0, 1)


@pytest.mark.parametrize("readers", [1, 3])
@in_a_loop
async def test_a_zero_back_off_never_starves_the_loop(readers):
    ticker = AsyncTicker(ZeroBackOff())

    async def read():
        async for _ in ticker:
            pass

    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        for _ in range(readers):
            group.create_task(read())
        await turns(100)
        ticker.stop()


@pytest.mark.parametrize(
    "arguments",
    [
        {"backoff": 1.0},
        {"backoff": None},
        {"backoff": ZeroBackOff},
        {"token": True},
        {"pace": "receipt"},
        {"pace": None},
        {"clock": object()},
    ],
)
def test_a_wrong_parameter_is_a_type_error_that_names_it(face, arguments):
    with pytest.raises(TypeError, match=next(iter(arguments))):
        face.ticker(**{"backoff": ZeroBackOff(), **arguments})


@EVERY_PACE
def test_a_ticker_dropped_without_a_stop_is_collected_at_once(face, clock, pace):
    token = CancellationToken()
    ticker = face.ticker(
        with_token(with_max_retries(ConstantBackOff(300), 9), token), clock=clock, pace=pace
    )
    face.receive(ticker)
    timed_out = face.start_receive(ticker, 1)
    clock.advance(1)
    assert type(timed_out.exception(PATIENCE)) is TimeoutError
    del timed_out
    alive = weakref.ref(ticker)
    del ticker
    wait_until_collected(alive)
    assert clock.pending() == []
    assert (waiters_of(token._wait_set()), children_of(token)) == ([], 0)


def test_a_cancelled_token_spares_the_policy_a_question(face):
    policy = Scripted(1.0)
    face.receive(face.ticker(policy, token=cancelled_token()))
    assert policy.asked == 0


def test_an_async_ticker_takes_async_with():
    async def main():
        async with AsyncTicker(ZeroBackOff()) as ticker:
            await ticker.receive()
            assert not ticker.closed
        return ticker.close_reason

    assert asyncio.run(main()) is CloseReason.STOPPED


# ``first=``: the delay before the first tick


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

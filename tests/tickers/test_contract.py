"""What a ticker promises, on both faces: first tick, endings, what a tick tells, no leaks."""

import asyncio
import copy
import pickle
import weakref

import pytest

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    CloseReason,
    ConstantBackOff,
    TickerClosed,
    ZeroBackOff,
    with_max_retries,
    with_token,
)
from tests.helpers import PATIENCE, turns, wait_until_collected, waiters_of
from tests.retries.scripts import cancelled_token
from tests.stress.tools import children_of
from tests.tickers.made_policies import (
    EVERY_PACE,
    Scripted,
    nothing_is_due,
    reader_that_waits,
    reason_of,
    ticked,
)


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


@pytest.mark.parametrize("what", ["cancel", "stop"])
def test_a_waiting_reader_wakes_when_it_ends(face, clock, what):
    token = CancellationToken()
    ticker = ticked(face, ConstantBackOff(10), token=token, clock=clock)
    waiting = reader_that_waits(face, clock, ticker)
    token.cancel() if what == "cancel" else ticker.stop()
    assert reason_of(waiting) == {"cancel": "cancelled", "stop": "stopped"}[what]
    clock.settle()
    assert clock.pending() == []


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
def test_a_zero_back_off_never_starves_the_loop(readers):
    async def main():
        ticker = AsyncTicker(ZeroBackOff())

        async def read():
            async for _ in ticker:
                pass

        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            for _ in range(readers):
                group.create_task(read())
            await turns(100)
            ticker.stop()

    asyncio.run(main())


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

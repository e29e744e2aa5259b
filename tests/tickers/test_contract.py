"""What a ticker promises, on both faces: first tick, endings, what a tick tells, no leaks."""

from __future__ import annotations

import asyncio
import weakref
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    CloseReason,
    ConstantBackOff,
    ExponentialBackOff,
    Pace,
    Ticker,
    TickerClosed,
    WouldBlock,
    ZeroBackOff,
    with_max_retries,
    with_token,
)
from tests import effort
from tests.helpers import PATIENCE, wait_until_collected
from tests.tickers.made_policies import Scripted, reason_of

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock

EVERY_PACE = pytest.mark.parametrize("pace", list(Pace))


def cancelled_token(cause: Any = None) -> CancellationToken:
    token = CancellationToken()
    token.cancel(cause)
    return token


# Rule 1: the first tick


@EVERY_PACE
def test_the_first_tick_comes_at_once(face: Any, clock: VirtualClock, pace: Pace) -> None:
    tick = face.receive(face.ticker(ConstantBackOff(10), clock=clock, pace=pace))
    assert (tick.number, tick.due, tick.delay, tick.lateness, tick.missed) == (1, 1000, 0, 0, 0)


@EVERY_PACE
@pytest.mark.parametrize("inside", [False, True])
def test_a_ticker_ticks_once_with_a_token_cancelled_before(
    face: Any, clock: VirtualClock, pace: Pace, inside: bool
) -> None:
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
def test_a_ticker_does_not_tick_after_stop(
    face: Any, clock: VirtualClock, pace: Pace, token: CancellationToken | None
) -> None:
    ticker = face.ticker(ConstantBackOff(0), token=token, clock=clock, pace=pace)
    ticker.stop()
    assert face.iterate(ticker).result(PATIENCE) == []
    assert reason_of(face.start_receive(ticker)) is CloseReason.STOPPED


# Rule 4: cancelled before stopped before due


@pytest.mark.parametrize("what", ["cancel", "stop"])
def test_a_waiting_reader_wakes_when_it_ends(face: Any, clock: VirtualClock, what: str) -> None:
    token = CancellationToken()
    ticker = face.ticker(ConstantBackOff(10), token=token, clock=clock)
    face.receive(ticker)
    waiting = face.start_receive(ticker)
    clock.settle()
    token.cancel() if what == "cancel" else ticker.stop()
    assert reason_of(waiting) == {"cancel": "cancelled", "stop": "stopped"}[what]
    clock.settle()
    assert clock.pending() == []


@EVERY_PACE
@pytest.mark.parametrize("what", ["cancel", "stop"])
def test_a_tick_that_is_due_is_not_delivered_after_the_end(
    face: Any, clock: VirtualClock, pace: Pace, what: str
) -> None:
    token = CancellationToken()
    ticker = face.ticker(ConstantBackOff(10), token=token, clock=clock, pace=pace)
    face.receive(ticker)
    with pytest.raises(WouldBlock):
        ticker.receive_nowait()
    clock.advance(10)
    token.cancel() if what == "cancel" else ticker.stop()
    for _ in range(2):
        with pytest.raises(TickerClosed):
            ticker.receive_nowait()
        assert reason_of(face.start_receive(ticker, 0)) is ticker.close_reason
    assert face.iterate(ticker).result(PATIENCE) == []


def test_a_deadline_and_a_due_time_at_the_same_moment_cancel(
    face: Any, clock: VirtualClock
) -> None:
    token = CancellationToken(clock=clock).child(timeout=10)
    ticker = face.ticker(ConstantBackOff(10), token=token, clock=clock)
    face.receive(ticker)
    waiting = face.start_receive(ticker)
    clock.settle()
    clock.advance(10)
    assert reason_of(waiting) is CloseReason.CANCELLED


def test_the_first_ending_stays(face: Any) -> None:
    token = CancellationToken()
    ticker = face.ticker(ConstantBackOff(0), token=token)
    face.receive(ticker)
    ticker.stop()
    token.cancel()
    ticker.stop()
    assert ticker.close_reason is CloseReason.STOPPED
    assert reason_of(face.start_receive(ticker)) is CloseReason.STOPPED


# Rule 5: how it ends


@EVERY_PACE
@pytest.mark.parametrize("retries", [0, 1, 5])
def test_it_closes_when_the_policy_stops(face: Any, pace: Pace, retries: int) -> None:
    ticker = face.ticker(with_max_retries(ZeroBackOff(), retries), pace=pace)
    ticks = face.iterate(ticker).result(PATIENCE)
    assert [tick.number for tick in ticks] == list(range(1, retries + 2))
    assert (ticker.closed, ticker.close_reason) == (True, CloseReason.EXHAUSTED)
    for _ in range(2):
        assert reason_of(face.start_receive(ticker)) is CloseReason.EXHAUSTED
        with pytest.raises(TickerClosed):
            ticker.receive_nowait()


def test_a_context_manager_stops_it(face: Any) -> None:
    with face.ticker(ZeroBackOff()) as ticker:
        assert not ticker.closed
        face.receive(ticker)
    assert ticker.close_reason is CloseReason.STOPPED
    with pytest.raises(KeyError), face.ticker(ZeroBackOff()) as ticker:
        raise KeyError
    assert ticker.close_reason is CloseReason.STOPPED


def test_a_close_reason_is_a_str() -> None:
    assert [str(reason) for reason in CloseReason] == [
        "stopped",
        "exhausted",
        "cancelled",
        "failed",
    ]
    assert CloseReason.STOPPED == "stopped"
    assert TickerClosed(CloseReason.STOPPED).reason is CloseReason.STOPPED


# Rule 6: what a tick tells


def test_a_tick_tells_when_it_fell_due_and_how_late_it_is(face: Any, clock: VirtualClock) -> None:
    ticker = face.ticker(ConstantBackOff(10), clock=clock)
    face.receive(ticker)
    clock.advance(14)
    tick = face.receive(ticker)
    assert tick == (2, clock.time() - 4, 1010.0, 10.0, 4.0, 0, 1)
    assert (tick.number, tick.time, tick.due, tick.delay, tick.lateness) == tick[:5]
    assert (tick.missed, tick.since_success) == tick[5:]
    assert float(tick) == tick.time == 1_700_000_010.0
    assert tick.datetime == datetime(2023, 11, 14, 22, 13, 30, tzinfo=UTC)
    assert tick.datetime.tzinfo is UTC


# Rule 7: exact


@EVERY_PACE
@pytest.mark.parametrize("readers", [1, 2, 3])
def test_a_zero_back_off_never_starves_the_loop(pace: Pace, readers: int) -> None:
    async def main() -> None:
        ticker = AsyncTicker(ZeroBackOff(), pace=pace)

        async def read() -> None:
            async for _ in ticker:
                pass

        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            for _ in range(readers):
                group.create_task(read())
            for _ in range(100):
                await asyncio.sleep(0)
            ticker.stop()

    asyncio.run(main())


# Making one


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
def test_a_wrong_parameter_is_a_type_error_that_names_it(
    face: Any, arguments: dict[str, Any]
) -> None:
    with pytest.raises(TypeError, match=next(iter(arguments))):
        face.ticker(**{"backoff": ZeroBackOff(), **arguments})


# Defects of the Go ticker that this one descends from


RACES = effort.rounds(100, 2000)


def test_the_limit_of_elapsed_time_closes_it(face: Any, clock: VirtualClock) -> None:
    ticker = face.ticker(ExponentialBackOff(1, 0, 2, max_elapsed_time=7), clock=clock)
    taken = []
    with pytest.raises(TickerClosed):
        while True:
            try:
                taken.append(ticker.receive_nowait().due - 1000)
            except WouldBlock:
                clock.advance(1)
    assert taken == [0, 1, 3, 7]


# Defect 2: dropped without a stop it lives forever


@pytest.mark.parametrize("pace", list(Pace))
def test_row_2_a_ticker_dropped_without_a_stop_is_collected_at_once(
    face: Any, clock: VirtualClock, pace: Pace
) -> None:
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


# Defect 4: a stopped ticker leaves its timer pending


@pytest.mark.parametrize("how", ["stop", "cancel", "leave"])
def test_row_4_an_ended_wait_leaves_no_timer(face: Any, clock: VirtualClock, how: str) -> None:
    token = CancellationToken()
    ticker = face.ticker(ConstantBackOff(300), token=token, clock=clock)
    face.receive(ticker)
    waiting = face.start_receive(ticker, 5)
    clock.settle()
    assert len(clock.pending()) == 1
    if how == "leave":
        clock.advance(5)
    else:
        ticker.stop() if how == "stop" else token.cancel()
    assert waiting.exception(PATIENCE) is not None
    clock.settle()
    assert clock.pending() == []


# Defect 8: timer and cancel ready together, and one picked at random


def test_row_8_no_extra_attempt_when_a_cancel_and_a_tick_meet() -> None:
    """Cancelled by the work itself, with no delay: the next tick is due at once."""
    for _ in range(RACES):
        token = CancellationToken()
        attempts = 0
        for _tick in Ticker(ZeroBackOff(), token=token):
            attempts += 1
            token.cancel()
        assert attempts == 1


# Defect 18: a policy cannot be shared


def test_a_cancelled_token_spares_the_policy_a_question(face: Any) -> None:
    policy = Scripted(1.0)
    face.receive(face.ticker(policy, token=cancelled_token()))
    assert policy.asked == 0


def test_an_async_ticker_takes_async_with() -> None:
    async def main() -> Any:
        async with AsyncTicker(ZeroBackOff()) as ticker:
            await ticker.receive()
            assert not ticker.closed
        return ticker.close_reason

    assert asyncio.run(main()) is CloseReason.STOPPED

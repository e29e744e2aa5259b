"""What a ticker promises, on both faces: first tick, endings, what a tick tells, how to read it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    CloseReason,
    ConstantBackOff,
    Pace,
    StopBackOff,
    TickerClosed,
    WouldBlock,
    ZeroBackOff,
    with_max_retries,
    with_token,
)
from tests.helpers import PATIENCE, in_thread
from tests.tickers.made_policies import Counting, Scripted, reason_of

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


def test_a_cancelled_token_spares_the_policy_a_question(face: Any) -> None:
    policy = Scripted(1.0)
    face.receive(face.ticker(policy, token=cancelled_token()))
    assert policy.asked == 0


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


def test_a_deadline_wakes_a_reader_before_its_tick(face: Any, clock: VirtualClock) -> None:
    token = CancellationToken(clock=clock).child(timeout=3)
    ticker = face.ticker(ConstantBackOff(10), token=token, clock=clock)
    face.receive(ticker)
    waiting = face.start_receive(ticker)
    clock.settle()
    clock.advance(3)
    assert reason_of(waiting) is CloseReason.CANCELLED


def test_what_was_cancelled_before_it_was_stopped_is_cancelled(
    face: Any, clock: VirtualClock
) -> None:
    token = CancellationToken(clock=clock).child(timeout=3)
    ticker = face.ticker(ConstantBackOff(10), token=token, clock=clock)
    face.receive(ticker)
    clock.advance(3)
    ticker.stop()
    assert ticker.close_reason is CloseReason.CANCELLED


def test_the_first_ending_stays(face: Any) -> None:
    token = CancellationToken()
    ticker = face.ticker(ConstantBackOff(0), token=token)
    face.receive(ticker)
    ticker.stop()
    token.cancel()
    ticker.stop()
    assert ticker.close_reason is CloseReason.STOPPED
    assert reason_of(face.start_receive(ticker)) is CloseReason.STOPPED


def test_an_exhausted_ticker_stays_exhausted(face: Any) -> None:
    token = CancellationToken()
    ticker = face.ticker(StopBackOff(), token=token)
    assert ticker.close_reason is None
    face.receive(ticker)
    ticker.stop()
    token.cancel()
    assert ticker.close_reason is CloseReason.EXHAUSTED


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


def test_an_async_ticker_takes_async_with() -> None:
    async def main() -> Any:
        async with AsyncTicker(ZeroBackOff()) as ticker:
            await ticker.receive()
            assert not ticker.closed
        return ticker.close_reason

    assert asyncio.run(main()) is CloseReason.STOPPED


def test_a_close_reason_is_a_str() -> None:
    assert [str(reason) for reason in CloseReason] == [
        "stopped",
        "exhausted",
        "cancelled",
        "failed",
    ]
    assert CloseReason.STOPPED == "stopped"
    assert TickerClosed(CloseReason.STOPPED).reason is CloseReason.STOPPED


def test_stop_wakes_every_reader(face: Any, clock: VirtualClock) -> None:
    ticker = face.ticker(ConstantBackOff(10), clock=clock)
    face.receive(ticker)
    waiting = [face.start_receive(ticker) for _ in range(20)]
    clock.settle()
    ticker.stop()
    assert [reason_of(future) for future in waiting] == [CloseReason.STOPPED] * 20


# Rule 6: what a tick tells


def test_a_tick_tells_when_it_fell_due_and_how_late_it_is(face: Any, clock: VirtualClock) -> None:
    ticker = face.ticker(ConstantBackOff(10), clock=clock)
    face.receive(ticker)
    clock.advance(14)
    tick = face.receive(ticker)
    assert tick == (2, clock.time() - 4, 1010.0, 10.0, 4.0, 0, 1)
    assert (tick.number, tick.time, tick.due, tick.delay, tick.lateness) == tick[:5]
    assert (tick.missed, tick.failures) == tick[5:]
    assert float(tick) == tick.time == 1_700_000_010.0
    assert tick.datetime == datetime(2023, 11, 14, 22, 13, 30, tzinfo=UTC)
    assert tick.datetime.tzinfo is UTC


def test_the_delay_of_a_tick_is_the_one_before_it(face: Any, clock: VirtualClock) -> None:
    ticker = face.ticker(Counting(), clock=clock)
    ticks = []
    for _ in range(4):
        ticks.append(face.receive(ticker))
        clock.advance(len(ticks))
    assert [(tick.number, tick.delay, tick.due) for tick in ticks] == [
        (1, 0, 1000),
        (2, 1, 1001),
        (3, 2, 1003),
        (4, 3, 1006),
    ]


# Rule 7: exact


def test_a_tick_never_comes_early(face: Any, clock: VirtualClock) -> None:
    ticker = face.ticker(ConstantBackOff(0.1), clock=clock)
    face.receive(ticker)
    waiting = face.start_receive(ticker)
    clock.settle()
    clock.advance_to(1000.0999)
    assert not waiting.done()
    with pytest.raises(WouldBlock):
        ticker.receive_nowait()
    clock.advance_to(1000.1)
    assert waiting.result(PATIENCE).lateness == 0


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


def test_the_options_are_keywords_only(face: Any) -> None:
    with pytest.raises(TypeError):
        face.ticker(ZeroBackOff(), CancellationToken())


def test_a_ticker_made_in_no_loop_serves_any(face: Any) -> None:
    ticker = in_thread(lambda: face.ticker(with_max_retries(ZeroBackOff(), 2))).result(PATIENCE)
    assert len(face.iterate(ticker).result(PATIENCE)) == 3

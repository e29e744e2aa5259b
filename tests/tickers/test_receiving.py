"""How a ticker is read, on both faces: ``receive``, its time-out, ``receive_nowait``, iteration."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    AsyncTicker,
    ConstantBackOff,
    Ticker,
    WouldBlock,
    ZeroBackOff,
    with_max_retries,
)
from tests.helpers import PATIENCE, LoopThread

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock


@pytest.mark.parametrize("timeout", [0, 5, 5.0, timedelta(seconds=5)])
def test_a_receive_that_times_out_loses_no_tick(
    face: Any, clock: VirtualClock, timeout: Any
) -> None:
    ticker = face.ticker(ConstantBackOff(10), clock=clock)
    face.receive(ticker, timeout)
    late = face.start_receive(ticker, timeout)
    if timeout:
        clock.advance(5)
    error = late.exception(PATIENCE)
    assert type(error) is TimeoutError
    clock.advance_to(1010)
    assert face.receive(ticker, 0).number == 2


def test_a_tick_due_when_the_time_is_up_is_taken(face: Any, clock: VirtualClock) -> None:
    ticker = face.ticker(ConstantBackOff(10), clock=clock)
    face.receive(ticker)
    waiting = face.start_receive(ticker, 10)
    clock.advance(10)
    assert waiting.result(PATIENCE).number == 2


BAD_TIMEOUTS = [
    (float("nan"), ValueError),
    (float("inf"), ValueError),
    (-1, ValueError),
    (timedelta(seconds=-1), ValueError),
    (10**400, ValueError),
    ("1", TypeError),
    (True, TypeError),
    (1j, TypeError),
]


@pytest.mark.parametrize(("timeout", "kind"), BAD_TIMEOUTS)
def test_a_bad_timeout_is_refused_and_takes_no_tick(
    face: Any, timeout: Any, kind: type[Exception]
) -> None:
    ticker = face.ticker(ZeroBackOff())
    error = face.start_receive(ticker, timeout).exception(PATIENCE)
    assert type(error) is kind
    assert "timeout" in str(error)
    assert face.receive(ticker).number == 1


def test_a_timeout_longer_than_any_wait_is_allowed(face: Any, clock: VirtualClock) -> None:
    ticker = face.ticker(ConstantBackOff(10), clock=clock)
    face.receive(ticker)
    waiting = face.start_receive(ticker, 1e300)
    clock.advance(10)
    assert waiting.result(PATIENCE).number == 2


def test_receive_nowait_takes_what_is_due_and_would_block_otherwise(
    face: Any, clock: VirtualClock
) -> None:
    ticker = face.ticker(ConstantBackOff(10), clock=clock)
    assert ticker.receive_nowait().number == 1
    for _ in range(2):
        with pytest.raises(WouldBlock):
            ticker.receive_nowait()
    clock.advance(10)
    assert ticker.receive_nowait().number == 2


def test_iteration_can_be_left_and_taken_up_again(face: Any, clock: VirtualClock) -> None:
    ticker = face.ticker(with_max_retries(ZeroBackOff(), 3), clock=clock)
    face.receive(ticker)
    assert [tick.number for tick in face.iterate(ticker).result(PATIENCE)] == [2, 3, 4]
    assert face.iterate(ticker).result(PATIENCE) == []


def test_iteration_is_over_the_ticker_itself() -> None:
    ticker = Ticker(with_max_retries(ZeroBackOff(), 2))
    assert iter(ticker) is ticker
    assert next(ticker).number == 1
    asynchronous = AsyncTicker(ZeroBackOff())
    assert aiter(asynchronous) is asynchronous


def test_iteration_waits_for_each_tick(face: Any, clock: VirtualClock) -> None:
    ticker = face.ticker(with_max_retries(ConstantBackOff(10), 2), clock=clock)
    all_ticks = face.iterate(ticker)
    clock.settle()
    for count in (1, 2):
        assert f" {count} ticks" in repr(ticker)
        clock.advance(9)
        assert f" {count} ticks" in repr(ticker)
        clock.advance(1)
    assert " 3 ticks" in repr(ticker)
    assert [tick.due for tick in all_ticks.result(PATIENCE)] == [1000, 1010, 1020]


def test_a_user_cancelled_task_loses_no_tick(clock: VirtualClock) -> None:
    thread = LoopThread()
    ticker = AsyncTicker(ConstantBackOff(10), clock=clock)

    async def cancel_a_reader() -> bool:
        await ticker.receive()
        task = asyncio.create_task(ticker.receive())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert thread.run(cancel_a_reader())
    assert len(clock.pending()) == 0
    clock.advance(10)
    assert thread.run(ticker.receive()).number == 2
    thread.close()
    assert thread.errors == []

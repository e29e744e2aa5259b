"""Defects of the Go ticker that this one descends from, as tests that pass."""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    CloseReason,
    ConstantBackOff,
    ExponentialBackOff,
    Pace,
    StopBackOff,
    Ticker,
    TickerClosed,
    WouldBlock,
    ZeroBackOff,
    with_max_retries,
    with_token,
)
from tests import effort
from tests.helpers import PATIENCE, in_thread, wait_until_collected
from tests.tickers.made_policies import Counting, reason_of

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock

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


# Defect 2: dropped without a stop it lives for ever


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


# Defect 5: a closed channel gives zero times without end; the running policy was asked by users


def test_row_5_a_closed_ticker_gives_an_error_each_time_and_no_tick(face: Any) -> None:
    ticker = face.ticker(StopBackOff())
    face.receive(ticker)
    for _ in range(20):
        assert reason_of(face.start_receive(ticker)) is CloseReason.EXHAUSTED
        assert face.iterate(ticker).result(PATIENCE) == []


def test_row_5_asking_the_policy_one_gave_it_disturbs_no_ticker(
    face: Any, clock: VirtualClock
) -> None:
    policy = Counting()
    ticker = face.ticker(policy, clock=clock)
    face.receive(ticker)
    for _ in range(10):
        policy.next_backoff()
    clock.advance(1)
    assert ticker.receive_nowait().delay == 1
    clock.advance(2)
    assert ticker.receive_nowait().delay == 2


# Defect 7: a wrapper hides the token


class Wrapping:
    """A wrapper of a user's that names the token of what it wraps."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.token = getattr(inner, "token", None)

    def next_backoff(self) -> Any:
        return self.inner.next_backoff()

    def reset(self) -> None:
        self.inner.reset()


@pytest.mark.parametrize("depth", [0, 1, 4])
def test_row_7_no_wrapper_hides_the_token(face: Any, clock: VirtualClock, depth: int) -> None:
    """Cancelled during a delay of 300 ms it ends at once."""
    token = CancellationToken()
    policy: Any = with_token(ConstantBackOff(0.3), token)
    for level in range(depth):
        policy = Wrapping(policy) if level % 2 == 0 else with_max_retries(policy, 99)
    ticker = face.ticker(policy, clock=clock)
    face.receive(ticker)
    waiting = face.start_receive(ticker)
    clock.settle()
    clock.advance(0.02)
    token.cancel()
    assert reason_of(waiting) is CloseReason.CANCELLED
    assert clock.monotonic() == pytest.approx(1000.02)


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


def test_row_8_nor_in_a_loop() -> None:
    async def main() -> None:
        for _ in range(RACES):
            token = CancellationToken()
            attempts = 0
            async for _tick in AsyncTicker(with_token(ZeroBackOff(), token)):
                attempts += 1
                token.cancel()
            assert attempts == 1

    asyncio.run(main())


# Defect 18: a policy cannot be shared


def test_row_18_one_policy_serves_many_tickers_at_once(face: Any, clock: VirtualClock) -> None:
    policy = with_max_retries(
        ExponentialBackOff(1, 0, 2, max_interval=30, max_elapsed_time=None), 20
    )
    alone = face.iterate(face.ticker(policy))
    clock.advance(1000)
    delays = [tick.delay for tick in alone.result(PATIENCE)]
    assert delays == [0, 1, 2, 4, 8, 16, *[30] * 15]
    runs = [face.iterate(face.ticker(policy)) for _ in range(20)]
    clock.advance(1000)
    for run in runs:
        assert [tick.delay for tick in run.result(PATIENCE)] == delays
    assert policy.retries == 0
    assert in_thread(policy.next_backoff).result(PATIENCE) == delays[1]

"""Policies that turn to their own ticker while it asks them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import CancellationToken, CloseReason
from tests.helpers import PATIENCE
from tests.tickers.made_policies import Scripted, reason_of

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock


class Reaching(Scripted):
    """Does something to its own ticker each time it is asked."""

    def __init__(self, act: Any, then: Any = 0.0) -> None:
        super().__init__(then=then)
        self.act = act
        self.ticker: Any = None

    def next_backoff(self) -> Any:
        self.act(self.ticker)
        return super().next_backoff()


def reaching(face: Any, act: Any, **options: Any) -> tuple[Any, Reaching]:
    policy = Reaching(act)
    ticker = policy.ticker = face.ticker(policy, **options)
    return ticker, policy


def test_a_policy_may_stop_its_ticker(face: Any) -> None:
    ticker, policy = reaching(face, lambda ticker: ticker.stop())
    assert reason_of(face.start_receive(ticker)) is CloseReason.STOPPED
    assert policy.asked == 1


def test_a_policy_may_stop_its_ticker_at_a_later_tick(face: Any) -> None:
    ticker, policy = reaching(face, lambda ticker: policy.asked >= 2 and ticker.stop())
    ticks = face.iterate(ticker).result(PATIENCE)
    assert [tick.number for tick in ticks] == [1, 2]
    assert ticker.close_reason is CloseReason.STOPPED


@pytest.mark.parametrize("ticks", [1, 3])
def test_a_policy_may_cancel_its_token(face: Any, ticks: int) -> None:
    """What it cancels while it is asked is not delivered any more, save the first tick."""
    token = CancellationToken()
    ticker, policy = reaching(
        face, lambda _: policy.asked >= ticks and token.cancel("enough"), token=token
    )
    assert [tick.number for tick in face.iterate(ticker).result(PATIENCE)] == [
        *range(1, max(ticks, 1) + 1)
    ]
    assert ticker.close_reason is CloseReason.CANCELLED


@pytest.mark.parametrize("how", ["receive_nowait", "receive", "next"])
def test_a_policy_that_asks_its_own_ticker_for_a_tick_gets_a_runtime_error(
    face: Any, how: str
) -> None:
    def act(ticker: Any) -> None:
        if how == "receive_nowait":
            ticker.receive_nowait()
        elif face.name == "thread":
            ticker.receive() if how == "receive" else next(ticker)
        else:
            (ticker.receive() if how == "receive" else anext(ticker)).send(None)

    ticker, _ = reaching(face, act)
    assert face.receive(ticker).number == 1
    error = face.start_receive(ticker).exception(PATIENCE)
    assert type(error) is RuntimeError
    assert "its own policy" in str(error)
    assert reason_of(face.start_receive(ticker)) is CloseReason.FAILED


@pytest.mark.parametrize("what", ["success", "failure", "reset"])
def test_a_policy_that_tells_its_own_ticker_of_an_outcome_gets_a_runtime_error(
    face: Any, what: str
) -> None:
    """It would be asked again for each time it tells."""
    ticker, policy = reaching(face, lambda ticker: getattr(ticker, what)())
    assert face.receive(ticker).number == 1
    error = face.start_receive(ticker).exception(PATIENCE)
    assert type(error) is RuntimeError
    assert "its own policy" in str(error)
    assert reason_of(face.start_receive(ticker)) is CloseReason.FAILED
    assert policy.asked == 0


@pytest.mark.parametrize("what", ["stop", "cancel"])
def test_a_policy_that_reaches_its_ticker_leaves_waiting_readers_well(
    face: Any, clock: VirtualClock, what: str
) -> None:
    token = CancellationToken()

    def act(ticker: Any) -> None:
        if policy.asked == 1:
            token.cancel() if what == "cancel" else getattr(ticker, what)()

    policy = Reaching(act, then=10.0)
    ticker = policy.ticker = face.ticker(policy, token=token, clock=clock)
    face.receive(ticker)
    waiting = [face.start_receive(ticker) for _ in range(3)]
    clock.settle()
    clock.advance(10)
    reason = {"stop": "stopped", "cancel": "cancelled"}[what]
    assert [reason_of(future) for future in waiting] == [reason] * 3

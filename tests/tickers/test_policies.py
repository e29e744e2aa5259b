"""What a policy may answer, raise and call, and what its ticker makes of it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    STOP,
    CancellationToken,
    CloseReason,
    ConstantBackOff,
    Pace,
    TickerClosed,
    WouldBlock,
    ZeroBackOff,
    with_max_retries,
)
from tests.helpers import PATIENCE, SetClock, readable_id
from tests.tickers.made_policies import Blocking, Scripted, reason_of

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock

NAN, INF = float("nan"), float("inf")


BAD_ANSWERS = [
    (NAN, ValueError),
    (INF, ValueError),
    (-INF, ValueError),
    (-1, ValueError),
    (-1e-300, ValueError),
    (timedelta(microseconds=-1), ValueError),
    (10**400, ValueError),
    (-(10**400), ValueError),
    ("1", TypeError),
    (b"1", TypeError),
    (None, TypeError),
    (True, TypeError),
    (False, TypeError),
    (1j, TypeError),
    (Fraction(1), TypeError),
    ([1.0], TypeError),
    (CloseReason.STOPPED, TypeError),
]


@pytest.mark.parametrize("pace", list(Pace))
@pytest.mark.parametrize(("answer", "kind"), BAD_ANSWERS, ids=lambda value: repr(value)[:12])
def test_a_bad_answer_fails_the_ticker_with_an_error_that_names_the_policy(
    face: Any, answer: Any, kind: type[Exception], pace: Pace
) -> None:
    ticker = face.ticker(Scripted(answer, then=0.0), pace=pace)
    assert face.receive(ticker).number == 1
    assert ticker.close_reason is CloseReason.FAILED
    error = face.start_receive(ticker).exception(PATIENCE)
    assert type(error) is kind
    assert "<the scripted policy>" in str(error)
    for _ in range(2):
        assert reason_of(face.start_receive(ticker)) is CloseReason.FAILED
    assert face.iterate(ticker).result(PATIENCE) == []


@pytest.mark.parametrize("answer", [0, 0.0, -0.0, 1, 2.5, timedelta(seconds=2.5), 10**300])
def test_a_good_answer_is_a_delay_as_a_float(face: Any, answer: Any) -> None:
    clock = SetClock()
    ticker = face.ticker(Scripted(answer), clock=clock)
    face.receive(ticker)
    seconds = answer.total_seconds() if isinstance(answer, timedelta) else float(answer)
    clock.advance(seconds)
    tick = face.receive(ticker)
    assert tick.delay == seconds
    assert type(tick.delay) is float


class UserError(Exception):
    """Raised by a test's policy."""


class UserTimeoutError(TimeoutError):
    """Not to be taken for the one of ``receive(timeout=)``."""


ERRORS = [
    UserError("oh"),
    ValueError(),
    KeyError("oh"),
    RuntimeError(),
    UserTimeoutError(),
    MemoryError(),
    WouldBlock(),
    ExceptionGroup("many", [UserError()]),
]


@pytest.mark.parametrize("given", ERRORS, ids=readable_id)
def test_an_error_of_the_policy_is_raised_once_and_names_the_policy(
    face: Any, given: Exception
) -> None:
    ticker = face.ticker(Scripted(given, then=0.0))
    assert face.receive(ticker).number == 1
    error = face.start_receive(ticker).exception(PATIENCE)
    assert error is given
    assert sum("<the scripted policy>" in note for note in error.__notes__) == 1
    given.__notes__.clear()
    for _ in range(2):
        assert reason_of(face.start_receive(ticker)) is CloseReason.FAILED


MISTAKABLE = [StopIteration(3), StopAsyncIteration(), TickerClosed(CloseReason.STOPPED)]


@pytest.mark.parametrize("given", MISTAKABLE, ids=readable_id)
@pytest.mark.parametrize("how", ["receive", "receive_nowait", "iterate"])
def test_an_error_that_would_end_a_loop_unseen_is_raised_as_another(
    face: Any, given: Exception, how: str
) -> None:
    ticker = face.ticker(Scripted(given, then=0.0))
    face.receive(ticker)
    if how == "receive_nowait":
        with pytest.raises(RuntimeError) as caught:
            ticker.receive_nowait()
        error: Any = caught.value
    elif how == "receive":
        error = face.start_receive(ticker).exception(PATIENCE)
    else:
        error = face.iterate(ticker).exception(PATIENCE)
    assert type(error) is RuntimeError
    assert "<the scripted policy>" in str(error)
    assert error.__cause__ is given
    assert reason_of(face.start_receive(ticker)) is CloseReason.FAILED


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, asyncio.CancelledError])
def test_what_is_no_exception_passes_at_once_and_loses_no_tick(
    face: Any, kind: type[BaseException]
) -> None:
    policy = Scripted(kind(), then=0.0)
    ticker = face.ticker(policy)
    with pytest.raises(kind):
        ticker.receive_nowait()
    assert not ticker.closed
    assert [face.receive(ticker).number for _ in range(3)] == [1, 2, 3]
    assert policy.asked == 4


def test_the_error_ends_a_for_loop(face: Any) -> None:
    ticker = face.ticker(Scripted(0.0, UserError("oh")))
    error = face.iterate(ticker).exception(PATIENCE)
    assert isinstance(error, UserError)


def test_of_many_readers_one_gets_the_error(face: Any, clock: VirtualClock) -> None:
    ticker = face.ticker(Scripted(10.0, UserError("oh")), clock=clock)
    face.receive(ticker)
    waiting = [face.start_receive(ticker) for _ in range(6)]
    clock.settle()
    clock.advance(10)
    errors = [future.exception(PATIENCE) for future in waiting]
    assert sorted(type(error).__name__ for error in errors) == [
        "NoneType",
        *["TickerClosed"] * 4,
        "UserError",
    ]


def test_a_policy_whose_repr_fails_too_fails_the_ticker(face: Any) -> None:
    class Unspeakable(Scripted):
        def __repr__(self) -> str:
            raise ZeroDivisionError

    policy = Unspeakable(then="1")
    ticker = face.ticker(policy)
    assert face.receive(ticker).number == 1
    assert isinstance(face.start_receive(ticker).exception(PATIENCE), Exception)
    assert reason_of(face.start_receive(ticker)) is CloseReason.FAILED
    assert policy.asked == 1


def test_the_other_tickers_go_on(face: Any, clock: VirtualClock) -> None:
    good = [face.ticker(ConstantBackOff(10), clock=clock) for _ in range(4)]
    for ticker in good:
        face.receive(ticker)
    waiting = [face.start_receive(ticker) for ticker in good]
    clock.settle()
    for answer, _ in BAD_ANSWERS:
        bad = face.ticker(Scripted(answer), clock=clock)
        face.receive(bad)
        assert face.start_receive(bad).exception(PATIENCE) is not None
    clock.advance(10)
    assert [future.result(PATIENCE).number for future in waiting] == [2] * 4


def test_a_policy_that_takes_its_time_holds_up_no_other_ticker(
    face: Any, clock: VirtualClock
) -> None:
    policy = Blocking()
    slow = face.ticker(policy, clock=clock)
    other_face = type(face)()
    taking = other_face.start_receive(slow)
    assert policy.entered.wait()
    good = face.ticker(with_max_retries(ZeroBackOff(), 100), clock=clock)
    assert len(face.iterate(good).result(PATIENCE)) == 101
    assert not taking.done()
    policy.release.set()
    assert taking.result(PATIENCE).number == 1
    other_face.close()


def test_the_tick_is_due_from_when_it_was_taken_however_long_the_policy_thinks(
    face: Any, clock: VirtualClock
) -> None:
    policy = Blocking()
    ticker = face.ticker(policy, clock=clock)
    taking = face.start_receive(ticker)
    assert policy.entered.wait()
    clock.advance(4)
    policy.release.set()
    assert taking.result(PATIENCE).lateness == 0
    clock.advance(6)
    assert ticker.receive_nowait().due == 1010


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


@pytest.mark.parametrize("last", [STOP, 10.0])
@pytest.mark.parametrize("whose", ["the ticker's", "the policy's"])
def test_a_policy_that_cancels_is_told_as_the_reason(face: Any, last: Any, whose: str) -> None:
    """Whatever it answers then, and as soon as its tick was taken."""
    token = CancellationToken()
    policy = Scripted(then=lambda: (token.cancel(), last)[1])
    if whose == "the policy's":
        policy.token = token
    ticker = face.ticker(policy, token=token if whose == "the ticker's" else None)
    assert face.receive(ticker).number == 1
    assert ticker.close_reason is CloseReason.CANCELLED
    assert reason_of(face.start_receive(ticker)) is CloseReason.CANCELLED


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

"""Tickers with a timer: what it sends, who stops it as it starts, and tickers nobody holds."""

from __future__ import annotations

import math
import signal
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import CancellationToken, CloseReason, ConstantBackOff, Pace, WouldBlock
from tests.channels.ends import still_waits
from tests.helpers import PATIENCE, in_thread
from tests.tickers.made_policies import reason_of
from tests.tickers.made_timers import Fake

if TYPE_CHECKING:
    from collections.abc import Callable

    from backoff_ticker.testing import VirtualClock

EVERY_PACE = pytest.mark.parametrize("pace", list(Pace))

BAD_TIMES = [
    (None, TypeError),
    ("5", TypeError),
    (b"5", TypeError),
    (True, TypeError),
    (object(), TypeError),
    (math.nan, ValueError),
    (-math.inf, ValueError),
    (10**400, ValueError),
]


@pytest.mark.parametrize("waiting", [False, True])
@pytest.mark.parametrize(("sent", "expected"), BAD_TIMES)
def test_what_is_no_time_is_named_once_and_ends_the_ticker(
    face: Any, clock: VirtualClock, sent: Any, expected: type[Exception], waiting: bool
) -> None:
    timer = Fake()
    ticker = face.ticker(ConstantBackOff(10), timer=timer)
    face.receive(ticker)
    asking = face.start_receive(ticker)
    still_waits(clock, asking)
    if not waiting:
        timer.fire(1.0)
        assert asking.result(PATIENCE).time == 1.0
    timer.fire(sent)
    if not waiting:
        # Sent before its start, so it is dropped; what start() itself sends counts.
        timer.start = lambda delay: timer.fire(sent)  # type: ignore[method-assign]
        asking = face.start_receive(ticker)
    failure = asking.exception(PATIENCE)
    assert type(failure) is expected
    assert "what the timer sent must be a time in Unix seconds" in str(failure)
    assert reason_of(face.start_receive(ticker)) is CloseReason.FAILED
    assert timer.stops == 1


@pytest.mark.parametrize("sent", [0, -5, 7, 7.25])
def test_any_finite_number_is_a_time(face: Any, clock: VirtualClock, sent: float) -> None:
    timer = Fake()
    ticker = face.ticker(ConstantBackOff(10), timer=timer)
    face.receive(ticker)
    asking = face.start_receive(ticker)
    still_waits(clock, asking)
    timer.fire(sent)
    time = asking.result(PATIENCE).time
    assert (time, type(time)) == (sent, float)
    ticker.stop()


@EVERY_PACE
@pytest.mark.parametrize("late", [0, 0.25, 25])
def test_however_late_it_fires_who_has_waited_gets_the_tick(
    face: Any, clock: VirtualClock, pace: Pace, late: float
) -> None:
    """On a real clock each fire is late, if only just: none is passed by."""
    timer = Fake()
    ticker = face.ticker(ConstantBackOff(10), timer=timer, pace=pace)
    face.receive(ticker)
    asking = face.start_receive(ticker)
    still_waits(clock, asking)
    clock.advance(10 + late)
    still_waits(clock, asking)
    timer.fire(9.0)
    tick = asking.result(PATIENCE)
    assert (tick.number, tick.due, tick.lateness, tick.missed) == (2, 1010, late, 0)
    assert tick.time == 9.0
    next_delay = {Pace.RECEIPT: [10], Pace.BURST: [max(0, 10 - late)], Pace.SKIP: [10 - late % 10]}
    assert timer.delays == [10, *next_delay.get(pace, [])]
    ticker.stop()


class Running(Fake):
    """Knows whether it runs; ``meanwhile`` is called before its start has an effect."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], object] = int
        self.runs = False

    def start(self, delay: float) -> None:
        super().start(delay)
        self.meanwhile()
        self.runs = True

    def stop(self) -> None:
        super().stop()
        self.runs = False


@EVERY_PACE
@pytest.mark.parametrize("by", ["itself", "another thread", "a token"])
def test_stopped_in_the_midst_of_its_start_it_does_not_run_on(
    face: Any, clock: VirtualClock, pace: Pace, by: str
) -> None:
    timer, token = Running(), CancellationToken()
    ticker = face.ticker(ConstantBackOff(10), timer=timer, token=token, pace=pace)
    timer.meanwhile = {
        "itself": ticker.stop,
        "another thread": lambda: in_thread(ticker.stop).result(PATIENCE),
        "a token": token.cancel,
    }[by]
    face.start_receive(ticker).exception(PATIENCE)  # the first tick, or the end, which came before
    reason = CloseReason.CANCELLED if by == "a token" else CloseReason.STOPPED
    assert reason_of(face.start_receive(ticker)) is reason
    assert len(timer.delays) == 1
    assert timer.stops >= 1
    assert not timer.runs


def nothing_is_due(ticker: Any) -> None:
    try:
        ticker.receive_nowait()
    except WouldBlock:
        return  # the record of a ``pytest.raises`` would hold the ticker
    raise AssertionError("a tick was due")


@EVERY_PACE
@pytest.mark.parametrize("begun", [False, True])
def test_a_ticker_that_nobody_holds_is_gone_while_its_timer_lives(
    face: Any, clock: VirtualClock, pace: Pace, begun: bool
) -> None:
    timer = Fake()
    ticker = face.ticker(ConstantBackOff(10), timer=timer, pace=pace)
    face.receive(ticker)
    if begun:
        nothing_is_due(ticker)
        assert timer.delays == [10]
    gone = weakref.ref(ticker)
    del ticker
    clock.settle()
    assert gone() is None
    timer.fire()
    assert timer.c.receive_nowait() == 7.5


def test_an_interrupt_in_the_stop_of_a_timer_leaves_no_reader_waiting(
    face: Any, clock: VirtualClock
) -> None:
    timer = Fake()
    ticker = face.ticker(ConstantBackOff(10), timer=timer)
    face.receive(ticker)
    asking = face.start_receive(ticker)
    still_waits(clock, asking)
    timer.stop = lambda: signal.raise_signal(signal.SIGINT)  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        ticker.stop()
    timer.stop = int  # type: ignore[assignment]
    assert reason_of(asking) is CloseReason.STOPPED
    ticker.stop()

"""Tickers with a timer: when it is stopped, and timers that fail or are none."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    CancellationToken,
    Channel,
    CloseReason,
    ConstantBackOff,
    Pace,
    TickerClosed,
    WouldBlock,
    ZeroBackOff,
)
from tests.channels.ends import still_waits
from tests.helpers import PATIENCE
from tests.tickers.made_policies import reason_of
from tests.tickers.made_timers import Failing, Fake

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock

EVERY_PACE = pytest.mark.parametrize("pace", list(Pace))


def nothing_is_due(ticker: Any) -> None:
    with pytest.raises(WouldBlock):
        ticker.receive_nowait()


@EVERY_PACE
@pytest.mark.parametrize("ending", ["stop", "cancel", "with"])
@pytest.mark.parametrize("waiting", [False, True])
def test_it_is_stopped_with_the_ticker(
    face: Any, clock: VirtualClock, pace: Pace, ending: str, *, waiting: bool
) -> None:
    timer, token = Fake(), CancellationToken()
    ticker = face.ticker(ConstantBackOff(10), timer=timer, token=token, pace=pace)
    with ticker:
        face.receive(ticker)
        nothing_is_due(ticker)
        asking = face.start_receive(ticker) if waiting else None
        clock.settle()
        assert timer.stops == 0
        if ending == "stop":
            ticker.stop()
        elif ending == "cancel":
            token.cancel()
            assert ticker.closed
    if asking is not None:
        reason_of(asking)
    assert timer.stops == 1
    ticker.stop()
    assert timer.stops == 1
    timer.fire()
    with pytest.raises(TickerClosed):
        ticker.receive_nowait()
    assert len(timer.delays) == 1


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What goes to ``sys.unraisablehook`` meanwhile."""
    shown: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", shown.append)
    return shown


def test_a_failing_stop_is_reported_and_ends_the_ticker(
    face: Any, clock: VirtualClock, reported: list[Any]
) -> None:
    timer = Failing(LookupError("no stop"), stop=True)
    ticker = face.ticker(ConstantBackOff(10), timer=timer)
    face.receive(ticker)
    asking = face.start_receive(ticker)
    still_waits(clock, asking)
    ticker.stop()
    assert reason_of(asking) is CloseReason.STOPPED
    assert [report.exc_value for report in reported] == [timer.error]


@EVERY_PACE
@pytest.mark.parametrize("start", [1, 2])
def test_a_failing_start_is_raised_once_and_ends_the_ticker(
    face: Any, clock: VirtualClock, pace: Pace, start: int
) -> None:
    timer = Failing(LookupError("no start"), start=start)
    ticker = face.ticker(ConstantBackOff(10), timer=timer, pace=pace)
    face.receive(ticker)
    if start == 2:
        nothing_is_due(ticker)
        timer.fire()
        assert face.receive(ticker).number == 2
    assert face.start_receive(ticker).exception(PATIENCE) is timer.error
    assert reason_of(face.start_receive(ticker)) is CloseReason.FAILED


@pytest.mark.parametrize("when", ["before", "while it waits", "with an item"])
def test_a_closed_channel_ends_the_ticker(face: Any, clock: VirtualClock, when: str) -> None:
    timer = Fake()
    ticker = face.ticker(ConstantBackOff(10), timer=timer)
    if when == "before":
        timer.c.close()
    face.receive(ticker)
    asking = face.start_receive(ticker)
    clock.settle()
    if when == "with an item":
        timer.fire()
        timer.c.close()
        assert asking.result(PATIENCE).number == 2
        asking = face.start_receive(ticker)
    timer.c.close()
    assert "closed" in str(asking.exception(PATIENCE))
    assert isinstance(asking.exception(), RuntimeError)
    assert reason_of(face.start_receive(ticker)) is CloseReason.FAILED


class WithoutStop:
    c: Channel[float] = Channel(1)

    def start(self, delay: float) -> None: ...


class WithoutChannel(WithoutStop):
    c: Any = None

    def stop(self) -> None: ...


class WithoutC:
    def start(self, delay: float) -> None: ...

    def stop(self) -> None: ...


@pytest.mark.parametrize("timer", [5, "timer", Fake, Channel(1), WithoutStop(), WithoutChannel()])
def test_what_is_no_timer_is_refused(face: Any, timer: Any) -> None:
    with pytest.raises(TypeError, match="timer must"):
        face.ticker(ZeroBackOff(), timer=timer)


def test_a_timer_without_a_c_is_refused(face: Any) -> None:
    with pytest.raises(TypeError, match="timer must"):
        face.ticker(ZeroBackOff(), timer=WithoutC())


def test_stopped_in_the_midst_of_a_start_it_takes_nothing_from_the_next_ticker(
    face: Any, clock: VirtualClock
) -> None:
    timer = Fake()
    ticker = face.ticker(ConstantBackOff(10), timer=timer)
    timer.start = lambda _: ticker.stop()
    with pytest.raises(TickerClosed):
        face.receive(ticker)
    del timer.start
    other = face.ticker(ConstantBackOff(10), timer=timer)
    face.receive(other)
    asking = face.start_receive(other)
    still_waits(clock, asking)
    timer.fire()
    assert asking.result(PATIENCE).number == 2

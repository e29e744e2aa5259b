"""Tickers whose delays a timer of the user's measures: when it is started, fires and is stopped."""

from __future__ import annotations

import math
import signal
import sys
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    CancellationToken,
    Channel,
    CloseReason,
    ConstantBackOff,
    Pace,
    StopBackOff,
    Ticker,
    TickerClosed,
    WouldBlock,
    ZeroBackOff,
    with_max_retries,
)
from tests.channels.ends import still_waits
from tests.helpers import PATIENCE, in_thread
from tests.interleaving import each_interleaving
from tests.tickers.made_policies import Scripted, reason_of
from tests.tickers.made_timers import Failing, Fake, Instant

if TYPE_CHECKING:
    from collections.abc import Callable

    from backoff_ticker.testing import VirtualClock

EVERY_PACE = pytest.mark.parametrize("pace", list(Pace))


def nothing_is_due(ticker: Any) -> None:
    try:
        ticker.receive_nowait()
    except WouldBlock:
        return  # the record of a ``pytest.raises`` would hold the ticker
    raise AssertionError("a tick was due")


@EVERY_PACE
def test_a_timer_of_the_users_drives_a_ticker(face: Any, clock: VirtualClock, pace: Pace) -> None:
    """No time passes at all."""
    timer = Fake()
    ticker = face.ticker(ConstantBackOff(10), timer=timer, pace=pace)
    assert timer.delays == []
    first = face.receive(ticker)
    assert (first.number, first.time) == (1, clock.time())
    for number in range(2, 6):
        asking = face.start_receive(ticker)
        still_waits(clock, asking)
        timer.fire(100.5 * number)
        tick = asking.result(PATIENCE)
        assert (tick.number, tick.time, tick.delay) == (number, 100.5 * number, 10)
        assert float(tick) == 100.5 * number
        assert tick.lateness == 0
    assert clock.monotonic() == 1000
    ticker.stop()
    assert clock.pending() == []


@pytest.mark.parametrize("pace", [Pace.RECEIPT, Pace.RETURN])
def test_it_is_started_once_with_each_delay_of_the_policy(
    face: Any, clock: VirtualClock, pace: Pace
) -> None:
    delays = [0.1, 3.0, 0.7, 1e-9, 86400.5]
    timer = Fake()
    ticker = face.ticker(Scripted(*delays), timer=timer, pace=pace)
    for number in range(1, 6):
        face.receive(ticker)
        assert timer.delays == delays[: number if pace is Pace.RECEIPT else number - 1]
        clock.advance(0.3)
        nothing_is_due(ticker)
        nothing_is_due(ticker)
        assert ticker.next_delay == delays[number - 1]
        assert timer.delays == delays[:number]
        timer.fire()
    assert timer.stops == 0


def test_on_a_schedule_it_is_started_for_what_is_left_of_the_delay(
    face: Any, clock: VirtualClock
) -> None:
    timer = Fake()
    ticker = face.ticker(ConstantBackOff(10), timer=timer, pace=Pace.BURST)
    face.receive(ticker)
    assert timer.delays == [10]
    clock.advance(13)
    timer.fire()
    assert face.receive(ticker).due == 1010
    assert timer.delays == [10, 7]
    clock.advance(7)
    timer.fire()
    assert face.receive(ticker).due == 1020
    assert timer.delays == [10, 7, 10]


def test_where_late_ticks_are_skipped_it_is_started_again_for_the_next(
    face: Any, clock: VirtualClock
) -> None:
    timer = Fake()
    ticker = face.ticker(ConstantBackOff(10), timer=timer, pace=Pace.SKIP)
    face.receive(ticker)
    clock.advance(13)
    timer.fire()
    nothing_is_due(ticker)
    assert timer.delays == [10, 7]
    clock.advance(7)
    timer.fire()
    tick = face.receive(ticker)
    assert (tick.due, tick.missed) == (1020, 1)
    assert timer.delays == [10, 7, 10]


def test_a_slow_reader_of_a_burst_gets_ticks_for_which_nothing_is_left(clock: VirtualClock) -> None:
    timer = Instant()
    ticker = Ticker(ConstantBackOff(10), timer=timer, pace=Pace.BURST)
    ticker.receive()
    clock.advance(35)
    assert [ticker.receive().due for _ in range(3)] == [1000, 1010, 1020]
    assert timer.delays == [10, 0, 0, 0]


@EVERY_PACE
def test_it_is_never_started_for_the_first_tick(face: Any, clock: VirtualClock, pace: Pace) -> None:
    timer = Fake()
    ticker = face.ticker(StopBackOff(), timer=timer, pace=pace)
    timer.fire()
    clock.advance(5)
    tick = face.receive(ticker)
    assert tick.number == 1
    assert tick.time != 7.5
    assert timer.delays == []
    assert reason_of(face.start_receive(ticker)) is CloseReason.EXHAUSTED


def test_its_fire_counts_however_early_and_however_late(face: Any, clock: VirtualClock) -> None:
    timer = Fake()
    ticker = face.ticker(ConstantBackOff(10), timer=timer)
    face.receive(ticker)
    clock.advance(4)
    timer.fire()
    early = face.receive(ticker)
    assert (early.due, early.lateness) == (1004, 0)
    clock.advance(100)
    nothing_is_due(ticker)
    timer.fire()
    late = face.receive(ticker)
    assert (late.number, late.due, late.lateness) == (3, 1014, 90)


def test_what_was_sent_before_the_start_is_dropped(face: Any, clock: VirtualClock) -> None:
    timer = Fake()
    timer.fire()
    ticker = face.ticker(ConstantBackOff(10), timer=timer)
    face.receive(ticker)
    nothing_is_due(ticker)
    timer.fire(9.0)
    assert face.receive(ticker).time == 9.0


@pytest.mark.parametrize("capacity", [0, 5, float("inf")])
def test_a_channel_of_another_capacity_will_do(
    face: Any, clock: VirtualClock, capacity: float
) -> None:
    timer = Fake(capacity)
    ticker = face.ticker(ConstantBackOff(10), timer=timer)
    face.receive(ticker)
    for number in (2, 3):
        asking = face.start_receive(ticker)
        still_waits(clock, asking)
        timer.fire()
        assert asking.result(PATIENCE).number == number
    ticker.stop()


@EVERY_PACE
def test_a_timer_may_fire_inside_its_start(face: Any, clock: VirtualClock, pace: Pace) -> None:
    timer = Instant()
    ticker = face.ticker(with_max_retries(ConstantBackOff(10), 4), timer=timer, pace=pace)
    times = [tick.time for tick in face.iterate(ticker).result(PATIENCE)]
    assert times == [clock.time(), 1, 2, 3, 4]
    assert len(timer.delays) == 4
    assert timer.stops == 1


BAD_TIMES = [("5", TypeError), (True, TypeError), (math.nan, ValueError), (10**400, ValueError)]


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


def test_stopped_by_two_threads_at_once_it_is_stopped_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second thread comes at each instruction of the first one in turn."""

    def begin() -> tuple[Callable[[], object], Callable[[], object]]:
        timers[:] = [Fake()]
        ticker = Ticker(ConstantBackOff(10), timer=timers[0])
        ticker.receive()
        return ticker.stop, ticker.stop

    timers: list[Fake] = []
    for _ in each_interleaving(begin, monkeypatch):
        assert timers[0].stops == 1


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
    assert face.receive(ticker).number == 1
    assert face.iterate(ticker).result(PATIENCE) == []
    del timer.start
    other = face.ticker(ConstantBackOff(10), timer=timer)
    face.receive(other)
    asking = face.start_receive(other)
    still_waits(clock, asking)
    timer.fire()
    assert asking.result(PATIENCE).number == 2


def test_the_time_of_a_tick_that_a_reset_dropped_is_not_that_of_the_next(
    clock: VirtualClock,
) -> None:
    timer = Fake()
    ticker = Ticker(ConstantBackOff(10), timer=timer)
    ticker.receive()
    timer.fire(100.5)
    ticker.success()  # looks whether the timer has fired, and takes no tick
    ticker.reset(immediately=True)
    tick = ticker.receive()
    assert (tick.number, tick.time) == (2, clock.time())

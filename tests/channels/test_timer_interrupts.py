"""An interrupt at every place of timers, and of tickers with a timer: no time is lost or stale."""

from __future__ import annotations

import pytest

from backoff_ticker import (
    Channel,
    ConstantBackOff,
    Pace,
    SystemClock,
    Ticker,
    Timer,
    WouldBlock,
    select,
)
from tests import effort
from tests.helpers import PATIENCE, eventually, in_thread, waiters_of
from tests.stress.places import Interrupted, each_place
from tests.tickers.made_timers import Fake

HOUR = 3600.0
TICKS = effort.rounds(300, 3000)


@pytest.mark.parametrize("state", ["new", "started", "fired"])
@pytest.mark.parametrize("act", ["start", "stop"])
def test_a_timer_whose_start_or_stop_was_interrupted_tells_nothing_stale(state, act):
    stale: list[object] = []

    def run(interrupt):
        timer = Timer(clock=SystemClock())
        if state != "new":
            timer.start(HOUR if state == "started" else 0)
        if state == "fired":
            eventually(lambda: len(timer.c) == 1, "it fires")
        try:
            with interrupt:
                timer.start(HOUR) if act == "start" else timer.stop()
        except Interrupted:
            pass
        begun = SystemClock().time()
        timer.start(0.0001)
        if in_thread(timer.c.receive, PATIENCE).result(PATIENCE) < begun or len(timer.c):
            stale.append(interrupt.where)
        timer.start(HOUR)
        if not timer.stop():
            stale.append((interrupt.where, "not stopped"))

    assert each_place(run)
    assert stale == []


@pytest.mark.parametrize("delay", [0.0, 0.001])
def test_selecting_from_a_timer_loses_no_time(delay):
    lost: list[object] = []

    def run(interrupt):
        timer = Timer(clock=SystemClock())
        timer.start(delay)
        taken = []
        try:
            with interrupt:
                taken.append(select(Channel(), timer, timeout=PATIENCE)[1])
        except Interrupted:
            taken.append(in_thread(timer.c.receive, PATIENCE).result(PATIENCE))
        timer.stop()
        if len(timer.c):
            lost.append(interrupt.where)

    assert each_place(run) >= 20
    assert lost == []


# Tickers with a timer


class Recording(Fake):
    """Fires when told; notes what it was fired with."""

    def __init__(self) -> None:
        super().__init__()
        self.fired: list[float] = []

    def fire(self, time: float = 0.0) -> None:
        self.fired.append(len(self.fired) + 1.0)
        super().fire(self.fired[-1])


@pytest.mark.parametrize("pace", list(Pace))
@pytest.mark.parametrize("inside", [False, True])
def test_an_interrupt_of_a_reader_loses_no_fire(pace, *, inside):
    """Each delay starts the timer once, and each fire is a tick; fired inside its start or not."""
    wrong: list[object] = []

    class Made(Recording):
        def start(self, delay):
            super().start(delay)
            if inside:
                self.fire()

    def run(interrupt):
        timer = Made()
        ticker = Ticker(ConstantBackOff(HOUR), timer=timer, pace=pace)
        taken = [ticker.receive().time]
        if not inside:
            with pytest.raises(WouldBlock):
                ticker.receive_nowait()
            timer.fire()
        try:
            with interrupt:
                taken.append(ticker.receive(PATIENCE).time)
        except Interrupted:
            taken.append(in_thread(ticker.receive, PATIENCE).result(PATIENCE).time)
        if not inside:
            try:
                ticker.receive_nowait()
            except WouldBlock:
                timer.fire()
        taken.append(in_thread(ticker.receive, PATIENCE).result(PATIENCE).time)
        # A start that was interrupted is done again, and what it sent is stale.
        right = taken[1] < taken[2] <= len(timer.fired) if inside else taken[1:] == [1.0, 2.0]
        if not right or not 2 <= len(timer.delays) <= 4:
            wrong.append((interrupt.where, taken, timer.delays))

    assert each_place(run) >= 15
    assert wrong == []


@pytest.mark.parametrize("act", ["success", "reset", "stop", "immediately"])
def test_an_interrupt_in_what_is_told_to_a_ticker_leaves_its_timer_usable(act):
    wrong: list[object] = []

    def run(interrupt):
        timer = Recording()
        ticker = Ticker(ConstantBackOff(HOUR), timer=timer)
        ticker.receive()
        reader = in_thread(ticker.receive, PATIENCE)
        eventually(lambda: ticker._readers and waiters_of(ticker._readers), "it waits")
        try:
            with interrupt:
                if act == "immediately":
                    ticker.reset(immediately=True)
                else:
                    getattr(ticker, act)()
        except Interrupted:
            pass
        if act == "stop":
            ticker.stop()
            if not timer.stops or reader.exception(PATIENCE) is None:
                wrong.append((interrupt.where, timer.stops))
            return
        fire_until(reader, timer)
        again = in_thread(ticker.receive, PATIENCE)
        fire_until(again, timer)

    def fire_until(reader, timer):
        """Fire, again if the timer was started anew meanwhile."""

        def fired():
            if not len(timer.c):
                timer.fire()
            return reader.done()

        eventually(fired, "a tick comes")
        assert reader.exception() is None

    assert each_place(run) >= 5
    assert wrong == []

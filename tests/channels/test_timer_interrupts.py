"""An interrupt at every place of timers, and of tickers with a timer: no time is lost or stale."""

from contextlib import suppress

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
from tests.helpers import PATIENCE, eventually, in_thread
from tests.stress.places import Interrupted, check_each_place
from tests.tickers.made_timers import Fake

HOUR = 3600.0


def received(source):
    """Return what another thread receives."""
    return in_thread(source.receive, PATIENCE).result(PATIENCE)


@pytest.mark.parametrize("state", ["new", "started", "fired"])
@pytest.mark.parametrize("act", ["start", "stop"])
def test_a_timer_whose_start_or_stop_was_interrupted_tells_nothing_stale(state, act):
    def run(interrupt):
        timer = Timer(clock=SystemClock())
        if state != "new":
            timer.start(HOUR if state == "started" else 0)
        if state == "fired":
            eventually(lambda: len(timer.c) == 1, "it fires")
        with suppress(Interrupted), interrupt:
            timer.start(HOUR) if act == "start" else timer.stop()
        begun = SystemClock().time()
        timer.start(0.0001)
        if received(timer.c) < begun or len(timer.c):
            yield "stale"
        timer.start(HOUR)
        if not timer.stop():
            yield "not stopped"

    check_each_place(run)


@pytest.mark.parametrize("delay", [0.0, 0.001])
def test_selecting_from_a_timer_loses_no_time(delay):
    def run(interrupt):
        timer = Timer(clock=SystemClock())
        timer.start(delay)
        taken = []
        try:
            with interrupt:
                taken.append(select(Channel(), timer, timeout=PATIENCE)[1])
        except Interrupted:
            taken.append(received(timer.c))
        timer.stop()
        return [*timer.c._buffer.items]

    check_each_place(run, at_least=20)


class Recording(Fake):
    """Fires when told; notes what it was fired with."""

    def __init__(self):
        super().__init__()
        self.fired = []

    def fire(self, time=0.0):
        self.fired.append(len(self.fired) + 1.0)
        super().fire(self.fired[-1])


class Inside(Recording):
    """Fires in its start."""

    def start(self, delay):
        super().start(delay)
        self.fire()


@pytest.mark.parametrize("pace", list(Pace))
@pytest.mark.parametrize("kind", [Recording, Inside])
def test_an_interrupt_of_a_reader_loses_no_fire(pace, kind):
    """Each delay starts the timer once, and each fire is a tick; fired inside its start or not."""

    def run(interrupt):
        timer = kind()
        ticker = Ticker(ConstantBackOff(HOUR), timer=timer, pace=pace)
        ticker.receive()
        taken = []

        def fire():
            if kind is Recording:
                with suppress(WouldBlock):
                    ticker.receive_nowait()
                    raise AssertionError("a tick without a fire")
                timer.fire()

        fire()
        try:
            with interrupt:
                taken.append(ticker.receive(PATIENCE).time)
        except Interrupted:
            taken.append(received(ticker).time)
        fire()
        taken.append(received(ticker).time)
        # A start that was interrupted is done again: what it has sent inside is stale.
        ordered = taken[0] < taken[1] <= len(timer.fired)
        right = ordered if kind is Inside else taken == [1.0, 2.0]
        return [] if right and len(timer.delays) <= 4 else [(taken, timer.delays)]

    check_each_place(run, at_least=15)

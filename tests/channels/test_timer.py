"""Timers: they fire once for each start, and never give the time of a start that is over."""

import gc
import weakref
from contextlib import suppress
from datetime import timedelta

import pytest

from backoff_ticker import SystemClock, Timer, WouldBlock
from tests.channels.ends import error, still_waits, value, value_after
from tests.channels.turned_clock import TurnedClock
from tests.conftest import EPOCH
from tests.helpers import PATIENCE, in_thread, slow
from tests.interleaving import each_meeting


def nothing_comes(timer):
    """Whether nothing can be received from ``timer`` now."""
    with pytest.raises(WouldBlock):
        timer.c.receive_nowait()
    return len(timer.c) == 0


@pytest.mark.parametrize("delay", [5, 0.25, timedelta(days=1), 1e6])
def test_it_fires_once_at_its_moment(receivers, clock, delay):
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    timer = Timer(clock=clock)
    receiving = receivers.receive(timer.c)
    assert timer.start(delay) is None
    clock.settle()
    assert value_after(clock, seconds, receiving) == EPOCH + 1000 + seconds
    clock.advance(10 * seconds)
    assert nothing_comes(timer)
    assert clock.pending() == []


def test_what_it_tells_is_when_it_fired_not_when_it_was_heard(receivers, clock):
    timer = Timer(clock=clock)
    timer.start(5)
    clock.advance(60)
    assert value(receivers.receive(timer.c)) == EPOCH + 1005


@pytest.mark.parametrize("wait", [0, 1, 4.5])
def test_stopped_in_time_it_does_not_fire(receivers, clock, wait):
    timer = Timer(clock=clock)
    receiving = receivers.receive(timer.c, 60)
    timer.start(5)
    clock.advance(wait)
    assert timer.stop() is True
    assert timer.stop() is False
    still_waits(clock, receiving)
    clock.advance(60)
    assert type(error(receiving)) is TimeoutError
    assert clock.pending() == []


def test_stopped_after_it_fired_it_takes_the_news_back(clock):
    timer = Timer(clock=clock)
    timer.start(5)
    clock.advance(5)
    assert timer.stop() is False
    assert nothing_comes(timer)


@pytest.mark.parametrize(("first", "again"), [(5, 20), (20, 5), (5, 5)])
def test_started_again_it_fires_for_the_last_start_only(receivers, clock, first, again):
    """Who waits for it waits on."""
    timer = Timer(clock=clock)
    timer.start(first)
    receiving = receivers.receive(timer.c)
    clock.settle()
    clock.advance(2)
    timer.start(again)
    assert value_after(clock, again, receiving) == EPOCH + 1002 + again
    clock.advance(60)
    assert nothing_comes(timer)


@pytest.mark.parametrize("state", ["pending", "fired", "received"])
def test_one_that_nobody_holds_any_more_is_collected(clock, state):
    timer = Timer(clock=clock)
    timer.start(5)
    if state != "pending":
        clock.advance(5)
    if state == "received":
        timer.c.receive_nowait()
    channel = weakref.ref(timer.c)
    gc.disable()
    try:
        del timer
        assert channel() is None
    finally:
        gc.enable()
    clock.advance(5)


def test_one_that_cannot_be_started_is_not_running():
    class Exhausted:
        time = monotonic = staticmethod(SystemClock.monotonic)
        parker = SystemClock.parker

        def call_at(self, *_, **__):
            raise RuntimeError("can't start new thread")

    timer = Timer(clock=Exhausted())
    with pytest.raises(RuntimeError, match="new thread"):
        timer.start(1)
    assert "stopped" in repr(timer)
    assert timer.stop() is False


def test_a_real_timer_fires_and_never_early():
    clock = SystemClock()
    timer = Timer(clock=clock)
    assert timer.c.clock is clock
    for delay in (0, 0.001, 0.004):
        start, wall = clock.monotonic(), clock.time()
        timer.start(delay)
        heard = in_thread(timer.c.receive, PATIENCE).result(PATIENCE)
        assert clock.monotonic() >= start + delay
        assert wall - 1 < heard < clock.time() + 1
    assert nothing_comes(timer)


class Scene:
    """A timer that runs, what two threads do with it, and what became of it."""

    def __init__(self):
        self.clock = TurnedClock()
        self.timer = Timer(clock=self.clock)
        self.timer.start(5)
        [self.first_call] = self.clock.pending

    def stop(self):
        return self.timer.stop()

    def start(self):
        self.timer.start(20)

    def fire(self):
        """Call back as the clock does, unless the call was cancelled before."""
        self.first_call.fire()

    def state(self):
        """Return the delays that run, and what can be received now."""
        received = []
        with suppress(WouldBlock):
            received.append(self.timer.c.receive_nowait())
        return [timer.when - self.clock.now for timer in self.clock.pending], received


RUNS = [20.0], []
NOTHING = [], []
PAIRS = {
    (Scene.stop, Scene.stop): [((True, False), NOTHING), ((False, True), NOTHING)],
    (Scene.fire, Scene.stop): [((None, True), NOTHING), ((None, False), NOTHING)],
    (Scene.stop, Scene.start): [
        ((True, None), NOTHING),
        ((True, None), RUNS),
        ((False, None), RUNS),
    ],
    (Scene.start, Scene.start): [((None, None), RUNS)],
    (Scene.fire, Scene.start): [((None, None), RUNS)],
}


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("order", [1, slow(-1)])
def test_of_two_that_meet_at_a_timer_each_does_its_work(monkeypatch, pair, order):
    """A stop tells whether it prevented the fire; only the last start counts."""
    for scene, outcomes in each_meeting(Scene, pair[::order], monkeypatch):
        assert (outcomes[::order], scene.state()) in PAIRS[pair]

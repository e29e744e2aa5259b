"""Timers: they fire once for each start, and never give the time of a start that is over."""

from __future__ import annotations

import copy
import gc
import math
import pickle
import weakref
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import Channel, SystemClock, Timer, WouldBlock
from backoff_ticker.channels._timer import _TimerBuffer
from tests.channels.ends import drained, error, still_waits, value
from tests.conftest import EPOCH
from tests.helpers import PATIENCE, in_thread
from tests.tickers.made_timers import Fake

if TYPE_CHECKING:
    from collections.abc import Callable

    from backoff_ticker.testing import VirtualClock


def nothing_comes(timer: Timer) -> bool:
    """Whether nothing can be received from ``timer`` now."""
    with pytest.raises(WouldBlock):
        timer.c.receive_nowait()
    return len(timer.c) == 0


@pytest.mark.parametrize("delay", [5, 0.25, timedelta(days=1), 1e6])
def test_it_fires_once_at_its_moment(receivers: Any, clock: VirtualClock, delay: Any) -> None:
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    timer = Timer(clock=clock)
    receiving = receivers.receive(timer.c)
    assert timer.start(delay) is None
    clock.settle()
    clock.advance(seconds - 0.125)
    assert not receiving.done()
    clock.advance(0.125)
    assert value(receiving) == EPOCH + 1000 + seconds
    clock.advance(10 * seconds)
    assert nothing_comes(timer)
    assert clock.pending() == []


def test_no_delay_is_no_wait(receivers: Any, clock: VirtualClock) -> None:
    timer = Timer(clock=clock)
    timer.start(0)
    clock.settle()
    assert value(receivers.receive(timer.c)) == clock.time()
    assert clock.monotonic() == 1000


def test_what_it_tells_is_when_it_fired_not_when_it_was_heard(
    receivers: Any, clock: VirtualClock
) -> None:
    timer = Timer(clock=clock)
    timer.start(5)
    clock.advance(60)
    assert value(receivers.receive(timer.c)) == EPOCH + 1005


@pytest.mark.parametrize("wait", [0, 1, 4.5])
def test_stopped_in_time_it_does_not_fire(receivers: Any, clock: VirtualClock, wait: float) -> None:
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


def test_stopping_what_does_not_run_prevents_nothing(clock: VirtualClock) -> None:
    timer = Timer(clock=clock)
    assert timer.stop() is False
    timer.start(5)
    clock.advance(5)
    timer.c.receive_nowait()
    assert timer.stop() is False


def test_stopped_after_it_fired_it_takes_the_news_back(clock: VirtualClock) -> None:
    timer = Timer(clock=clock)
    timer.start(5)
    clock.advance(5)
    assert timer.stop() is False
    assert nothing_comes(timer)


@pytest.mark.parametrize(("first", "again"), [(5, 20), (20, 5), (5, 5)])
def test_started_again_it_fires_for_the_last_start_only(
    receivers: Any, clock: VirtualClock, first: float, again: float
) -> None:
    timer = Timer(clock=clock)
    timer.start(first)
    clock.advance(2)
    timer.start(again)
    receiving = receivers.receive(timer.c)
    clock.settle()
    clock.advance(again - 0.5)
    assert not receiving.done()
    clock.advance(0.5)
    assert value(receiving) == EPOCH + 1002 + again
    clock.advance(60)
    assert nothing_comes(timer)


def test_started_again_after_it_fired_it_tells_only_the_new_time(clock: VirtualClock) -> None:
    timer = Timer(clock=clock)
    for _ in range(3):
        timer.start(5)
        assert nothing_comes(timer)
        clock.advance(5)
    assert len(timer.c) == 1
    assert timer.c.receive_nowait() == EPOCH + 1015
    assert nothing_comes(timer)


def test_who_waits_for_it_waits_on_through_stop_and_start(
    receivers: Any, clock: VirtualClock
) -> None:
    timer = Timer(clock=clock)
    timer.start(5)
    receiving = receivers.receive(timer.c)
    for step in (timer.stop, lambda: timer.start(3), lambda: timer.start(7)):
        still_waits(clock, receiving)
        step()
    clock.advance(7)
    assert value(receiving) == EPOCH + 1007


def test_stopped_at_its_moment_it_has_fired_or_has_not(clock: VirtualClock) -> None:
    for early in (True, False):
        timer = Timer(clock=clock)
        stopped: list[bool] = []
        moment = clock.monotonic() + 5
        if early:
            clock.call_at(moment, lambda: stopped.append(timer.stop()))
        timer.start(5)
        if not early:
            clock.call_at(moment, lambda: stopped.append(timer.stop()))
        clock.advance(5)
        assert stopped == [early]
        assert nothing_comes(timer)


@pytest.mark.parametrize(
    ("delay", "expected"),
    [
        (None, TypeError),
        ("5", TypeError),
        (True, TypeError),
        (-1, ValueError),
        (math.nan, ValueError),
        (math.inf, ValueError),
        (timedelta(seconds=-1), ValueError),
    ],
)
def test_a_bad_delay_is_named(clock: VirtualClock, delay: Any, expected: type[Exception]) -> None:
    for timer in (Timer(clock=clock), Timer(clock=SystemClock())):
        with pytest.raises(expected, match="delay"):
            timer.start(delay)
        assert timer.stop() is False


@pytest.mark.parametrize("state", ["pending", "fired", "received"])
def test_one_that_nobody_holds_any_more_is_collected(clock: VirtualClock, state: str) -> None:
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


# The real one, a moment long


def test_a_real_timer_fires_and_never_early() -> None:
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


def test_a_real_timer_is_stopped_and_started_again() -> None:
    timer = Timer(clock=SystemClock())
    timer.start(3600)
    timer.start(0.001)
    in_thread(timer.c.receive, PATIENCE).result(PATIENCE)
    timer.start(3600)
    assert timer.stop() is True
    assert timer.stop() is False
    assert nothing_comes(timer)


@pytest.fixture(params=["system", "virtual"])
def timer(request: pytest.FixtureRequest, clock: VirtualClock) -> Any:
    return Timer(clock=SystemClock()) if request.param == "system" else Timer(clock=clock)


def test_a_copy_is_the_timer_itself_and_none_is_pickled(timer: Any) -> None:
    assert copy.copy(timer) is timer
    assert copy.deepcopy([timer]) == [timer]
    assert copy.deepcopy(timer.c) is timer.c
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="a timer .* cannot be pickled"):
            pickle.dumps(timer, protocol)


def test_its_channel_is_always_the_same_and_none_can_be_given_to_it(timer: Any) -> None:
    assert timer.c is timer.c
    with pytest.raises(AttributeError):
        timer.c = Channel()


def test_the_class_of_a_timer_is_none(receivers: Any, clock: VirtualClock) -> None:
    class Shared(Fake):
        c = Channel(1)

    Shared.c.send_nowait(1)
    assert type(error(receivers.select(Shared))) is TypeError
    assert len(Shared.c) == 1


# Others act in the midst of a start or a stop


class MeddlingHandle:
    """The callback of a clock; somebody else acts in the midst of the first cancel."""

    def __init__(self, handle: Any, stopping: Callable[[], object]) -> None:
        self._handle = handle
        self._stopping = stopping

    def cancel(self) -> Any:
        stopping, self._stopping = self._stopping, int
        stopping()
        return self._handle.cancel()


class MeddlingClock:
    """A clock; somebody else acts in the midst of the first start, and of the stop of that."""

    def __init__(
        self,
        clock: VirtualClock,
        starting: Callable[[Callable[[], object]], object] = lambda _: None,
        stopping: Callable[[], object] = int,
    ) -> None:
        self.monotonic, self.time, self.parker = clock.monotonic, clock.time, clock.parker
        self._call_at = clock.call_at
        self._starting = starting
        self._stopping = stopping

    def call_at(self, when: float, callback: Any, *, loop: Any = None) -> Any:
        handle = MeddlingHandle(self._call_at(when, callback, loop=loop), self._stopping)
        starting, self._starting = self._starting, lambda _: None
        starting(callback)
        return handle


def once_decided(patch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Have somebody else act in the midst of the next stop of a start, after it has decided."""
    replace = _TimerBuffer.replace

    def replace_slowly(self: _TimerBuffer, before: Any, after: Any, *time: Any) -> bool:
        was_current = replace(self, before, after, *time)
        if hasattr(before, "fire"):
            patch.undo()
            act()
        return was_current

    patch.setattr(_TimerBuffer, "replace", replace_slowly)


def test_a_stop_in_the_midst_of_a_start_prevents_it(clock: VirtualClock) -> None:
    stopped = []
    timer = Timer(clock=MeddlingClock(clock, lambda _: stopped.append(timer.stop())))
    timer.start(5)
    assert stopped == [True]
    assert clock.pending() == []
    clock.advance(5)
    assert nothing_comes(timer)
    assert not timer.stop()


def test_a_stop_in_the_midst_of_a_start_that_fired_prevents_nothing(clock: VirtualClock) -> None:
    stopped = []

    def fire_and_stop(fire: Callable[[], object]) -> None:
        fire()
        stopped.append(timer.stop())

    timer = Timer(clock=MeddlingClock(clock, fire_and_stop))
    timer.start(0)
    assert stopped == [False]
    assert nothing_comes(timer)


def test_of_two_stops_in_the_midst_of_a_start_one_prevents_it(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[bool] = []
    timer = Timer(clock=MeddlingClock(clock, lambda _: stopped.append(timer.stop())))
    once_decided(monkeypatch, lambda: stopped.append(timer.stop()))
    timer.start(5)
    assert sorted(stopped) == [False, True]
    assert clock.pending() == []


def test_a_timer_that_is_due_as_it_is_stopped_fires_or_is_stopped(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    timer = Timer(clock=MeddlingClock(clock, lambda fire: once_decided(monkeypatch, fire)))
    timer.start(5)
    assert timer.stop()
    assert nothing_comes(timer)


def test_of_two_starts_at_once_one_counts(clock: VirtualClock) -> None:
    timer = Timer(clock=MeddlingClock(clock, lambda _: timer.start(20)))
    timer.start(5)
    assert len(clock.pending()) == 1
    clock.advance(5)
    assert nothing_comes(timer)
    clock.advance(15)
    assert timer.c.receive_nowait() == clock.time()
    assert not timer.stop()


def test_a_start_in_the_midst_of_a_stop_counts(clock: VirtualClock) -> None:
    timer = Timer(clock=MeddlingClock(clock, stopping=lambda: timer.start(20)))
    timer.start(5)
    timer.stop()
    clock.advance(5)
    assert nothing_comes(timer)
    clock.advance(15)
    assert timer.c.receive_nowait() == clock.time()


@pytest.mark.parametrize("act", ["stop", "start"])
def test_a_time_is_dropped_if_its_start_is_over_before_it_is_sent(
    clock: VirtualClock, act: str
) -> None:
    """A fire reads the time; in the midst of that the timer is stopped, or started again."""

    class LateClock(MeddlingClock):
        def __init__(self) -> None:
            super().__init__(clock)
            self.time = self.slow_time

        def slow_time(self) -> float:
            del self.time
            self.time = clock.time
            assert timer.stop() if act == "stop" else timer.start(60) is None
            return clock.time()

    timer = Timer(clock=LateClock())
    timer.start(5)
    clock.advance(5)
    with pytest.raises(WouldBlock):
        timer.c.receive_nowait()
    clock.advance(60)
    assert drained(timer.c) == ([clock.time()] if act == "start" else [])

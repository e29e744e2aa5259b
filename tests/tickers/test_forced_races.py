"""Interleavings of a ticker's readers that chance seldom makes, forced by a policy or a pause."""

from __future__ import annotations

import queue
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    STOP,
    CancellationToken,
    Channel,
    ConstantBackOff,
    SystemClock,
    Ticker,
    TickerClosed,
    WouldBlock,
    select,
)
from tests.helpers import PATIENCE, Flag, eventually, in_thread
from tests.stress.tools import Gate, Hooked

if TYPE_CHECKING:
    from collections.abc import Callable

    from backoff_ticker.testing import VirtualClock

HOUR = 3600.0


class ClockGate:
    """A ``Gate`` on the current clock: who stands before it waits on that."""

    def __init__(self) -> None:
        self._reached = Flag()
        self._open = Flag()

    def stand(self) -> None:
        self._reached.set()
        self._open.wait()

    def wait_until_reached(self) -> None:
        self._reached.wait()

    def open(self) -> None:
        self._open.set()


def test_an_interrupt_in_the_policy_wakes_the_reader_who_found_the_tick_claimed(
    clock: VirtualClock,
) -> None:
    gate = ClockGate()

    def interrupt_once(asked: int) -> None:
        if asked == 1:
            gate.stand()
            raise KeyboardInterrupt

    ticker = Ticker(Hooked(HOUR, interrupt_once), clock=clock)
    interrupted = in_thread(ticker.receive)
    gate.wait_until_reached()
    other = in_thread(ticker.receive)
    clock.settle()
    gate.open()
    with pytest.raises(KeyboardInterrupt):
        interrupted.result(PATIENCE)
    assert other.result(PATIENCE).number == 1


def test_a_note_worked_off_by_a_reader_leaves_somebody_who_watches_the_time(
    clock: VirtualClock,
) -> None:
    """One thread leaves a note, a second works it off, a third finds the tick claimed and waits."""
    left, working = ClockGate(), ClockGate()

    class Paused(Ticker):
        def _settle(self) -> None:
            if threading.current_thread() is author:
                left.stand()
            super()._settle()

    def hold() -> None:
        if armed:
            working.stand()

    armed: list[bool] = []
    ticker = Paused(Hooked(1.0, lambda _: None, on_reset=hold), clock=clock)
    author = threading.Thread(target=ticker.success, daemon=True)
    ticker.receive()
    armed.append(True)
    author.start()
    left.wait_until_reached()
    second = in_thread(ticker.receive)
    working.wait_until_reached()
    left.open()
    author.join(PATIENCE)
    third = in_thread(ticker.receive)
    clock.settle()
    armed.clear()
    working.open()
    clock.advance(1.0)
    assert sorted([second.done(), third.done()]) == [False, True]
    ticker.stop()


def test_no_tick_that_was_due_before_a_reset_is_received_after_it() -> None:
    gate = Gate()
    ticker = Ticker(Hooked(0.0, lambda asked: gate.stand() if asked == 2 else None))
    ticker.receive()
    reader = in_thread(ticker.receive)
    gate.wait_until_reached()
    began = time.monotonic()
    ticker.reset(ConstantBackOff(0.05))
    gate.open()
    tick = reader.result(PATIENCE)
    assert (tick.number, tick.delay) == (2, 0.05)
    assert tick.due >= began + 0.05


class EndsOnce:
    """A policy that stands at a gate when a reader asks it for the second tick, and then ends."""

    ends_at = 2  # the first reader asks for it, too

    def __init__(self) -> None:
        self.asked = 0
        self.asking = Gate()

    def __copy__(self) -> EndsOnce:
        return self

    def next_backoff(self) -> Any:
        self.asked += 1
        if self.asked != self.ends_at:
            return 0.0
        self.asking.stand()
        return STOP

    def reset(self) -> None: ...


class EndsOnceWithFeedback(EndsOnce):
    ends_at = 1

    def success(self) -> Any:
        return self.next_backoff()

    failure = success


@pytest.mark.parametrize("kind", [EndsOnce, EndsOnceWithFeedback])
def test_a_reset_while_the_policy_is_asked_prevails_over_its_end(kind: type[EndsOnce]) -> None:
    policy = kind()
    asking = policy.asking
    ticker = Ticker(policy)
    ticker.receive()
    reader = in_thread(ticker.receive)
    asking.wait_until_reached()
    ticker.reset()
    asking.open()
    assert reader.result(PATIENCE).number == 2
    assert not ticker.closed


class Disturbing(Channel[Any]):
    """A channel that calls a function as a ``select`` that has taken a tick leaves it."""

    def __init__(self, disturb: Callable[[], object]) -> None:
        super().__init__()
        self.disturb = [disturb]

    def _pass_on_wakeup(self) -> None:
        super()._pass_on_wakeup()
        if self.disturb:
            self.disturb.pop()()


def select_disturbed(clock: VirtualClock, ticker: Ticker, disturb: Callable[[], object]) -> Any:
    """Start a ``select`` that waits for the second tick, takes it, and is disturbed."""
    ticker.receive()
    selected = in_thread(select, ticker, Disturbing(disturb))
    clock.settle()
    clock.advance(HOUR)
    return selected


def test_a_select_interrupted_after_a_reset_gives_no_tick_back(clock: VirtualClock) -> None:
    def disturb() -> None:
        ticker.reset()
        raise KeyboardInterrupt

    ticker = Ticker(ConstantBackOff(HOUR), clock=clock)
    selected = select_disturbed(clock, ticker, disturb)
    with pytest.raises(KeyboardInterrupt):
        selected.result(PATIENCE)
    with pytest.raises(WouldBlock):
        ticker.receive_nowait()
    clock.advance(HOUR)
    assert ticker.receive_nowait().number == 2


@pytest.mark.parametrize("what", ["reset", "stop", "cancel"])
def test_a_select_that_had_taken_its_tick_returns_it(clock: VirtualClock, what: str) -> None:
    token = CancellationToken()
    ticker = Ticker(ConstantBackOff(HOUR), clock=clock, token=token)
    selected = select_disturbed(
        clock, ticker, token.cancel if what == "cancel" else getattr(ticker, what)
    )
    source, tick = selected.result(PATIENCE)
    assert (source, tick.number) == (ticker, 2)
    if what == "reset":
        clock.advance(HOUR)
        assert ticker.receive_nowait().number == 3
    else:
        with pytest.raises(TickerClosed):
            ticker.receive()


def test_a_sender_that_is_stopped_gives_back_the_tick_that_a_reset_made_due(
    clock: VirtualClock,
) -> None:
    """The reset comes as the sender looks for a tick, so it takes the one that the reset brings."""

    class Disturbed(Ticker):
        def _poll(self, *, first_poll: bool = True) -> Any:
            if armed:
                armed.pop()()
                self.reset(immediately=True)
            return super()._poll(first_poll=first_poll)

    armed: list[Callable[[], object]] = []
    ticker = Disturbed(ConstantBackOff(HOUR), clock=clock)
    ticker.receive()
    push = ticker.send_to(queue.SimpleQueue())
    armed.append(push.stop)
    clock.settle()
    assert armed == []
    tick = ticker.receive_nowait()
    assert (tick.number, tick.delay) == (2, 0.0)


def test_the_first_timer_of_a_sender_that_is_stopped_as_it_is_set_is_cancelled() -> None:
    class Stopping:
        monotonic = staticmethod(time.monotonic)
        time = staticmethod(time.time)
        parker = staticmethod(SystemClock().parker)

        def __init__(self) -> None:
            self.timers: list[Any] = []

        def call_at(self, when: float, callback: Any, *, loop: Any = None) -> Any:
            timer = SystemClock().call_at(when, callback, loop=loop)
            self.timers.append(timer)
            if when > time.monotonic() + HOUR / 2:
                pushes[0].stop()
            return timer

    clock: Any = Stopping()
    ticker = Ticker(ConstantBackOff(HOUR), clock=clock)
    go_on = threading.Event()

    class Sink:
        def put_nowait(self, _: object) -> None:
            go_on.wait(PATIENCE)

    pushes = [ticker.send_to(Sink())]
    go_on.set()
    eventually(lambda: len(clock.timers) > 1, "it has set its timer")
    eventually(lambda: all(timer.spent for timer in clock.timers), "no timer is left")


# Many threads at the same change


def test_a_tick_given_back_after_a_reset_is_dropped_even_if_its_reader_saw_the_new_epoch() -> None:
    ticker = Ticker(ConstantBackOff(HOUR))
    ticker.reset(immediately=True)
    old = ticker.receive()
    ticker.reset(immediately=True)
    ticker._put_back(old)
    new = ticker.receive()
    assert (new.number, new.due > old.due) == (1, True)
    with pytest.raises(WouldBlock):
        ticker.receive_nowait()

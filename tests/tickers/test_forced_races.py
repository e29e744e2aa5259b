"""Interleavings of a ticker's readers that chance seldom makes, forced by a policy or a pause."""

from __future__ import annotations

import gc
import queue
import threading
from typing import Any

import pytest

from backoff_ticker import (
    STOP,
    CancellationToken,
    Channel,
    CloseReason,
    ConstantBackOff,
    StopBackOff,
    Ticker,
    TickerClosed,
    WouldBlock,
    ZeroBackOff,
    select,
)
from tests.channels.ends import value_after
from tests.helpers import PATIENCE, Flag, collect_garbage, in_thread
from tests.interleaving import each_meeting
from tests.tickers.made_policies import Blocking, Scripted, nothing_is_due

HOUR = 3600.0


@pytest.mark.parametrize("call", ["receive", "reset"])
def test_an_interrupt_in_the_policy_wakes_the_reader_who_found_the_tick_claimed(face, clock, call):
    policy = Blocking(KeyboardInterrupt(), then=HOUR)
    ticker = face.ticker(policy, clock=clock)
    interrupted = in_thread(ticker.receive_nowait if call == "receive" else ticker.reset)
    policy.entered.wait()
    other = face.start_receive(ticker)
    clock.settle()
    policy.release.set()
    with pytest.raises(KeyboardInterrupt):
        interrupted.result(PATIENCE)
    clock.advance(HOUR)
    assert other.result(PATIENCE).number == 1


def test_a_note_worked_off_by_a_reader_leaves_somebody_who_watches_the_time(clock):
    """One thread leaves a note, a second works it off, a third finds the tick claimed and waits."""
    left, go_on, working, end = (Flag() for _ in range(4))

    class Paused(Ticker):
        def _settle(self):
            if threading.current_thread() is author:
                left.set()
                go_on.wait()
            super()._settle()

    class Held(Scripted):
        def reset(self):
            if armed:
                working.set()
                end.wait()

    armed = []
    ticker = Paused(Held(then=1.0), clock=clock)
    author = threading.Thread(target=ticker.success, daemon=True)
    ticker.receive()
    armed.append(True)
    author.start()
    left.wait()
    second = in_thread(ticker.receive)
    working.wait()
    go_on.set()
    author.join(PATIENCE)
    third = in_thread(ticker.receive)
    clock.settle()
    armed.clear()
    end.set()
    clock.advance(1.0)
    assert sorted([second.done(), third.done()]) == [False, True]
    ticker.stop()


class BlockingFeedback(Blocking):
    def success(self):
        return self.next_backoff()

    failure = success


@pytest.mark.parametrize(("kind", "answers"), [(Blocking, [0.0, STOP]), (BlockingFeedback, [STOP])])
def test_a_reset_while_the_policy_is_asked_prevails_over_its_end(clock, kind, answers):
    policy = kind(*answers, then=0.0)
    policy.release.set()
    ticker = Ticker(policy, clock=clock)
    ticker.receive_nowait()
    policy.block()
    reader = in_thread(ticker.receive)
    policy.entered.wait()
    ticker.reset()
    policy.release.set()
    assert reader.result(PATIENCE).number == 2
    assert not ticker.closed


class Disturbing(Channel[Any]):
    """A channel that calls a function as a ``select`` that has taken a tick leaves it."""

    def __init__(self, disturb):
        super().__init__()
        self.disturb = [disturb]

    def _pass_on_wakeup(self):
        super()._pass_on_wakeup()
        if self.disturb:
            self.disturb.pop()()


def select_disturbed(clock, ticker, disturb):
    """Start a ``select`` that waits for the second tick, takes it, and is disturbed."""
    ticker.receive()
    selected = in_thread(select, ticker, Disturbing(disturb))
    clock.settle()
    clock.advance(HOUR)
    return selected


def test_a_select_interrupted_after_a_reset_gives_no_tick_back(clock):
    def disturb():
        ticker.reset()
        raise KeyboardInterrupt

    ticker = Ticker(ConstantBackOff(HOUR), clock=clock)
    selected = select_disturbed(clock, ticker, disturb)
    with pytest.raises(KeyboardInterrupt):
        selected.result(PATIENCE)
    nothing_is_due(ticker)
    clock.advance(HOUR)
    assert ticker.receive_nowait().number == 2


@pytest.mark.parametrize("what", ["reset", "stop", "cancel"])
def test_a_select_that_had_taken_its_tick_returns_it(clock, what):
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


def test_a_sender_that_is_stopped_gives_back_the_tick_that_a_reset_made_due(clock):
    """The reset comes as the sender looks for a tick, so it takes the one that the reset brings."""

    class Disturbed(Ticker):
        def _poll(self, *, first_poll=True):
            if armed:
                armed.pop()()
                self.reset(immediately=True)
            return super()._poll(first_poll=first_poll)

    armed = []
    ticker = Disturbed(ConstantBackOff(HOUR), clock=clock)
    ticker.receive()
    push = ticker.send_to(queue.SimpleQueue())
    armed.append(push.stop)
    clock.settle()
    assert armed == []
    tick = ticker.receive_nowait()
    assert (tick.number, tick.delay) == (2, 0.0)


# Ticks that are given back


def test_a_tick_given_back_after_a_reset_is_dropped_even_if_its_reader_saw_the_new_epoch():
    ticker = Ticker(ConstantBackOff(HOUR))
    ticker.reset(immediately=True)
    old = ticker.receive()
    ticker.reset(immediately=True)
    ticker._put_back(old)
    new = ticker.receive()
    assert (new.number, new.due > old.due) == (1, True)
    nothing_is_due(ticker)


class MeddlingParker:
    """A parker that calls its clock's ``meddle`` once, after it woke its thread."""

    def __init__(self, clock, parker):
        self.park = parker.park
        self._clock = clock
        self._unpark = parker.unpark

    def unpark(self):
        self._unpark()
        meddle, self._clock.meddle = self._clock.meddle, None
        if meddle is not None:
            meddle()


class MeddlingClock:
    """A virtual clock as a ticker sees it: wake-ups meddle, and due calls come in a new thread."""

    def __init__(self, clock):
        self.monotonic = clock.monotonic
        self.time = clock.time
        self.meddle = None
        self._clock = clock

    def call_at(self, when, callback, *, loop=None):
        return self._clock.call_at(when, lambda: self._clock.spawn(callback), loop=loop)

    def parker(self, what=""):
        return MeddlingParker(self, self._clock.parker(what))


def test_a_tick_that_a_sender_gives_back_wakes_a_reader_that_found_it_taken(clock):
    """The reader looks again as soon as the claim is let go, and finds nothing yet."""
    meddling = MeddlingClock(clock)
    policy = Blocking()
    policy.release.set()
    sink = queue.SimpleQueue()
    ticker = Ticker(policy, clock=meddling)
    forwarding = ticker.send_to(sink)
    clock.settle()
    policy.block()
    clock.advance(10)
    assert policy.entered.is_set()
    waiting = in_thread(ticker.receive)
    clock.settle()
    forwarding.stop()
    looked = Flag()
    meddling.meddle = looked.wait
    policy.release.set()
    clock.settle()
    assert [timer.when for timer in clock.pending()] == [1020]
    looked.set()
    assert waiting.result(PATIENCE).number == 2
    assert (sink.get_nowait().number, sink.qsize()) == (1, 0)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_reset_that_drops_ticks_given_back_leaves_no_gap_in_the_numbers(count):
    ticker = Ticker(ZeroBackOff())
    for tick in [ticker.receive() for _ in range(count)][::-1]:
        ticker._put_back(tick)
    ticker.failure()  # says nothing to this policy, but has them given back now
    ticker.reset(immediately=True)
    assert ticker.receive().number == 1


def test_a_tick_that_was_taken_before_a_reset_is_received_and_the_next_comes_after_it(clock):
    """The reset comes after the taking, while the next reader is being woken."""
    meddling = MeddlingClock(clock)
    ticker = Ticker(ConstantBackOff(10), clock=meddling)
    assert ticker.receive_nowait().number == 1
    waiting = in_thread(ticker.receive)
    clock.settle()
    with clock.trap("monotonic") as trap:
        ticker.failure()  # changes nothing, but has the reader look again
        trap.wait()
        clock.advance(10)
        meddling.meddle = lambda: [clock.advance(1), ticker.reset()]
        assert ticker.receive_nowait().number == 2
    clock.settle()
    tick = value_after(clock, 10, waiting)
    assert (tick.number, tick.due) == (3, 1021)


@pytest.mark.parametrize(
    ("resets", "comes"),
    [((), True), ((False,), False), ((True,), True), ((False, True), True), ((True, False), False)],
)
@pytest.mark.parametrize("given_back", [False, True])
def test_a_first_tick_that_waits_or_was_given_back_comes_in_spite_of_a_cancel(
    clock, resets, comes, given_back
):
    token = CancellationToken(clock=clock)
    ticker = Ticker(ZeroBackOff(), token=token, clock=clock)
    for immediately in resets:
        ticker.reset(immediately=immediately)
    if given_back:
        ticker._put_back(ticker.receive())
    token.cancel()
    if comes or given_back:
        assert ticker.receive().number == 1
    with pytest.raises(TickerClosed) as caught:
        ticker.receive()
    assert caught.value.reason is CloseReason.CANCELLED


@pytest.mark.slow
def test_the_last_tick_that_was_given_back_comes_while_another_thread_tells_the_ticker_something(
    monkeypatch,
):
    def make():
        ticker = Ticker(StopBackOff())
        ticker._put_back(ticker.receive())
        return ticker

    def receive_nowait(ticker):
        try:
            return ticker.receive_nowait().number
        except WouldBlock:
            return None

    for ticker, (told, number) in each_meeting(make, [Ticker.failure, receive_nowait], monkeypatch):
        assert told is None
        assert (number or receive_nowait(ticker)) == 1
        with pytest.raises(TickerClosed, match="exhausted"):
            ticker.receive()


# Finalizers: CPython 3.11 collects wherever it allocates


class Stopping:
    """Garbage that comes again: each collection stops a ticker with the same claim."""

    def __init__(self, ticker: Ticker) -> None:
        self.ticker = ticker
        self.itself = self

    def __del__(self) -> None:
        self.ticker.stop()
        if self.ticker.is_used:
            Stopping(self.ticker)


class SharingTicker(Ticker):
    is_used = True


def test_no_garbage_is_collected_while_a_ticker_notes_what_it_is_told():
    told, stopped = Ticker(ConstantBackOff(1)), SharingTicker(ConstantBackOff(1))
    stopped._readers.claim = told._readers.claim
    thresholds = gc.get_threshold()
    Stopping(stopped)
    gc.set_threshold(1)
    try:
        for _ in range(50):
            told.success()
            told.reset()
    finally:
        stopped.is_used = False
        gc.set_threshold(*thresholds)
    collect_garbage()
    assert stopped.closed
    assert not told.closed

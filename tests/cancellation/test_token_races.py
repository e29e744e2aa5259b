"""Races of tokens that chance seldom makes, forced."""

import gc
import os
import signal
import threading
import time
import weakref
from itertools import islice

import pytest

from backoff_ticker import (
    CancellationToken,
    SystemClock,
    Ticker,
    TickerClosed,
    ZeroBackOff,
    any_of,
)
from tests.effort import rounds
from tests.helpers import (
    PATIENCE,
    collect_garbage,
    eventually,
    in_thread,
    waiters_of,
)
from tests.stress.tools import (
    Finalized,
    gc_threshold,
    signal_storm,
    start_threads,
)

HOUR = 3600.0


def test_a_collection_at_any_moment_of_a_cancel_hides_no_child_from_it():
    """It takes other children out of the dict; CPython 3.11 collects while it copies one."""
    held = []
    for allocations in range(80):
        gc.collect()
        with gc_threshold(0):
            root, left = CancellationToken(), []
            for number in range(9):
                cycle = [root.child()]
                cycle.append(cycle)
                if number % 3:
                    left.append(cycle[0])
            del cycle
            now = gc.get_count()[0]
        with gc_threshold(now + 100 + allocations):
            held.append([{} for _ in range(100)])  # or the next dict would need no allocation
            root.cancel()
        assert [each for each in left if not each.cancelled] == []


@pytest.fixture
def on_usr1():
    """Sets what SIGUSR1 does in the main thread."""
    before = signal.getsignal(signal.SIGUSR1)
    yield lambda run: signal.signal(signal.SIGUSR1, lambda *_: run()) and None
    signal.signal(signal.SIGUSR1, before)


def _signal_when(condition):
    """Send SIGUSR1 from another thread as soon as ``condition`` holds."""

    def send():
        eventually(condition)
        os.kill(os.getpid(), signal.SIGUSR1)

    threading.Thread(target=send, daemon=True).start()


class _LookedAtClock:
    """System time; ``hook`` runs after each look at it."""

    def __init__(self):
        self.hook = None
        self.time = time.time
        self.call_at = SystemClock().call_at
        self.parker = SystemClock().parker

    def monotonic(self):
        now = time.monotonic()
        if self.hook is not None:
            self.hook()
        return now


@pytest.mark.parametrize("make", [lambda token: token, any_of], ids=["child", "any_of"])
def test_no_tick_comes_once_a_token_with_a_deadline_was_cancelled(make):
    """The cancel comes while the reader compares the time with the deadline, at each look."""
    late = []
    for look in range(1, 8):
        clock = _LookedAtClock()
        token = make(CancellationToken(clock=clock).child(timeout=HOUR))
        ticker = Ticker(ZeroBackOff(), token=token, clock=clock)
        ticker.receive()
        looks = []
        cancelled_at = []

        def hook():
            looks.append(1)
            if len(looks) == look and not cancelled_at:
                cancelled_at.append(look)
                in_thread(token.cancel).result(PATIENCE)

        clock.hook = hook
        try:
            number = ticker.receive().number
        except TickerClosed:
            continue
        if cancelled_at:
            late.append((look, number))
    assert late == []


@pytest.mark.parametrize("where", ["in the handler", "in another thread meanwhile"])
def test_a_signal_handler_that_holds_up_the_main_thread_holds_up_no_other_waiter(on_usr1, where):
    """The main thread waits first, and cannot leave before its handler ends."""
    token = CancellationToken()
    workers = []
    ended = []

    def cancel_and_join():
        token.cancel() if where == "in the handler" else in_thread(token.cancel)
        for worker in workers:
            worker.join(PATIENCE)
        ended.append([worker.is_alive() for worker in workers])

    def join_the_line():
        eventually(lambda: len(waiters_of(token._wait_set())) == 1, "the main thread waits")
        workers.extend(start_threads(3, lambda _: token.wait()))

    on_usr1(cancel_and_join)
    threading.Thread(target=join_the_line, daemon=True).start()
    _signal_when(lambda: len(workers) == 3 and len(waiters_of(token._wait_set())) == 4)
    assert token.wait(PATIENCE)
    assert ended == [[False, False, False]]


# From signal handlers and finalizers: never a hang

SIGNALS = rounds(200, 5000)


def test_signals_cancel_and_stop_while_the_main_thread_does_the_same():
    tokens = []
    tickers = []
    won = []
    called = []

    def handler():
        for token in tokens[-2:]:
            won.append(token.cancel("handler"))
        for ticker in tickers[-2:]:
            ticker.stop()

    made = 0
    with signal_storm(lambda _: handler()) as handled:
        while len(handled) < SIGNALS:
            made += 1
            token = CancellationToken()
            tokens.append(token)
            child = token.child(timeout=3600)
            child.on_cancel(lambda: called.append(1))
            ticker = Ticker(ZeroBackOff(), token=child)
            tickers.append(ticker)
            for _ in islice(ticker, 3):
                pass
            won.append(token.cancel("main"))
            ticker.stop()
            del tokens[:-2], tickers[:-2]
    assert sum(won) == made
    assert len(called) == made


@pytest.mark.parametrize("threshold", [1, 3, 7])
def test_finalizers_cancel_and_stop_wherever_a_collection_runs(threshold):
    won = []
    called = []
    stopped = []
    count = rounds(30, 600)

    def finalize(token, ticker):
        won.append(token.cancel("finalizer"))
        ticker.stop()
        stopped.append(1)

    def one_round():
        token = CancellationToken()
        ticker = Ticker(ZeroBackOff(), token=token)
        token.child(timeout=3600).on_cancel(lambda: called.append(1))
        Finalized(lambda: finalize(token, ticker))
        weakref.finalize(Finalized(int), token.child().cancel)
        for _ in islice(ticker, 3):
            pass
        won.append(token.cancel("main"))
        ticker.stop()

    with gc_threshold(threshold):
        for _ in range(count):
            one_round()
    collect_garbage()
    assert len(stopped) == count
    assert (sum(won), len(called)) == (count, count)

"""Races of tokens that chance seldom makes, forced."""

import gc
import os
import signal
import threading
from contextlib import suppress
from itertools import islice

import pytest

from backoff_ticker import CancellationToken, Ticker, TickerClosed, ZeroBackOff, any_of
from tests.helpers import PATIENCE, eventually, in_thread, waiters_of
from tests.stress.places import check_each_place
from tests.stress.tools import gc_threshold, start_threads
from tests.tickers.made_timers import MeddlingClock

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


@pytest.mark.parametrize("make", [lambda token: token, any_of], ids=["child", "any_of"])
def test_no_tick_comes_once_a_token_with_a_deadline_was_cancelled(make):
    """The cancel comes while the reader compares the time with the deadline, at each look."""
    for look in range(7):
        clock = MeddlingClock()
        token = make(CancellationToken(clock=clock).child(timeout=HOUR))
        ticker = Ticker(ZeroBackOff(), token=token, clock=clock)
        ticker.receive_nowait()
        clock.meddlers = [int] * look + [token.cancel]
        with suppress(TickerClosed):
            ticker.receive_nowait()
            assert clock.meddlers, f"a tick although a cancel came at look {look + 1}"


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


def test_a_handler_at_each_place_cancels_and_stops_what_the_main_thread_does():
    def run(interrupt):
        tokens, tickers, won, called = [], [], [], []

        def handle():
            won.extend([token.cancel("handler") for token in tokens])
            for ticker in tickers:
                ticker.stop()

        interrupt.handler = handle
        with interrupt:
            tokens.append(token := CancellationToken())
            child = token.child(timeout=HOUR)
            child.on_cancel(lambda: called.append(1))
            tickers.append(ticker := Ticker(ZeroBackOff(), token=child))
            for _ in islice(ticker, 3):
                pass
            won.append(token.cancel("main"))
            ticker.stop()
        return [] if (sum(won), called) == (1, [1]) else [(won, called)]

    check_each_place(run, at_least=20)

"""cancel(), stop() and their kin from signal handlers, finalizers and callbacks: never a hang."""

from __future__ import annotations

import weakref
from itertools import islice
from typing import Any

import pytest

from backoff_ticker import CancellationToken, ConstantBackOff, Ticker, ZeroBackOff
from backoff_ticker.clock._system import scheduler
from tests.effort import rounds
from tests.helpers import PATIENCE, collect_garbage, eventually, in_thread
from tests.stress.tools import (
    Finalized,
    fast_switching,
    gc_threshold,
    join_all,
    signal_storm,
    start_threads,
)

SIGNALS = rounds(200, 5000)


def test_signals_cancel_and_stop_while_the_main_thread_does_the_same() -> None:
    tokens: list[CancellationToken] = []
    tickers: list[Ticker] = []
    won: list[bool] = []
    called: list[int] = []

    def handler() -> None:
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


def test_signals_that_cancel_end_the_wait_they_interrupt() -> None:
    current: list[Any] = []

    def handler() -> None:
        if current:
            current[0]()

    made = 0
    with signal_storm(lambda _: handler()) as handled:
        while len(handled) < rounds(20, 600):
            made += 1
            token = CancellationToken()
            ticker = Ticker(ConstantBackOff(0.05), token=token)
            ticker.receive()
            current[:] = [token.cancel if made % 2 else ticker.stop]
            list(ticker)
            current.clear()
    assert made > 0


@pytest.mark.parametrize("threshold", [1, 2, 3, 5, 7])
def test_finalizers_cancel_and_stop_wherever_a_collection_runs(threshold: int) -> None:
    won: list[bool] = []
    called: list[int] = []
    stopped: list[int] = []
    count = rounds(30, 600)
    entries = len(scheduler)

    def finalize(token: CancellationToken, ticker: Ticker) -> None:
        won.append(token.cancel("finalizer"))
        ticker.stop()
        stopped.append(1)

    def one_round() -> None:
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
    eventually(lambda: len(scheduler) < entries + 200, "the entries are swept")


def test_finalizers_meet_other_threads_that_read_and_cancel() -> None:
    ended: list[int] = []
    count = rounds(20, 150)

    def work(_: int) -> None:
        for _ in range(count):
            token = CancellationToken()
            ticker = Ticker(ConstantBackOff(0.0), token=token)
            Finalized(lambda token=token, ticker=ticker: (token.cancel(), ticker.stop()))
            reader = islice(ticker, 5)
            list(reader)
            in_time = token.child(timeout=60)
            in_time.on_cancel(lambda: ended.append(1))
            token.cancel()

    with gc_threshold(3), fast_switching():
        join_all(start_threads(4, work))
    collect_garbage()
    assert len(ended) == 4 * count


def test_callbacks_cancel_stop_add_and_remove() -> None:
    calls: list[str] = []
    token = CancellationToken()
    count = rounds(300, 3000)
    for _ in range(count):
        other = CancellationToken()
        ticker = Ticker(ConstantBackOff(3600), token=other)
        removed = token.on_cancel(lambda: calls.append("removed"))

        def callback(other: Any = other, ticker: Any = ticker, removed: Any = removed) -> None:
            calls.append("ran")
            ticker.stop()
            other.cancel(token.cause)
            removed.remove()
            token.on_cancel(lambda: calls.append("late"))

        token.on_cancel(callback)
        other.on_cancel(lambda: calls.append("other"))
    won = in_thread(token.cancel, "first").result(PATIENCE)
    assert won
    assert (calls.count("ran"), calls.count("late"), calls.count("other")) == (count, count, count)
    assert calls.count("removed") <= count
    assert token.cause == "first"


def test_callbacks_may_cancel_their_own_token_however_many_there_are() -> None:
    token = CancellationToken()
    calls: list[int] = []
    for number in range(2000):
        token.on_cancel(lambda number=number: (token.cancel("again"), calls.append(number)))
    assert token.cancel("first")
    assert sorted(calls) == list(range(2000))

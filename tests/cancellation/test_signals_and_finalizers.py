"""``cancel()`` and ``stop()`` from signal handlers and finalizers: never a hang."""

from __future__ import annotations

import weakref
from itertools import islice

import pytest

from backoff_ticker import CancellationToken, Ticker, ZeroBackOff
from tests.effort import rounds
from tests.helpers import collect_garbage
from tests.stress.tools import (
    Finalized,
    gc_threshold,
    signal_storm,
)

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


@pytest.mark.parametrize("threshold", [1, 2, 3, 5, 7])
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

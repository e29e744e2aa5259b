"""Finalizers that use a ticker while it changes: CPython 3.11 collects wherever it allocates."""

from __future__ import annotations

import gc

from backoff_ticker import ConstantBackOff, Ticker
from tests.helpers import collect_garbage


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

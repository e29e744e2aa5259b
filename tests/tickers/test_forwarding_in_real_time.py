"""Sending on system time: the scheduler thread sends."""

from __future__ import annotations

import queue
import sys
from typing import TYPE_CHECKING, Any

from backoff_ticker import CloseReason, ConstantBackOff, Ticker, with_max_retries
from tests.helpers import PATIENCE
from tests.tickers.made_policies import Scripted
from tests.tickers.test_forwarding import ShutdownSink

if TYPE_CHECKING:
    import pytest


def test_ticks_are_sent_in_real_time_too() -> None:
    class Ending(queue.Queue[Any]):
        def shutdown(self, immediate: bool = False) -> None:
            self.put("shutdown")

    sink = Ending()
    ticker = Ticker(with_max_retries(ConstantBackOff(0.001), 20))
    ticker.send_to(sink)
    assert [sink.get(timeout=PATIENCE).number for _ in range(21)] == list(range(1, 22))
    assert sink.get(timeout=PATIENCE) == "shutdown"
    assert ticker.close_reason is CloseReason.EXHAUSTED


def test_an_error_of_the_policy_ends_not_the_thread_that_sends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", shown.append)
    sink = ShutdownSink()
    for error in (SystemExit(), ValueError(), KeyboardInterrupt()):
        Ticker(Scripted(error)).send_to(sink)
    good: queue.SimpleQueue[Any] = queue.SimpleQueue()
    Ticker(with_max_retries(ConstantBackOff(0.001), 5)).send_to(good)
    assert [good.get(timeout=PATIENCE).number for _ in range(6)] == [1, 2, 3, 4, 5, 6]
    assert len(sink.ended) == 3
    assert len(shown) == 3

"""Several threads read a ticker whose timer fires inside ``start``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from backoff_ticker import ConstantBackOff, Tick, Ticker, TickerClosed
from tests.helpers import PATIENCE, in_thread
from tests.ticker.made_timers import Instant

if TYPE_CHECKING:
    from collections.abc import Iterator

TICKS = 3000


@pytest.fixture(autouse=True)
def hurry() -> Iterator[None]:
    """Have threads take turns all the time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_each_tick_has_the_time_that_was_sent_for_it() -> None:
    ticker = Ticker(ConstantBackOff(1), timer=Instant())

    def read() -> list[Tick]:
        ticks = []
        try:
            for tick in ticker:
                ticks.append(tick)
                if tick.number >= TICKS:
                    ticker.stop()
        except TickerClosed:
            pass
        return ticks

    readers = [in_thread(read) for _ in range(4)]
    ticks = sorted(tick for reader in readers for tick in reader.result(PATIENCE))
    assert len(ticks) >= TICKS
    assert [tick.number for tick in ticks] == list(range(1, len(ticks) + 1))
    assert [tick for tick in ticks if tick.number > 1 and tick.time != tick.number - 1] == []

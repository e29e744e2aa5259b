"""Several threads read a ticker whose timer fires inside ``start``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from backoff_ticker import ConstantBackOff, Tick, Ticker, with_max_retries
from tests.helpers import PATIENCE, in_thread
from tests.tickers.made_timers import Instant

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

TICKS = 3000


@pytest.fixture(autouse=True)
def hurry() -> Iterator[None]:
    """Have threads take turns all the time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_each_tick_has_the_time_that_was_sent_for_it() -> None:
    ticker = Ticker(with_max_retries(ConstantBackOff(1), TICKS - 1), timer=Instant())
    readers: list[Future[list[Tick]]] = [in_thread(list, ticker) for _ in range(4)]
    ticks = sorted(tick for reader in readers for tick in reader.result(PATIENCE))
    assert [tick.number for tick in ticks] == list(range(1, TICKS + 1))
    assert [tick for tick in ticks if tick.number > 1 and tick.time != tick.number - 1] == []

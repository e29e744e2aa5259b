"""Thousands of tickers, dropped: objects and threads are back to base."""

from __future__ import annotations

import asyncio
import gc
import queue
import threading
import weakref
from typing import Any

import pytest

from backoff_ticker import AsyncTicker, CancellationToken, ConstantBackOff, Ticker
from tests import effort
from tests.helpers import (
    collect_garbage,
    eventually,
    wait_until_collected,
    waiters_of,
)
from tests.stress.tools import children_of, run_loop

COUNT = effort.rounds(1000, 10_000)


class Base:
    """What there was before; ``check`` says whether it is so again."""

    def __init__(self) -> None:
        collect_garbage()
        self.objects = len(gc.get_objects())
        self.threads = threading.active_count()

    def check(self) -> None:
        def are_gone() -> bool:
            collect_garbage()
            return len(gc.get_objects()) - self.objects < 500

        eventually(are_gone, "the end of all objects")  # the scheduler's thread sweeps its own
        # That thread may have come; it goes when it is idle.
        assert threading.active_count() <= self.threads + 1


@pytest.mark.parametrize("interval", [0.01, 3600.0])
@pytest.mark.parametrize("with_token", [False, True])
@pytest.mark.parametrize("cls", [Ticker, AsyncTicker])
def test_dropped_tickers_leave_nothing(
    cls: Any,
    with_token: bool,
    interval: float,
) -> None:
    token = CancellationToken() if with_token else None
    base = Base()
    gone = []
    for _ in range(COUNT):
        ticker = cls(ConstantBackOff(interval), token=token)
        ticker.receive_nowait()
        gone.append(weakref.ref(ticker))
    del ticker
    assert [ref for ref in gone if ref() is not None] == []
    gone.clear()
    base.check()


def test_tickers_dropped_after_a_wait_that_timed_out_leave_nothing() -> None:
    async def main() -> None:
        token = CancellationToken()

        async def use() -> None:
            ticker = AsyncTicker(ConstantBackOff(3600), token=token.child())
            await ticker.receive()
            with pytest.raises(TimeoutError):
                await ticker.receive(timeout=0.001)

        for _ in range(COUNT // 500):
            await asyncio.gather(*(use() for _ in range(500)))
        collect_garbage()
        await asyncio.sleep(0)
        assert waiters_of(token._wait_set()) == []
        assert children_of(token) == 0

    base = Base()
    run_loop(main())
    base.check()


@pytest.mark.parametrize("end", ["stop the sending", "stop the ticker", "cancel"])
def test_tickers_whose_sending_ended_leave_nothing(end: str) -> None:
    token = CancellationToken()
    base = Base()
    tickers = []
    for _ in range(COUNT // 500):
        started = []
        for _ in range(500):
            own = token.child()
            ticker = Ticker(ConstantBackOff(3600), token=own)
            push = ticker.send_to(queue.SimpleQueue())
            started.append((ticker, push, own))
        for ticker, push, own in started:
            if end == "stop the sending":
                push.stop()
            elif end == "cancel":
                own.cancel()
            else:
                ticker.stop()
            tickers.append(weakref.ref(ticker))
        del started, ticker, push, own
    wait_until_collected(*tickers)
    tickers.clear()
    base.check()


def test_a_reader_that_waits_for_tick_after_tick_leaves_no_object() -> None:
    """Else thousands of readers would make the interpreter collect garbage again and again."""

    async def main() -> list[int]:
        counts = []
        async for tick in AsyncTicker(ConstantBackOff(0.0001)):
            if tick.number in (10, 60):
                collect_garbage()
                counts.append(len(gc.get_objects()))
            if tick.number == 60:
                break
        return counts

    # What other threads make meanwhile counts, too; what a reader leaves is left each time.
    assert min(after - before for before, after in (asyncio.run(main()) for _ in range(3))) <= 0

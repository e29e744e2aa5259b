"""Ticks on queues that an event loop reads: ``ticker.queue()`` on janus, and ``asyncio.Queue``."""

from __future__ import annotations

import asyncio
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import janus
import pytest

from backoff_ticker import CloseReason, ConstantBackOff, Ticker, with_max_retries
from tests.helpers import PATIENCE, LoopThread, in_thread
from tests.stress.tools import Hooked
from tests.tickers.made_policies import Scripted
from tests.tickers.test_forwarding import EITHER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backoff_ticker.testing import VirtualClock


@contextmanager
def a_loop() -> Iterator[LoopThread]:
    made = LoopThread()
    yield made
    made.close()
    assert made.errors == []


@pytest.fixture
def loop(clock: VirtualClock) -> Iterator[LoopThread]:
    with a_loop() as made:
        yield made


# ticker.queue()


@EITHER
def test_threads_read_the_sync_side(clock: VirtualClock, kind: Any) -> None:
    ticker = kind(with_max_retries(ConstantBackOff(10), 2), clock=clock)
    ticks = ticker.queue()
    assert isinstance(ticks, janus.Queue)
    assert ticks.maxsize == 1
    clock.settle()
    for number in (1, 2, 3):
        assert ticks.sync_q.get(timeout=PATIENCE).number == number
        clock.advance(10)
    with pytest.raises(janus.SyncQueueShutDown):
        ticks.sync_q.get(timeout=PATIENCE)
    assert ticker.close_reason is CloseReason.EXHAUSTED


@EITHER
def test_a_loop_reads_the_async_side(loop: LoopThread, clock: VirtualClock, kind: Any) -> None:
    ticker = kind(with_max_retries(ConstantBackOff(10), 5), clock=clock)
    ticks = ticker.queue(0)

    async def read() -> list[int]:
        numbers = []
        try:
            while True:
                numbers.append((await ticks.async_q.get()).number)
        except janus.AsyncQueueShutDown:
            await ticks.aclose()
        return numbers

    reading = loop.submit(read())
    clock.advance(49)
    assert not reading.done()
    clock.advance(1)
    assert reading.result(PATIENCE) == [1, 2, 3, 4, 5, 6]


# asyncio.Queue, and the async side of a janus queue of one's own


@EITHER
@pytest.mark.parametrize("make", ["asyncio", "janus"])
def test_a_queue_of_a_loop_is_served_in_that_loop(
    loop: LoopThread, clock: VirtualClock, kind: Any, make: str
) -> None:
    threads = set()
    ticker = kind(with_max_retries(ConstantBackOff(10), 3), clock=clock)

    async def begin() -> Any:
        owner = asyncio.Queue() if make == "asyncio" else janus.Queue()
        sink: Any = owner if make == "asyncio" else owner.async_q  # type: ignore[union-attr]
        if make == "asyncio":
            put = sink.put_nowait

            def noting(item: Any) -> None:
                threads.add(threading.get_ident())
                put(item)

            sink.put_nowait = noting
        ticker.send_to(sink)
        return owner, sink

    async def take() -> Any:
        return await sink.get()

    owner, sink = loop.run(begin())
    clock.settle()
    for number in (1, 2, 3, 4):
        tick = loop.run(take())
        assert (tick.number, tick.due, tick.lateness) == (number, 990 + 10 * number, 0)
        clock.advance(10)
    assert ticker.close_reason is CloseReason.EXHAUSTED
    if make == "janus":
        with pytest.raises(janus.AsyncQueueShutDown):
            loop.run(take())
        loop.run(owner.aclose())
    else:
        assert threads == {loop.run(ident())}


async def ident() -> int:
    return threading.get_ident()


def test_an_asyncio_queue_is_shut_down_where_it_can_be(
    loop: LoopThread, clock: VirtualClock
) -> None:
    """From Python 3.13 on."""
    ticker = Ticker(Scripted(), clock=clock)

    async def main() -> Any:
        sink: asyncio.Queue[Any] = asyncio.Queue()
        ticker.send_to(sink)
        assert (await sink.get()).number == 1
        for _ in range(3):
            await asyncio.sleep(0)
        sink.get_nowait()

    error = loop.submit(main()).exception(PATIENCE)
    assert type(error) is getattr(asyncio, "QueueShutDown", asyncio.QueueEmpty)


def test_the_handle_of_a_loops_queue_is_stopped_from_a_thread(
    loop: LoopThread, clock: VirtualClock
) -> None:
    ticker = Ticker(ConstantBackOff(10), clock=clock)

    async def begin() -> Any:
        sink: asyncio.Queue[Any] = asyncio.Queue()
        return sink, ticker.send_to(sink)

    sink, handle = loop.run(begin())
    clock.settle()
    handle.stop()
    clock.settle()
    assert len(clock.pending()) == 0
    clock.advance(50)
    assert sink.qsize() == 1
    assert ticker.receive_nowait().number == 2


def test_a_zero_delay_onto_a_queue_of_a_loop_starves_nobody(loop: LoopThread) -> None:
    async def main() -> int:
        ticker = Ticker(ConstantBackOff(0))
        sink: asyncio.Queue[Any] = asyncio.Queue()
        ticker.send_to(sink)
        for _ in range(50):
            await asyncio.sleep(0)
        ticker.stop()
        return sink.qsize()

    assert loop.run(main()) > 64


def test_an_interrupt_in_a_loop_that_sends_ends_the_run_of_the_loop_and_not_the_sending() -> None:
    def interrupt_once(asked: int) -> None:
        if asked == 2:
            raise KeyboardInterrupt

    async def begin() -> asyncio.Queue[Any]:
        ticks: asyncio.Queue[Any] = asyncio.Queue()
        ticker.send_to(ticks)
        return ticks

    async def receive(count: int) -> list[int]:
        return [(await asyncio.wait_for(ticks.get(), PATIENCE)).number for _ in range(count)]

    ticker = Ticker(Hooked(0.001, interrupt_once))
    with asyncio.Runner() as runner:
        ticks = runner.run(begin())
        loop = runner.get_loop()
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(asyncio.sleep(PATIENCE))
        assert loop.run_until_complete(receive(3)) == [1, 2, 3]
        ticker.stop()


def test_a_policy_that_raises_a_cancelled_error_ends_what_a_loop_sends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reported: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: reported.append(args.exc_type))

    def give_up(_: int) -> None:
        raise asyncio.CancelledError

    async def main() -> None:
        ticker.send_to(asyncio.Queue())
        while not ticker.closed:
            await asyncio.sleep(0)

    ticker = Ticker(Hooked(0.001, give_up))
    asyncio.run(asyncio.wait_for(main(), PATIENCE))
    assert reported == [asyncio.CancelledError]


def test_the_sender_outlives_the_loop_that_read_the_queue(clock: VirtualClock) -> None:
    """Ticks still reach the sync side when the loop of the async side is closed."""
    ticks = Ticker(ConstantBackOff(10), clock=clock).queue(0)
    clock.settle()
    gone = LoopThread()
    assert gone.run(ticks.async_q.get()).number == 1
    gone.close()
    clock.advance(200)
    numbers = [ticks.sync_q.get_nowait().number for _ in range(ticks.sync_q.qsize())]
    assert numbers == list(range(2, 22))


def test_a_sender_whose_loop_closed_holds_up_nobody(clock: VirtualClock) -> None:
    gone = LoopThread()
    ticker = Ticker(ConstantBackOff(10), clock=clock)

    async def begin() -> Any:
        sink: asyncio.Queue[Any] = asyncio.Queue()
        ticker.send_to(sink)
        await sink.get()

    gone.run(begin())
    waiting = in_thread(ticker.receive)
    clock.settle()
    gone.close()
    clock.advance(10)
    assert waiting.result(PATIENCE).number == 2

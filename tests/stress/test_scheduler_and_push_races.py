"""The scheduler starts and ends under fire, and senders meet readers, resets and stops."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from typing import Any

import pytest

from backoff_ticker import (
    CancellationToken,
    ConstantBackOff,
    ExponentialBackOff,
    Ticker,
    TickerClosed,
    ZeroBackOff,
    with_max_retries,
)
from backoff_ticker.clock._scheduler import Scheduler
from backoff_ticker.waiting._wait_set import WaitLine
from tests.helpers import PATIENCE, eventually, in_thread
from tests.stress.tools import fast_switching, join_all, run_loop, start_threads


def test_an_entry_that_meets_the_end_of_an_idle_thread_runs_all_the_same() -> None:
    scheduler = Scheduler(time.monotonic, idle_seconds=0.0002)
    with fast_switching():
        for number in range(2000):
            ran = threading.Event()
            scheduler.call_at(time.monotonic(), ran.set)
            assert ran.wait(PATIENCE)
            end = time.perf_counter() + 0.0001 * (number % 6)
            while time.perf_counter() < end:
                pass
    eventually(lambda: scheduler.thread is None, "the thread has ended")


def test_entries_of_eight_threads_that_meet_idle_ends_all_run_once() -> None:
    scheduler = Scheduler(time.monotonic, idle_seconds=0.0001)
    ran: list[tuple[int, int]] = []

    def post(index: int) -> None:
        for number in range(250):
            done = threading.Event()

            def run(number: int = number, done: threading.Event = done) -> None:
                ran.append((index, number))
                done.set()

            scheduler.call_at(time.monotonic() + 0.0001 * (number % 3), run)
            assert done.wait(PATIENCE)

    with fast_switching():
        join_all(start_threads(8, post))
    assert sorted(ran) == [(index, number) for index in range(8) for number in range(250)]


def test_cancel_meets_the_due_time_and_exactly_one_wins() -> None:
    scheduler = Scheduler(time.monotonic, idle_seconds=0.5)
    ran: list[int] = []
    prevented: list[int] = []
    timers = []
    with fast_switching():
        for number in range(3000):
            timers.append(
                scheduler.call_at(
                    time.monotonic() + 0.0003, lambda number=number: ran.append(number)
                )
            )
            if number >= 5 and timers[number - 5].cancel():
                prevented.append(number - 5)
    eventually(lambda: len(ran) + len(prevented) == 3000, "all are settled")
    assert sorted(ran + prevented) == list(range(3000))


def test_a_start_that_failed_leaves_the_scheduler_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = Scheduler(time.monotonic, idle_seconds=0.05)
    start = threading.Thread.start
    ran: list[int] = []

    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    for number in range(50):
        monkeypatch.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            scheduler.call_at(0.0, lambda: ran.append(-1))
        monkeypatch.setattr(threading.Thread, "start", start)
        scheduler.call_at(0.0, lambda number=number: ran.append(number))
        eventually(lambda: scheduler.thread is None, "the thread has ended")
    assert ran == list(range(50))


EMPTY = (queue.Empty, getattr(queue, "ShutDown", queue.Empty))


def _numbers(ticks: list[Any]) -> list[int]:
    return [tick.number for tick in ticks]


def _drain(sink: Any) -> list[Any]:
    ticks = []
    while True:
        try:
            ticks.append(sink.get_nowait())
        except EMPTY:
            return ticks


@pytest.mark.parametrize("size", [1, 3])
def test_a_sender_under_a_slow_reader_accounts_for_each_tick(size: int) -> None:
    sink: queue.Queue[Any] = queue.Queue(size)
    ticker = Ticker(with_max_retries(ConstantBackOff(0.0001), 1500))
    push = ticker.send_to(sink)
    received: list[Any] = []
    with fast_switching(1e-5):
        while not ticker.closed:
            try:
                received.append(sink.get(timeout=0.01))
            except EMPTY:
                continue
            if len(received) % 7 == 0:
                time.sleep(0.001)
    eventually(lambda: push._stopped, "the sending has ended")
    received += _drain(sink)
    numbers = _numbers(received)
    assert numbers == sorted(set(numbers))
    assert len(received) + push.dropped == 1501
    before = 0
    for tick in received:
        assert tick.missed == tick.number - before - 1
        before = tick.number


def test_a_sender_shares_its_ticks_with_readers_under_a_storm_of_calls() -> None:
    """Each number goes to the sink, is dropped for want of room, or goes to one reader."""
    sink: queue.Queue[Any] = queue.Queue()
    ticker = Ticker(ConstantBackOff(0.0002))
    push = ticker.send_to(sink)
    taken: list[list[int]] = [[] for _ in range(3)]
    over = threading.Event()

    def read(index: int) -> None:
        while True:
            try:
                taken[index].append(ticker.receive(0.0003 * index + 0.0001).number)
            except TimeoutError:
                pass
            except TickerClosed:
                return

    def call(_: int) -> None:
        while not over.is_set():
            ticker.success()
            ticker.failure()
            over.wait(0.0005)

    with fast_switching(1e-5):
        threads = start_threads(3, read)
        caller = start_threads(1, call)
        time.sleep(1.5)
        over.set()
        join_all(caller)
        push.stop()
        eventually(lambda: push not in ticker._readers.waiters, "the sender has left")
        last = in_thread(ticker.receive, 5).result(PATIENCE).number
        ticker.stop()
        join_all(threads)
    numbers = sorted([*_numbers(_drain(sink)), *sum(taken, []), last])
    assert len(numbers) == len(set(numbers))
    sure = [number for number in numbers if number <= last]
    assert sure == list(range(1, last + 1))


def test_senders_that_come_and_go_lose_no_tick() -> None:
    ticker = Ticker(ConstantBackOff(0.0))
    sink: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with fast_switching():
        for number in range(300):
            push = ticker.send_to(sink)
            for _ in range(number * 10):
                pass
            push.stop()
            eventually(lambda push=push: push not in getattr(ticker._readers, "waiters", ()))
    eventually(lambda: not getattr(ticker._readers, "waiters", ()), "all have left")
    numbers = _numbers(_drain(sink))
    last = ticker.receive(5).number
    assert numbers == list(range(1, len(numbers) + 1))
    assert last == len(numbers) + 1


def test_a_sender_to_a_loop_and_its_stop_from_threads_lose_no_tick() -> None:
    async def main() -> None:
        sink: asyncio.Queue[Any] = asyncio.Queue()
        ticker = Ticker(ConstantBackOff(0.0001))
        numbers: list[int] = []
        for _ in range(100):
            push = ticker.send_to(sink)
            numbers.append((await asyncio.wait_for(sink.get(), 5)).number)
            await asyncio.to_thread(push.stop)
            while push in ticker._readers.waiters:  # type: ignore[union-attr]
                await asyncio.sleep(0)
            while not sink.empty():
                numbers.append(sink.get_nowait().number)
        last = ticker.receive(5).number
        assert [*numbers, last] == list(range(1, last + 1))

    run_loop(main(), debug=True)


def test_20_senders_and_their_tokens_end_together() -> None:
    class Sink:
        def __init__(self) -> None:
            self.ended = threading.Event()
            self.ticks = 0

        def put_nowait(self, _: object) -> None:
            assert not self.ended.is_set()
            self.ticks += 1

        def shutdown(self) -> None:
            assert not self.ended.is_set()
            self.ended.set()

    for _ in range(20):
        token = CancellationToken()
        sinks = [Sink() for _ in range(20)]
        policies = [ConstantBackOff(0.0005), ZeroBackOff(), ExponentialBackOff(0.001)]
        tickers = [Ticker(policies[i % 3], token=token) for i in range(20)]
        for ticker, sink in zip(tickers, sinks, strict=True):
            ticker.send_to(sink)
        assert not sinks[0].ended.wait(0.005)
        token.cancel()
        for sink in sinks:
            assert sink.ended.wait(PATIENCE)


def test_a_tick_that_wakes_others_is_not_received_after_a_stop_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between taking a tick and returning it a reader calls the next in line: time for a stop."""
    ticker = Ticker(ConstantBackOff(0.05))
    ticker.receive()
    told: list[bool] = []
    late: list[int] = []
    wake_firsts = WaitLine.wake_firsts

    def stop_meanwhile(line: WaitLine) -> None:
        if armed and threading.current_thread() in threads:
            armed.clear()
            helper = threading.Thread(target=ticker.stop)
            helper.start()
            helper.join()
            told.append(True)
        wake_firsts(line)

    armed: list[bool] = []
    threads: list[threading.Thread] = []

    def read(_: int) -> None:
        late.extend(tick.number for tick in ticker if told)

    monkeypatch.setattr(WaitLine, "wake_firsts", stop_meanwhile)
    armed.append(True)
    threads += start_threads(3, read)
    join_all(threads)
    assert (told, late) == ([True], [])

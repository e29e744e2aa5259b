"""Ticks sent to sinks in real time, while readers, resets and stops come and go."""

from __future__ import annotations

import asyncio
import queue
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    CancellationToken,
    CloseReason,
    ConstantBackOff,
    ExponentialBackOff,
    Forwarding,
    Ticker,
    TickerClosed,
    ZeroBackOff,
    with_max_retries,
)
from backoff_ticker.waiting._wait_set import WaitLine
from tests import effort
from tests.helpers import PATIENCE, eventually, in_thread, waiters_of
from tests.stress.tools import fast_switching, join_all, run_loop, start_threads
from tests.tickers.made_policies import Scripted
from tests.tickers.test_forwarding import ShutdownSink

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock


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


EMPTY = (queue.Empty, getattr(queue, "ShutDown", queue.Empty))


def _numbers(ticks: list[Any]) -> list[int]:
    return [tick.number for tick in ticks]


def wait_until_left(push: Forwarding) -> None:
    """Wait until a sending to threads, which was stopped, has ended with all that it had taken."""
    sender = push._forwarder
    clock = sender.ticker._clock
    over = threading.Event()
    clock.call_at(clock.monotonic(), over.set)  # the clock makes one call at a time
    assert over.wait(PATIENCE)
    assert sender not in waiters_of(sender.ticker._readers)


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
    count = effort.rounds(150, 1500)
    ticker = Ticker(with_max_retries(ConstantBackOff(0.0001), count))
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
    eventually(lambda: push._forwarder._stopped, "the sending has ended")
    received += _drain(sink)
    numbers = _numbers(received)
    assert numbers == sorted(set(numbers))
    assert len(received) + push.dropped == count + 1
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
        time.sleep(effort.rounds(2, 15) / 10)
        over.set()
        join_all(caller)
        push.stop()
        wait_until_left(push)
        last = in_thread(ticker.receive).result(PATIENCE).number
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
        for number in range(effort.rounds(60, 300)):
            push = ticker.send_to(sink)
            for _ in range(number * 10):
                pass
            push.stop()
            wait_until_left(push)
    eventually(lambda: not waiters_of(ticker._readers), "all have left")
    numbers = _numbers(_drain(sink))
    last = ticker.receive(5).number
    assert numbers == list(range(1, len(numbers) + 1))
    assert last == len(numbers) + 1


def test_a_sender_to_a_loop_and_its_stop_from_threads_lose_no_tick() -> None:
    async def main() -> None:
        sink: asyncio.Queue[Any] = asyncio.Queue()
        ticker = Ticker(ConstantBackOff(0.0001))
        numbers: list[int] = []
        for _ in range(effort.rounds(20, 100)):
            push = ticker.send_to(sink)
            numbers.append((await asyncio.wait_for(sink.get(), PATIENCE)).number)
            await asyncio.to_thread(push.stop)
            await asyncio.sleep(0)  # the loop makes the call that stop() has left
            assert push._forwarder not in waiters_of(ticker._readers)
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

    for _ in range(effort.rounds(3, 20)):
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


def test_a_tick_that_was_taken_before_a_stop_is_received_by_who_took_it(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between taking a tick and returning it a reader calls the next in line: time for a stop."""
    ticker = Ticker(ConstantBackOff(0.05), clock=clock)
    ticker.receive()
    told: list[bool] = []
    taken: list[int] = []
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
        taken.extend(tick.number for tick in ticker)

    monkeypatch.setattr(WaitLine, "wake_firsts", stop_meanwhile)
    threads += start_threads(3, read)
    clock.settle()  # all wait for the second tick
    armed.append(True)
    clock.advance(0.05)
    join_all(threads)
    assert (told, taken) == ([True], [2])

"""Interleavings of tokens, signal handlers and the scheduler that chance seldom makes, forced."""

from __future__ import annotations

import _thread
import contextvars
import gc
import os
import queue
import signal
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    CancellationToken,
    ConstantBackOff,
    SystemClock,
    Ticker,
    TickerClosed,
    ZeroBackOff,
    any_of,
    with_token,
)
from backoff_ticker.cancellation._tree import CallbackHandle
from backoff_ticker.clock._scheduler import Scheduler
from tests.helpers import PATIENCE, eventually, in_thread
from tests.stress.tools import Gate, start_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HOUR = 3600.0


@pytest.fixture
def on_usr1() -> Iterator[Callable[[Callable[[], object]], None]]:
    """Sets what SIGUSR1 does in the main thread."""
    before = signal.getsignal(signal.SIGUSR1)
    yield lambda run: signal.signal(signal.SIGUSR1, lambda *_: run()) and None
    signal.signal(signal.SIGUSR1, before)


def _signal_when(condition: Callable[[], object]) -> None:
    """Send SIGUSR1 from another thread as soon as ``condition`` holds."""

    def send() -> None:
        eventually(condition)
        os.kill(os.getpid(), signal.SIGUSR1)

    threading.Thread(target=send, daemon=True).start()


class _LookedAtClock:
    """System time; ``hook`` runs after each look at it."""

    def __init__(self) -> None:
        self.hook: Callable[[], object] | None = None
        self.time = time.time
        self.call_at = SystemClock().call_at
        self.parker = SystemClock().parker

    def monotonic(self) -> float:
        now = time.monotonic()
        if self.hook is not None:
            self.hook()
        return now


@pytest.mark.parametrize("make", [lambda token: token, any_of], ids=["child", "any_of"])
def test_no_tick_comes_once_a_token_with_a_deadline_was_cancelled(make: Any) -> None:
    """The cancel comes while the reader compares the time with the deadline, at each look."""
    late = []
    for look in range(1, 8):
        clock: Any = _LookedAtClock()
        token = make(CancellationToken(clock).child(timeout=HOUR))
        ticker = Ticker(ZeroBackOff(), token=token, clock=clock)
        ticker.receive()
        looks = []
        cancelled_at = []

        def hook() -> None:
            looks.append(1)
            if len(looks) == look and not cancelled_at:
                cancelled_at.append(look)
                in_thread(token.cancel).result(PATIENCE)

        clock.hook = hook
        try:
            number = ticker.receive().number
        except TickerClosed:
            continue
        if cancelled_at:
            late.append((look, number))
    assert late == []


def test_a_cancel_in_a_handler_wakes_the_others_though_the_main_thread_waits_too(
    on_usr1: Any,
) -> None:
    """Who was there first is the main thread, which cannot leave before its handler ends."""
    token = CancellationToken()
    workers: list[threading.Thread] = []
    ended = []

    def cancel_and_join() -> None:
        token.cancel()
        for worker in workers:
            worker.join(2)
        ended.append([worker.is_alive() for worker in workers])

    def join_the_line() -> None:
        eventually(lambda: len(token.wait_set().waiters) == 1, "the main thread waits")
        workers.extend(start_threads(3, lambda _: token.wait()))

    on_usr1(cancel_and_join)
    threading.Thread(target=join_the_line, daemon=True).start()
    _signal_when(lambda: len(workers) == 3 and len(token.wait_set().waiters) == 4)
    assert token.wait(PATIENCE)
    assert ended == [[False, False, False]]


def test_a_cancel_from_a_thread_wakes_the_others_though_a_handler_holds_up_the_main_thread(
    on_usr1: Any,
) -> None:
    token = CancellationToken()
    workers: list[threading.Thread] = []
    ended = []

    def join_workers() -> None:
        in_thread(token.cancel)
        for worker in workers:
            worker.join(2)
        ended.append([worker.is_alive() for worker in workers])

    def join_the_line() -> None:
        eventually(lambda: len(token.wait_set().waiters) == 1, "the main thread waits")
        workers.extend(start_threads(3, lambda _: token.wait()))

    on_usr1(join_workers)
    threading.Thread(target=join_the_line, daemon=True).start()
    _signal_when(lambda: len(workers) == 3 and len(token.wait_set().waiters) == 4)
    assert token.wait(PATIENCE)
    assert ended == [[False, False, False]]


def test_a_handler_in_the_main_thread_holds_up_no_other_reader_and_no_stop(on_usr1: Any) -> None:
    ticker = Ticker(ConstantBackOff(0.5))
    ticker.receive()
    seen: list[Any] = []
    readers: list[Any] = []

    def wait_for_the_readers() -> None:
        try:
            seen.append(readers[0].result(3).number)
        except TimeoutError:
            seen.append("held up")
        ticker.stop()
        try:
            seen.append(len(readers[1].result(3)))
        except TimeoutError:
            seen.append("not woken")

    def join_the_line() -> None:
        eventually(lambda: ticker._readers and len(ticker._readers.waiters) == 1, "main waits")
        readers.append(in_thread(ticker.receive))
        eventually(lambda: len(ticker._readers.waiters) == 2, "the first waits")
        readers.append(in_thread(list, ticker))
        eventually(lambda: len(ticker._readers.waiters) == 3, "the second waits")
        os.kill(os.getpid(), signal.SIGUSR1)

    on_usr1(wait_for_the_readers)
    threading.Thread(target=join_the_line, daemon=True).start()
    with pytest.raises(TickerClosed):
        while True:
            ticker.receive()
    assert isinstance(seen[0], int)
    assert seen[1:] in ([0], [1])


def test_a_sender_whose_ticker_changed_its_token_holds_up_nobody() -> None:
    ticks: queue.SimpleQueue[Any] = queue.SimpleQueue()
    token = CancellationToken()
    ticker = Ticker(ConstantBackOff(HOUR), token=token)
    push = ticker.send_to(ticks)
    ticks.get(timeout=PATIENCE)
    eventually(lambda: push._timer is not None, "the sender waits")
    ticker.reset(with_token(ConstantBackOff(HOUR), CancellationToken()))
    waiters = [in_thread(token.wait) for _ in range(3)]
    eventually(lambda: len(token.wait_set().waiters) >= 3, "they wait")
    token.cancel()
    assert [waiter.result(PATIENCE) for waiter in waiters] == [True, True, True]


def test_a_sender_that_ended_is_kept_by_no_token_it_ever_waited_for() -> None:
    ticks: queue.SimpleQueue[Any] = queue.SimpleQueue()
    token = CancellationToken()
    ticker = Ticker(ConstantBackOff(HOUR), token=token)
    push = ticker.send_to(ticks)
    ticks.get(timeout=PATIENCE)
    eventually(lambda: push._timer is not None, "the sender waits")  # noqa: F821 - deleted further down
    ticker.reset(with_token(ConstantBackOff(HOUR), CancellationToken()))
    push.stop()
    gone = weakref.ref(ticker)
    del ticker, push

    def collected() -> bool:
        gc.collect()
        return gone() is None

    eventually(collected, "the ticker is collected")
    assert len(token.wait_set().waiters) == 0


def test_a_callback_added_while_its_token_is_cancelled_is_kept_by_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The cancel runs the callback between its registration and its pinning to the root."""
    root = CancellationToken()
    token = root.child(timeout=HOUR)
    called = []
    pin = CallbackHandle.pin

    def cancel_first(handle: CallbackHandle) -> None:
        in_thread(token.cancel).result(PATIENCE)  # noqa: F821 - deleted further down
        pin(handle)

    monkeypatch.setattr(CallbackHandle, "pin", cancel_first)
    handle = token.on_cancel(lambda: called.append(1))
    assert called == [1]
    assert not handle.remove()
    alive = weakref.ref(token)
    del token, handle
    gc.collect()
    assert len(root._table("pins")) == 0
    assert alive() is None


def test_an_error_hook_that_raises_does_not_end_the_scheduler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_: object) -> None:
        raise SystemExit

    def raise_error() -> None:
        raise ValueError

    monkeypatch.setattr(sys, "unraisablehook", fail)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    scheduler = Scheduler(time.monotonic, idle_seconds=0.2)
    scheduler.call_at(0.0, raise_error)
    ran = threading.Event()
    scheduler.call_at(time.monotonic() + 0.05, ran.set)
    assert ran.wait(PATIENCE)


def test_a_failed_start_of_the_thread_leaves_no_other_callback_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another thread posts while the start fails: it is refused too, or its callback runs."""
    gate = Gate()
    start = threading.Thread.start

    def fail_once(thread: threading.Thread) -> None:
        if thread.name == "backoff_ticker-scheduler" and not gate.reached.is_set():
            gate.stand()
            raise RuntimeError("can't start new thread")
        start(thread)

    scheduler = Scheduler(time.monotonic, idle_seconds=0.2)
    monkeypatch.setattr(threading.Thread, "start", fail_once)
    ran = threading.Event()
    first = in_thread(scheduler.call_at, 0.0, lambda: None)
    gate.wait_until_reached()
    second = in_thread(scheduler.call_at, 0.0, ran.set)
    eventually(lambda: second.done() or scheduler._mailbox.qsize() == 2, "both are posted")
    gate.open()
    assert isinstance(first.exception(PATIENCE), RuntimeError)
    if second.exception(PATIENCE) is None:
        assert ran.wait(PATIENCE)
    third = threading.Event()
    scheduler.call_at(0.0, third.set)
    assert third.wait(PATIENCE)


def test_an_interrupted_start_never_makes_two_scheduler_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The interrupt hits ``Thread.start`` after the thread began and before it is known."""
    start = threading.Thread.start
    receive = Scheduler._receive
    threads = []
    late = Gate()

    def interrupt_once(thread: threading.Thread) -> None:
        if thread.name != "backoff_ticker-scheduler" or threads:
            start(thread)
            return
        threads.append(thread)
        thread._context = contextvars.Context()  # type: ignore[attr-defined] # Python 3.14

        def begin_late() -> None:
            late.stand()
            threading.Thread._bootstrap_inner(thread)  # type: ignore[attr-defined]

        threading._limbo[thread] = thread  # type: ignore[attr-defined]
        _thread.start_new_thread(begin_late, ())
        late.wait_until_reached()
        raise KeyboardInterrupt

    inside: list[int] = []
    most: list[int] = []

    def count(scheduler: Scheduler) -> None:
        inside.append(1)
        most.append(len(inside))
        receive(scheduler)
        inside.pop()

    monkeypatch.setattr(threading.Thread, "start", interrupt_once)
    monkeypatch.setattr(Scheduler, "_receive", count)
    scheduler = Scheduler(time.monotonic, idle_seconds=0.3)
    with pytest.raises(KeyboardInterrupt):
        scheduler.call_at(time.monotonic() + 0.3, lambda: None)
    ran = threading.Event()
    scheduler.call_at(time.monotonic() + 0.3, ran.set)
    late.open()
    assert ran.wait(PATIENCE)
    assert max(most) == 1


def test_the_scheduler_thread_ends_when_only_cancelled_entries_are_left() -> None:
    scheduler = Scheduler(time.monotonic, idle_seconds=0.05)
    scheduler.call_at(time.monotonic() + HOUR, lambda: None).cancel()
    eventually(lambda: scheduler.thread is None, "the thread has ended")

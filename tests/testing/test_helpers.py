"""Threads that wait for work from another thread, whoever has written them, hold no time up."""

import asyncio
import logging
import multiprocessing
import queue
import threading
import time
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from logging.handlers import QueueHandler, QueueListener

import pytest

from backoff_ticker.testing import ClockLeakError, VirtualClock, VirtualDeadlockError
from tests import effort

from .real_threads import RealThread, on_linux


def start(target):
    thread = threading.Thread(target=target)
    thread.start()
    return thread


def test_a_queue_listener_gets_records_at_their_time_and_goes_on_after_the_clock():
    records, seen = queue.Queue(), []

    class Sink(logging.Handler):
        def emit(self, record):
            seen.append((record.getMessage(), clock.monotonic()))

    def log(message):
        QueueHandler(records).handle(logging.makeLogRecord({"msg": message}))

    listener = QueueListener(records, Sink())
    with VirtualClock(auto=True) as clock:
        listener.start()
        for message in "abc":
            clock.sleep(5)
            log(message)
        clock.sleep(5)
    log("late")
    listener.stop()
    assert seen == [("a", 5.0), ("b", 10.0), ("c", 15.0), ("late", 20.0)]


@pytest.mark.usefixtures("switching")
def test_time_does_not_pass_work_that_was_handed_over():
    rounds = effort.rounds(30, 1000)
    with VirtualClock(auto=True) as clock:
        work, done = queue.Queue(), []

        def serve():
            while (number := work.get()) is not None:
                clock.sleep(0.25)
                done.append((number, clock.monotonic()))

        helpers = [start(serve) for _ in range(2)]
        for number in range(rounds):
            work.put(number)
            clock.sleep(1)
        for _ in helpers:
            work.put(None)
        for helper in helpers:
            helper.join()
    assert done == [(number, number + 0.25) for number in range(rounds)]


@pytest.mark.parametrize("kind", [queue.Queue, pytest.param(queue.SimpleQueue, marks=on_linux)])
def test_a_daemon_that_waits_for_work_is_no_leak_but_other_threads_and_tasks_are_and_end(kind):
    work = kind()
    daemon = threading.Thread(target=work.get, daemon=True, name="daemon")
    with (
        pytest.raises(ClockLeakError, match=r"2 participants .* mine: Condition.wait\(\) in queue"),
        VirtualClock() as clock,
    ):
        daemon.start()
        thread = threading.Thread(target=queue.Queue().get, name="mine")
        thread.start()
        clock.spawn(queue.Queue().get)
        clock.settle()
    thread.join(10)
    assert daemon.is_alive()
    work.put("item")
    daemon.join(10)
    assert not daemon.is_alive()


def test_a_wait_for_work_that_nobody_hands_out_is_a_deadlock_after_a_while():
    work = queue.Queue()
    with VirtualClock(auto=True, settle_timeout=0.2) as clock:
        thread = start(work.get)
        with pytest.raises(VirtualDeadlockError, match=r"Condition.wait\(\) in queue"):
            thread.join()
        RealThread(lambda: work.put("item"))  # an item of a thread that no clock knows
        thread.join()
        assert clock.monotonic() == 0.0


# In a lock, or a queue that is none of Python's: only the system shows it


@on_linux
def test_a_thread_that_was_handed_something_holds_time_while_it_does_it(auto):
    work, seen = queue.SimpleQueue(), []

    def serve():
        while (seconds := work.get()) is not None:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                pass
            threading.Event().wait(seconds)
            seen.append(auto.monotonic())

    thread = start(serve)
    for _ in range(2):
        auto.sleep(3600)
        work.put(0.1)
    auto.sleep(3600)
    work.put(None)
    thread.join()
    assert seen == [3600, 7200]


@on_linux
def test_a_thread_that_was_found_waiting_may_say_so_for_its_next_wait(auto):
    work, times = queue.SimpleQueue(), []

    def serve():
        work.get()
        with auto.idle("more"):
            work.get()
        auto.sleep(1)
        times.append(auto.monotonic())

    thread = threading.Thread(target=serve)
    thread.start()
    for _ in range(2):
        auto.sleep(5)
        work.put("item")
    thread.join()
    assert times == [11]


# Processes


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_a_job_that_is_done_before_its_future_is_returned_holds_no_time(kind, monkeypatch):
    failed = Future()  # as where a pool breaks meanwhile
    failed.set_exception(OSError())
    monkeypatch.setattr(kind, "submit", lambda *_: failed)
    with VirtualClock(settle_timeout=0.1) as clock, kind(1) as pool:
        assert pool.submit(abs, -1) is failed
        clock.advance(1)


@pytest.mark.slow
def test_a_pool_of_processes_holds_time_while_it_works_only(auto):
    async def main(processes):
        loop = asyncio.get_running_loop()
        await asyncio.sleep(10)
        async with asyncio.timeout(3):
            await loop.run_in_executor(processes, time.sleep, 0.05)
        assert auto.monotonic() == 10.0
        await asyncio.sleep(10)

    # Not forked, because this process has threads.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as processes:
        asyncio.run(main(processes))
        assert list(processes.map(abs, [-1, -2])) == [1, 2]
    assert auto.monotonic() == 20.0

"""Who counts, who runs: ``tracked()``, ``external()``, ``idle()``, one participant at a time."""

import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar

import pytest

from backoff_ticker import CancellationToken
from backoff_ticker.testing import (
    ClockUsageError,
    SettleTimeout,
    VirtualClock,
    VirtualDeadlockError,
    _real_time,
)
from backoff_ticker.testing._participants import Participant
from tests import effort

from .real_threads import RealThread, on_linux


def test_a_tracked_function_counts_where_nothing_else_does(auto):
    assert auto.tracked(lambda: auto.sleep(1) or auto.monotonic())() == 1.0
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(auto.tracked(lambda: auto.sleep(1))) for _ in range(2)]
        for job in jobs:
            job.result()
    assert auto.monotonic() == 2.0


def test_a_spawned_function_has_a_copy_of_the_context(clock):
    word = ContextVar("word")
    word.set("mine")
    seen = clock.spawn(lambda: [word.get(), word.set("its own")]).result()
    assert (seen[0], word.get()) == ("mine", "mine")


# Waits for something other than the clock


def get(items, clock):
    """Get an item, idle until it is there."""
    with clock.idle("an item"):
        return items.get(timeout=10)  # there only so that a failure does not hang


def test_external_freezes_time_and_lets_others_run(auto):
    go, ran = queue.Queue(), []
    with auto.external("somebody"):
        other = auto.spawn(lambda: ran.append(auto.monotonic()) or auto.sleep(5))
        RealThread(lambda: go.put(1))
        assert go.get(timeout=10) == 1
        auto.block_until(parked=1)
        assert (ran, auto.monotonic()) == ([0.0], 0.0)
    other.join()
    assert auto.monotonic() == 5.0


def test_external_inside_idle_leaves_the_thread_idle(auto):
    with auto.idle("outer"):
        with auto.external("inner"):
            pass
        auto.sleep(1)
        slept = threading.Lock()
        slept.acquire()
        auto.spawn(lambda: (auto.sleep(1), slept.release()))
        assert slept.acquire(timeout=10)
    assert auto.monotonic() == 2.0


@pytest.mark.parametrize("seconds", [0, 1])
def test_a_wait_on_the_clock_inside_idle_counts(auto, seconds):
    other = auto.spawn(auto.sleep, 50)
    with auto.idle("anything"):
        auto.sleep(seconds)
        assert auto.monotonic() == seconds
    other.join()


def test_a_wait_of_the_driver_waits_for_idle_participants(clock):
    items = queue.SimpleQueue()
    for _ in range(effort.rounds(20, 200)):
        task = clock.spawn(get, items, clock)
        clock.settle()
        items.put("item")
        assert task.result(10) == "item"


def test_a_wait_of_the_driver_for_one_that_stays_idle_gives_up():
    items = queue.SimpleQueue()
    with VirtualClock(settle_timeout=0.2) as clock:
        task = clock.spawn(get, items, clock)
        with pytest.raises(TimeoutError):
            task.result(10)
        with pytest.raises(ClockUsageError, match="time stands still"):
            task.result()
        items.put("item")
        assert task.result() == "item"


def test_the_driver_of_auto_advance_does_not_stay_idle_for_ever_or_for_one_that_is_stuck():
    stop, go = CancellationToken(), queue.Queue()
    with VirtualClock(auto=True, settle_timeout=0.2) as clock:
        clock.spawn(stop.wait)
        with pytest.raises(VirtualDeadlockError, match=r"MainThread: an item in .*get\(\)"):
            get(queue.Queue(), clock)
        stop.cancel()
        stuck = clock.spawn(lambda: go.get(timeout=10))
        with pytest.raises(SettleTimeout, match="1 of 2 participants"):
            get(queue.Queue(), clock)
        go.put("on")
        assert stuck.result() == "on"


@pytest.mark.slow
def test_a_driver_that_is_served_by_real_threads_may_stay_idle():
    items = queue.SimpleQueue()

    def send():
        for number in range(4):
            time.sleep(0.15)
            items.put(number)

    with VirtualClock(auto=True, settle_timeout=0.3) as clock:
        RealThread(send)
        with clock.idle("items"):
            assert [items.get(timeout=10) for _ in range(4)] == [0, 1, 2, 3]


def test_an_idle_participant_has_its_item_before_time_moves(clock):
    items, times, rounds = queue.SimpleQueue(), [], effort.rounds(10, 50)

    def take():
        for _ in range(rounds):
            get(items, clock)
            clock.sleep(1)
            times.append(clock.monotonic())

    task = clock.spawn(take)
    clock.call_at(1000, print)
    for _ in range(rounds):
        items.put(1)
        clock.advance_next()
    clock.settle()
    task.join()
    assert times == [float(n) for n in range(1, rounds + 1)]


@pytest.mark.parametrize("auto", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_work_inside_idle_that_takes_longer_than_the_settle_timeout_is_no_deadlock(auto):
    moment = threading.Event()
    with VirtualClock(auto=auto, settle_timeout=0.2) as clock:

        def work():
            with clock.idle("a result"):
                end = time.monotonic() + 0.4
                while time.monotonic() < end:
                    moment.wait(0.002)
            return "done"

        assert clock.spawn(work).result() == "done"


# One participant runs at a time, but none that waits for another keeps it waiting


def test_without_one_at_a_time_all_that_are_due_have_run_when_the_step_ends():
    with VirtualClock(strict=False, one_at_a_time=False) as clock:
        tasks = [clock.spawn(clock.sleep, 1) for _ in range(20)]
        assert clock.advance(1) == 20
        assert all(task.done() for task in tasks)


def test_a_thread_that_polls_the_clock_lets_others_have_their_turn(auto):
    flag = threading.Event()
    auto.spawn(flag.set)
    polls = 0
    while not flag.is_set():
        auto.sleep(0)
        polls += 1
    assert polls <= 128


@on_linux
def test_threads_that_want_a_lock_do_not_stop_a_holder_that_is_due_with_them(auto):
    lock = threading.Lock()

    def hold():
        with lock:
            auto.sleep(1)

    def want():
        auto.sleep(1)
        with lock:
            return auto.monotonic()

    others = [auto.spawn(want) for _ in range(3)]
    auto.spawn(hold).join()
    assert [other.result() for other in others] == [1.0] * 3


def test_a_thread_that_waits_for_a_processor_is_waited_for(monkeypatch):
    """As on a busy machine, where one that was woken may not run for a while."""
    looks = []
    monkeypatch.setattr(_real_time, "_LIMIT", 0.0)
    monkeypatch.setattr(_real_time, "is_active", lambda _: True)
    monkeypatch.setattr(_real_time, "computed", lambda _: len(looks) > 20)
    waiting = [Participant("woken")]
    assert not _real_time.wait_for_return(waiting, lambda: looks.append(1))
    assert len(looks) > 20
    assert waiting[0].works_idle

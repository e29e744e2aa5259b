"""One participant runs at a time, but none that waits for another keeps it waiting."""

from __future__ import annotations

import threading

import pytest

from backoff_ticker.testing import VirtualClock
from backoff_ticker.testing.participants._run_queue import POLLS_PER_TURN


def test_without_one_at_a_time_all_who_are_due_have_run_when_the_step_ends():
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
    assert polls <= POLLS_PER_TURN


@pytest.fixture
def holder_and_wanter(auto):
    """One that holds a lock while a second passes, and one that wants it as that is over."""
    lock = threading.Lock()

    def hold():
        with lock:
            auto.sleep(1)

    def want():
        auto.sleep(1)
        with lock:
            return auto.monotonic()

    return hold, want


def test_threads_that_want_a_lock_do_not_stop_its_holder_who_is_due_at_the_same_time(
    auto, holder_and_wanter
):
    hold, want = holder_and_wanter
    others = [auto.spawn(want) for _ in range(3)]
    holder = auto.spawn(hold)
    holder.join()
    assert [other.result() for other in others] == [1.0] * 3


def test_a_callback_between_them_does_not_keep_a_lock_from_who_waits_for_it(
    auto, holder_and_wanter
):
    hold, want = holder_and_wanter
    wanting = auto.spawn(want)
    auto.spawn(auto.call_at, 1.0, int)
    auto.spawn(hold)
    assert wanting.result() == 1.0


def test_a_runner_that_waits_for_a_lock_does_not_stop_who_holds_it(auto):
    lock, entered = threading.Lock(), threading.Event()

    def hold():
        with lock:
            entered.set()
            auto.sleep(1)
            for _ in range(3):
                auto.parker().park(auto.monotonic())

    holder = auto.spawn(hold)
    auto.sleep(1)
    with lock:
        assert entered.is_set()
    holder.join()


def test_who_shares_a_turn_is_counted_and_woken_no_earlier_than_it_asked_for(clock):
    lock, woken = threading.Lock(), []
    deadline = 1 + 1e-10  # the same nanosecond as 1, and later

    def hold():
        with lock:
            clock.parker().park(deadline)
            woken.append(clock.monotonic() >= deadline)

    def want():
        clock.sleep(1)
        with lock:
            pass

    clock.spawn(want)
    clock.spawn(hold)
    assert clock.advance(1) == 2
    assert woken == [True]

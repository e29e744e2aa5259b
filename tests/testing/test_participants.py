"""Who counts: ``tracked()``, ``external()``, ``idle()``."""

from __future__ import annotations

import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar

import pytest

from backoff_ticker.testing import ClockUsageError, VirtualClock

from .real_threads import in_real_thread


def test_a_tracked_function_may_be_called_where_it_was_made(auto):
    assert auto.tracked(lambda: auto.sleep(1) or auto.monotonic())() == 1.0
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(auto.tracked(lambda: auto.sleep(1))) for _ in range(2)]
        for job in jobs:
            job.result()
    assert auto.monotonic() == 2.0


def test_external_holds_time_and_lets_others_run(auto):
    go, ran = queue.Queue(), []
    with auto.external("somebody"):
        other = auto.spawn(lambda: ran.append(auto.monotonic()) or auto.sleep(5))
        in_real_thread(lambda: go.put(1))
        assert go.get(timeout=10) == 1
        auto.block_until(parked=1)
        assert (ran, auto.monotonic()) == ([0.0], 0.0)
    other.join()
    assert auto.monotonic() == 5.0


def test_idle_lets_time_pass(auto):
    items = queue.Queue()
    with auto.idle("an item"):
        auto.spawn(lambda: auto.sleep(5) or items.put(auto.monotonic()))
        assert items.get(timeout=10) == 5.0


def test_a_block_of_external_inside_one_of_idle_leaves_the_outer_one_as_it_was(auto):
    with auto.idle("outer"):
        with auto.external("inner"):
            pass
        auto.sleep(1)
        slept = threading.Lock()
        slept.acquire()
        auto.spawn(lambda: (auto.sleep(1), slept.release()))
        assert slept.acquire(timeout=10)
    assert auto.monotonic() == 2.0


def test_a_wait_of_the_driver_waits_for_those_who_are_idle(clock):
    items = queue.SimpleQueue()

    def get():
        with clock.idle("an item"):
            return items.get()

    for _ in range(200):
        task = clock.spawn(get)
        clock.settle()
        items.put("item")
        assert task.result(10) == "item"


def test_a_wait_of_the_driver_for_somebody_idle_for_ever_is_over_in_time():
    items = queue.SimpleQueue()
    with VirtualClock(settle_timeout=0.3) as clock:

        def get():
            with clock.idle("an item"):
                return items.get()

        task = clock.spawn(get)
        with pytest.raises(TimeoutError):
            task.result(10)
        with pytest.raises(ClockUsageError, match="time stands still"):
            task.result()
        items.put("item")
        assert task.result() == "item"


def test_a_spawned_function_has_a_copy_of_the_context(clock):
    word = ContextVar("word")
    word.set("mine")
    seen = clock.spawn(lambda: [word.get(), word.set("its own")]).result()
    assert (seen[0], word.get()) == ("mine", "mine")


@pytest.mark.parametrize("seconds", [0, 1])
def test_time_does_not_pass_one_who_is_idle_by_while_it_works_for_a_wait_on_the_clock(
    auto, seconds
):
    other = auto.spawn(auto.sleep, 50)
    with auto.idle("anything"):
        auto.sleep(seconds)
        assert auto.monotonic() == seconds
    other.join()


def test_advance_next_lets_one_who_is_idle_have_its_item_first(clock):
    items, times = queue.SimpleQueue(), []

    def take():
        for _ in range(50):
            with clock.idle("an item"):
                items.get()
            clock.sleep(1)
            times.append(clock.monotonic())

    task = clock.spawn(take)
    clock.call_at(1000, print)
    for _ in range(50):
        items.put(1)
        clock.advance_next()
    clock.settle()
    task.join()
    assert times == [float(n) for n in range(1, 51)]


def test_what_a_tracked_function_returned_is_used_before_time_goes_on():
    for _ in range(50):
        with VirtualClock(auto=True) as clock:
            items, noticed = queue.SimpleQueue(), []

            def work(clock=clock, items=items, noticed=noticed):
                with clock.idle("an item"):
                    items.get()
                noticed.append(clock.monotonic())

            worker = clock.spawn(work)
            other = clock.spawn(clock.sleep, 100)
            function = clock.tracked(lambda clock=clock: clock.sleep(1))
            real = in_real_thread(lambda items=items, function=function: items.put(function()))
            worker.join()
            real.join(10)
            assert noticed == [1.0]
            other.join()


def test_one_who_works_where_it_said_to_be_idle_does_not_hold_time_up_for_ever(auto):
    stop = []

    def work():
        with auto.idle("nothing at all"):
            while not stop:
                pass

    busy = auto.spawn(work)
    auto.sleep(3)
    stop.append(1)
    busy.join()

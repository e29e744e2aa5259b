"""What one thread does between two instructions of another breaks nothing of a clock."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from backoff_ticker.testing import VirtualClock
from backoff_ticker.testing.standard_library import _pools
from tests.helpers import PATIENCE
from tests.interleaving import each_interleaving
from tests.stress.tools import Gate

from .real_threads import in_real_thread


@pytest.mark.parametrize("in_loop", [False, True])
@pytest.mark.parametrize("first", ["cancel", "fire"])
def test_a_timer_fires_or_is_cancelled(monkeypatch, first, in_loop):
    ran = []

    def begin():
        ran.clear()
        loop = asyncio.new_event_loop() if in_loop else None
        timer = clock.call_at(5, lambda: ran.append("it"), loop=loop)
        pair = [timer.cancel, timer._run if in_loop else timer.fire]
        if in_loop:
            loop.close()
        return pair if first == "cancel" else reversed(pair)

    with VirtualClock() as clock:
        for outcomes in each_interleaving(begin, monkeypatch):
            prevented = [outcome for outcome in outcomes if outcome]
            assert (ran, prevented) in ((["it"], []), ([], [True]))


def test_a_clock_knows_all_loops_that_are_made_at_once(clock, monkeypatch):
    closed = asyncio.new_event_loop()
    closed.close()
    for loops in each_interleaving(lambda: (clock.new_event_loop,) * 2, monkeypatch):
        known = [driver._loop for driver in clock._kernel.query(lambda: clock._kernel.loops)]
        for loop in loops:
            assert known.count(loop) == 1
            loop.close()
        assert closed not in known


def test_a_clock_has_one_thread_of_its_own(monkeypatch):
    ran_in = []

    def begin():
        clock = VirtualClock()
        query = clock._kernel.query
        ran_in.append((clock, set()))
        return (lambda: query(lambda: ran_in[-1][1].add(threading.get_ident())),) * 2

    for _ in each_interleaving(begin, monkeypatch):
        clock, threads = ran_in.pop()
        assert len(threads) == 1
        clock.close()


def test_no_two_timers_have_the_same_order(clock, monkeypatch):
    next_order = clock._kernel.next_order
    orders = [
        order
        for pair in each_interleaving(lambda: (next_order, next_order), monkeypatch)
        for order in pair
    ]
    assert len(orders) == len(set(orders)) > 10


def test_a_pool_that_two_threads_use_first_is_one_pool(clock, monkeypatch):
    gate, pools, arrived, lock = Gate(), [], threading.Semaphore(0), _pools._lock

    class Announcing:
        def __enter__(self):
            arrived.release()
            lock.acquire()

        def __exit__(self, *_):
            lock.release()

    class Slow(_pools._Pool):
        def __init__(self, *args):
            super().__init__(*args)
            gate.stand()

    def use():
        pools.append(_pools._pool_of(executor, clock._kernel))

    monkeypatch.setattr(_pools, "_lock", Announcing())
    monkeypatch.setattr(_pools, "_Pool", Slow)
    executor = ThreadPoolExecutor(1)
    threads = [in_real_thread(use) for _ in range(2)]
    gate.wait_until_reached()
    assert all(arrived.acquire(timeout=PATIENCE) for _ in range(2))
    gate.open()
    for thread in threads:
        thread.join(PATIENCE)
    assert pools[0] is pools[1]

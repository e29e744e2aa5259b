"""What one thread does between two instructions of another breaks nothing of a clock."""

import asyncio
import threading

import pytest

from backoff_ticker.testing import VirtualClock
from tests.interleaving import each_interleaving


@pytest.mark.parametrize("in_loop", [False, True])
@pytest.mark.parametrize("first", ["cancel", "fire"])
def test_a_timer_fires_or_is_cancelled(monkeypatch, first, in_loop):
    ran = []

    def begin():
        ran.clear()
        loop = asyncio.new_event_loop() if in_loop else None
        timer = clock.call_at(5, lambda: ran.append("it"), loop=loop)
        pair = [timer.cancel, timer.fire]
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

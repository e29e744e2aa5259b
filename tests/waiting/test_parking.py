"""Parking a thread and a coroutine: register, check, park, and always leave."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from backoff_ticker.waiting import (
    NO_DEADLINE,
    Waiter,
    WaitLine,
    WaitQueue,
    WaitSet,
    checkpoint,
    on_loop_wait,
    park_thread,
)
from tests.helpers import PATIENCE, LoopThread, in_thread, waiters_of
from tests.interleaving import each_interleaving


@pytest.fixture
def loop(clock):
    """A loop in a thread, in which nothing may go wrong."""
    made = LoopThread()
    yield made
    made.close()
    assert made.errors == []


# Threads


def test_a_wake_up_between_the_last_check_and_the_park_is_not_lost(clock):
    source = WaitSet()

    def look(_):
        if source.closed:
            return None
        source.close()
        return NO_DEADLINE

    in_thread(park_thread, clock, "test", "a coroutine", (source,), look).result(PATIENCE)


def test_a_thread_that_is_woken_checks_again_and_keeps_its_place_in_line(
    clock,
):
    line = WaitLine()
    looks: list[Waiter] = []

    def look(waiter):
        looks.append(waiter)
        return NO_DEADLINE if len(looks) < 4 else None

    done = in_thread(park_thread, clock, "test", "a coroutine", (line,), look)
    for count in (1, 3):  # once woken, it looks before it registers and after that
        clock.settle()
        assert (len(looks), list(waiters_of(line))) == (count, looks[:1])
        line.wake_firsts()
    done.result(PATIENCE)
    assert looks == looks[:1] * 4
    assert waiters_of(line) == []


@pytest.mark.parametrize("wake", [WaitSet.close, WaitLine.wake_firsts, WaitQueue.wake_next])
def test_the_next_thread_is_woken_if_the_clock_fails_to_wake_the_first(clock, monkeypatch, wake):
    errors: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: errors.append(args.exc_value))
    source = {WaitSet.close: WaitSet, WaitLine.wake_firsts: WaitLine}.get(wake, WaitQueue)()
    woken: list[Waiter] = []

    class Broken:
        def park(self, deadline):
            return real.park(clock.monotonic() + 5)

        def unpark(self):
            raise OSError("unpark")

    class BrokenClock:
        def parker(self, what):
            nonlocal real
            real = clock.parker(what)
            return Broken()

    real: Any = None

    def look(waiter):
        if source.closed or waiter in looked:
            woken.append(waiter)
            return None
        looked.append(waiter)
        return NO_DEADLINE

    looked: list[Waiter] = []
    threads = []
    for each in (BrokenClock(), clock):
        threads.append(in_thread(park_thread, each, "test", "a coroutine", (source,), look))
        clock.settle()
    wake(source)
    threads[1].result(PATIENCE)
    assert woken == looked[1:]
    assert [str(error) for error in errors] == ["unpark"]
    clock.advance(5)
    threads[0].result(PATIENCE)


def test_an_interrupt_while_leaving_is_raised_once_all_is_left(clock):
    class Interrupted(WaitSet):
        interrupts = 1

        def leave(self, place, domain):
            if self.interrupts:
                self.interrupts -= 1
                raise KeyboardInterrupt
            super().leave(place, domain)

    sources = WaitSet(), Interrupted(), WaitSet()
    with pytest.raises(KeyboardInterrupt):
        park_thread(clock, "test", "a coroutine", sources, lambda _: None)
    assert [len(waiters_of(source)) for source in sources] == [0, 0, 0]


# Coroutines


def test_whoever_asks_to_be_told_of_waits_is_told_whatever_another_thread_does_meanwhile(
    monkeypatch,
):
    told: list[object] = []

    async def wait():
        await checkpoint()

    def begin():
        on_loop_wait(None)
        told.clear()
        return lambda: asyncio.run(wait()), lambda: on_loop_wait(told.append)

    try:
        for outcomes in each_interleaving(begin, monkeypatch):
            assert outcomes == (None, None)
            told.clear()
            asyncio.run(wait())
            assert len(told) == 1
    finally:
        on_loop_wait(None)

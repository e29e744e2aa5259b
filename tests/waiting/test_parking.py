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
from tests.helpers import PATIENCE, in_thread, waiters_of
from tests.interleaving import each_interleaving


def test_a_wake_up_between_the_last_check_and_the_park_is_not_lost(clock):
    source = WaitSet()

    def look(_):
        if source.closed:
            return None
        source.close()
        return NO_DEADLINE

    in_thread(park_thread, clock, "test", "a coroutine", (source,), look).result(PATIENCE)


@pytest.mark.parametrize("wake", [WaitSet.close, WaitLine.wake_firsts, WaitQueue.wake_next])
def test_the_next_thread_is_woken_if_the_clock_fails_to_wake_the_first(clock, monkeypatch, wake):
    errors: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: errors.append(args.exc_value))
    source = {WaitSet.close: WaitSet, WaitLine.wake_firsts: WaitLine}.get(wake, WaitQueue)()
    looks: list[Waiter] = []
    real: list[Any] = []

    class BrokenClock:
        """It is its own parker."""

        def parker(self, what):
            real.append(clock.parker(what))
            return self

        def park(self, deadline):
            return real[0].park(clock.monotonic() + 5)

        def unpark(self):
            raise OSError("unpark")

    def look(waiter):
        looks.append(waiter)
        return None if looks.count(waiter) > 1 else NO_DEADLINE

    threads = []
    for each in (BrokenClock(), clock):
        threads.append(in_thread(park_thread, each, "test", "a coroutine", (source,), look))
        clock.settle()
    wake(source)
    threads[1].result(PATIENCE)
    assert looks[2:] == [looks[1]]
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

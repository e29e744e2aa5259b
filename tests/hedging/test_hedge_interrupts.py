"""Hedged calls that are interrupted at any place, or dropped; what outlives a call: nothing."""

import asyncio
import gc
import sys
import threading
import weakref
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    DeadlineExceeded,
    RetryBudget,
    current_attempt,
    current_clock,
    hedge_call,
    hedge_call_async,
)
from backoff_ticker.waiting import loop_runs
from tests.circuits.circuits import half_open
from tests.helpers import PATIENCE, SetClock, collect_garbage, eventually
from tests.retries.hedges import own_token, takes
from tests.retries.scripts import TEN, ZERO, Script
from tests.stress.places import Interrupted, each_place
from tests.stress.tools import gc_threshold


class Kept(Executor):
    """A pool that keeps its jobs, for the test to make them; ``full()`` is called with two."""

    def __init__(self, full):
        self._full = full
        self._jobs = []

    def submit(self, function, /, *args, **kwargs):
        self._jobs.append(partial(function, *args, **kwargs))
        if len(self._jobs) == 2:
            self._full()
        return Future()

    def make_all(self):
        while self._jobs:
            self._jobs.pop()()


def test_an_attempt_that_begins_as_it_is_withdrawn_is_made_or_withdrawn_once():
    def run(interrupt):
        made = []
        budget, token = RetryBudget(5, token_ratio=0), CancellationToken()

        def operation():
            made.append(current_attempt().number)
            return 7

        def cancel():
            interrupt.__enter__()
            token.cancel()

        pool = Kept(cancel)
        interrupt.handler = pool.make_all
        with suppress(Cancelled):
            hedge_call(operation, ZERO, pool=pool, token=token, budget=budget)
        interrupt.__exit__()
        begun = made.copy()
        pool.make_all()
        assert made == begun, "withdrawn, and made"
        assert 5 - budget.tokens == made.count(2), interrupt.where

    assert each_place(run) > 50


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")  # hit before its first step
def test_after_an_interrupt_at_any_place_no_attempt_is_left_alone():
    def run(interrupt):
        told = []
        begun = []

        def operation():
            begun.append(None)
            if len(begun) < 3:
                told.append(own_token().wait(PATIENCE))
            return 7

        before = set(threading.enumerate())
        with suppress(Interrupted), interrupt:
            assert hedge_call(operation, ZERO, max_attempts=3) == 7
        eventually(lambda: set(threading.enumerate()) <= before, f"all end: {interrupt.where}")
        assert all(told), interrupt.where

    # CPython 3.12 crashes if a generator, traced by its opcodes, goes on in another thread.
    assert each_place(run, but=("in_thread",)) > 100


def test_a_call_that_is_dropped_after_its_loop_was_closed_ends_silently(monkeypatch):
    tokens = []
    budget, ignored = RetryBudget(5), []

    async def operation():
        tokens.append(own_token())
        await asyncio.Event().wait()

    async def main():
        await hedge_call_async(operation, ZERO, max_attempts=3, budget=budget)

    async def until_all_wait():
        while len(tokens) < 3:
            await asyncio.sleep(0)

    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # tasks that are destroyed while they wait
    task = loop.create_task(main())
    loop.run_until_complete(until_all_wait())
    loop.close()
    monkeypatch.setattr(sys, "unraisablehook", lambda args: ignored.append(args.exc_value))
    del task, loop
    collect_garbage()
    assert ignored == []
    assert [token.cancelled for token in tokens] == [True] * 3
    assert budget.tokens == 3


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # coroutines that are not awaited
def test_ctrl_c_in_a_hedged_coroutine_lets_its_loop_end():
    def ctrl_c():
        raise KeyboardInterrupt

    def run(interrupt):
        breaker = half_open(SetClock(), on=OSError)
        errors = [LookupError()]

        async def operation():
            await asyncio.sleep(0)
            if errors:
                raise errors.pop()
            return 7

        async def main():
            assert await hedge_call_async(operation, ZERO, breaker=breaker) == 7

        loop = asyncio.new_event_loop()
        task = loop.create_task(main())
        with suppress(KeyboardInterrupt), interrupt:
            loop.run_until_complete(task)
        tasks = asyncio.all_tasks(loop)  # what follows is what asyncio.run() does
        for one in tasks:
            one.cancel()
        if tasks:
            _, left = loop.run_until_complete(asyncio.wait(tasks, timeout=PATIENCE))
            assert not left, interrupt.where
        loop.close()
        assert breaker.remaining() is not None, interrupt.where

    # A coroutine that is not awaited complains as it goes: here, not in another test, nor where
    # Python cannot import what it complains with, such as in the __new__ of a named tuple.
    with gc_threshold(0):
        assert each_place(run, ctrl_c, but=("_make", "_finish")) > 100
        collect_garbage()


# What outlives a call

TOKEN = CancellationToken()
"""Outlives all calls."""


class Failure(Exception):
    """Is kept, weakly."""

    def __init__(self):
        left.append(weakref.ref(self))


left = []
"""What the attempts of a test have made, weakly."""


class Watched(Script):
    """An operation whose tokens are kept, weakly."""

    def _step(self):
        left.append(weakref.ref(own_token()))
        return super()._step()


def in_threads(operation, caught, _, **options):
    with suppress(caught):
        hedge_call(operation, TEN, **options)


def in_pool(operation, caught, _, **options):
    with ThreadPoolExecutor(8) as pool:
        in_threads(operation, caught, None, pool=pool, **options)


def in_loop(operation, caught, runner, **options):
    async def main():
        with suppress(caught):
            async with asyncio.timeout(100):
                await hedge_call_async(operation.in_loop, TEN, **options)

    runner.run(main())


def judges_long(_):
    """Accept a result, while the other attempt ends."""
    if not loop_runs():
        current_clock().sleep(10)
    return True


CASES = {
    "all fail": ([(1, Failure)], Failure, {}),
    "all fail at once": ([(0, Failure)], Failure, {"max_attempts": 3}),
    "success": ([(1, Failure), (1, Failure), (50, Failure), (2, 7)], (), {}),
    "losers": ([(50, 7), (45, Failure), (60, Failure)], (), {"timeout": 60}),
    "permanent": ([(50, Failure), (3, Failure)], Failure, {"on": KeyError}),
    "timeout": ([(1, Failure), (50, 7)], DeadlineExceeded, {"timeout": 20}),
    "of asyncio": ([(1, Failure), (500, 7)], TimeoutError, {"budget": RetryBudget()}),
    "rejected": ([(1, Failure), (1, 7)], Exception, {"until": lambda _: False}),
    "an end that nobody looks at": ([(15, Failure), (3, 7)], (), {"until": judges_long}),
}


@pytest.mark.parametrize("call", [in_threads, in_pool, in_loop])
@pytest.mark.parametrize("case", CASES)
def test_nothing_of_a_call_outlives_it(case, call, clock, join_attempts):
    steps, caught, options = CASES[case]
    left.clear()

    def call_and_forget():
        operation = Watched(
            *(
                takes(seconds, answer, cleanup=1, then=answer if answer is Failure else None)
                for seconds, answer in steps
            )
        )
        left.append(weakref.ref(operation))
        call(operation, caught, runner, token=TOKEN, **options)

    gc.collect()
    with gc_threshold(0), asyncio.Runner() as runner:
        call_and_forget()
        join_attempts()
        eventually(lambda: {ref() for ref in left} == {None}, "all has been dropped")
    assert len(left) > 1
    assert clock.pending() == []

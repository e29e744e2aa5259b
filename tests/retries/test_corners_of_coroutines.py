"""Corners of runs in coroutines: what comes late, what is left behind."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from backoff_ticker import (
    CancellationToken,
    ConstantBackOff,
    DeadlineExceeded,
    StopBackOff,
    ZeroBackOff,
    hedge_call_async,
    retry_call,
    retry_call_async,
)
from tests.retries.faces import in_loop
from tests.retries.scripts import Script


def test_an_operation_is_not_called_where_a_cancel_of_the_task_comes_first(clock):
    called = []

    async def operation():
        called.append(1)
        raise OSError

    def cancel(outcome):
        if outcome.attempts == 2:
            asyncio.current_task().cancel()

    async def main():
        token = CancellationToken(clock)
        await retry_call_async(operation, ConstantBackOff(1), token=token, on_attempt=cancel)

    with pytest.raises(asyncio.CancelledError):
        in_loop(main())
    assert called == [1]


def frames_left(main):
    """Return how many objects that ``main`` marks live on without the collector."""
    gc.collect()
    gc.disable()
    try:
        marks = asyncio.run(main())
        return sum(mark() is not None for mark in marks)
    finally:
        gc.enable()


class Mark:
    pass


def test_a_cut_attempt_leaves_no_cycle(clock):
    async def main():
        marks = []

        async def hang():
            mark = Mark()
            marks.append(weakref.ref(mark))
            await asyncio.sleep(100)

        for _ in range(3):
            try:
                await retry_call_async(hang, ZeroBackOff(), attempt_timeout=1, max_attempts=2)
            except TimeoutError:
                pass
        return marks

    assert frames_left(main) == 0


def test_a_scope_leaves_no_cycle(clock):
    async def main():
        marks = []

        async def hang():
            mark = Mark()
            marks.append(weakref.ref(mark))
            await asyncio.sleep(100)

        try:
            async with CancellationToken(clock).child(timeout=1).scope():
                await hang()
        except DeadlineExceeded:
            pass
        return marks

    assert frames_left(main) == 0


@pytest.mark.parametrize("options", [{}, {"notify": lambda *_: None}])
def test_an_interrupted_run_leaves_no_cycle(clock, options):
    async def main():
        marks = []

        class Failure(Exception):
            def __init__(self):
                marks.append(weakref.ref(self))

        async def fail():
            raise Failure

        task = asyncio.ensure_future(retry_call_async(fail, ConstantBackOff(10), **options))
        await asyncio.sleep(1)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            pass
        del task
        return marks

    assert frames_left(main) == 0


def test_a_hedge_returns_what_comes_in_spite_of_the_cut(clock):
    async def stubborn():
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            return 7

    async def at_once():
        return 8

    assert clock.run_async(hedge_call_async(stubborn, StopBackOff(), timeout=5)) == 7
    assert clock.run_async(hedge_call_async(at_once, StopBackOff(), timeout=0)) == 8


def test_an_interrupt_of_a_retry_that_comes_at_once_leaves_no_cycle(clock):
    marks = []

    class Failure(Exception):
        def __init__(self):
            marks.append(weakref.ref(self))

    gc.collect()
    gc.disable()
    try:
        with pytest.raises(KeyboardInterrupt):
            retry_call(Script(Failure, Failure, KeyboardInterrupt), ZeroBackOff())
        assert [mark() for mark in marks] == [None, None]
    finally:
        gc.enable()

"""What goes wrong at one place of a run leaves nothing behind: programs have found these."""

import asyncio
from contextlib import suppress

import pytest

from backoff_ticker import (
    CancellationToken,
    CircuitBreaker,
    RetryBudget,
    Timer,
    attempts,
    retry_call,
    retry_call_async,
)
from tests.circuits.circuits import half_open
from tests.helpers import SetClock
from tests.retries.faces import AND_HEDGES, IN_ASYNCIO, SYNC, async_call, async_loop, in_loop
from tests.retries.made_hooks import AsyncManager, Manager, spanning
from tests.retries.scripts import ONE, ZERO, Recorded, Script, Takes
from tests.stress.places import Interrupted


class FailsOnce:
    """A clock that fails when it is read for a given time."""

    def __init__(self, clock, left):
        self._clock, self._left = clock, left

    def __getattr__(self, name):
        return getattr(self._clock, name)

    def monotonic(self):
        self._left -= 1
        if self._left == 0:
            raise LookupError("the clock")
        return self._clock.monotonic()


@IN_ASYNCIO
def test_a_manager_around_one_that_raises_a_cancel_is_left(face):
    log = []

    async def main():
        groups = [lambda _: asyncio.TaskGroup()] * 2
        async with asyncio.timeout(5):
            around = [spanning(log, manager=AsyncManager), *groups]
            await face.main(Script(Takes(50, 7)), around=around)

    with pytest.raises(TimeoutError):
        in_loop(main())
    assert [which for _, which, *_ in log] == ["in", "out"]


def test_a_manager_is_left_as_far_as_that_does_not_wait_where_a_coroutine_is_closed(clock):
    async def main():
        semaphore = asyncio.Semaphore(1)

        async def rows():
            async for attempt in attempts(around=lambda _: semaphore):
                async with attempt:
                    yield attempt.number

        generator = rows()
        assert await anext(generator) == 1
        await generator.aclose()
        assert not semaphore.locked()
        called = retry_call_async(lambda: asyncio.sleep(50), around=lambda _: semaphore)
        called.send(None)
        assert semaphore.locked()
        called.close()
        assert not semaphore.locked()

    in_loop(main())


def test_a_coroutine_that_is_closed_after_its_token_was_cancelled_awaits_nothing(clock):
    async def scope(script, token):
        async with token.scope():
            await script.in_loop()

    async def main():
        for call in (async_call, async_loop, scope):
            token = CancellationToken()
            task = asyncio.ensure_future(call(Script(Takes(50, 7)), token=token))
            await asyncio.sleep(1)
            token.cancel()  # the task is cancelled in its next step
            asyncio.get_running_loop().call_soon(task.get_coro().close)
            with suppress(RuntimeError):  # of the task, whose coroutine is gone
                await task

    in_loop(main())


@SYNC
def test_a_timer_is_released_if_the_clock_fails_at_any_time(face, clock):
    for left in range(1, 30):
        timer, script = Timer(), Script(OSError)
        with pytest.raises((LookupError, OSError)):
            face.run(script, ONE, max_attempts=3, timer=timer, clock=FailsOnce(clock, left))
        assert face.run(Script(OSError, 7), ONE, timer=timer) == 7


def test_a_block_that_was_not_begun_is_cut_no_more_if_the_clock_fails(clock):
    async def main(left):
        failing = FailsOnce(clock, left)
        with suppress(LookupError, OSError):
            token = CancellationToken(timeout=3, clock=failing)
            async for attempt in attempts(ZERO, clock=failing, token=token):
                async with attempt:
                    if attempt.number < 3:
                        raise OSError
        failing._left = 0
        await asyncio.sleep(6)  # nobody cancels it

    for left in range(1, 30):
        in_loop(main(left))


@AND_HEDGES
@pytest.mark.parametrize("where", ["operation", "try_acquire", "allow", "record"])
def test_an_interrupt_in_an_attempt_reaches_the_caller_and_nothing_stays_taken(
    face, monkeypatch, where
):
    budget, breaker = RetryBudget(5, token_ratio=0), half_open(SetClock(), on=OSError)
    answer = LookupError  # an answer of the service, but retried
    script = Script(answer, Interrupted if where == "operation" else answer)
    for kind in (RetryBudget, CircuitBreaker):
        if hasattr(kind, where):
            monkeypatch.setattr(kind, where, Recorded(Interrupted))
    face.fails(Interrupted, script, ONE, budget=budget, breaker=breaker)
    calls = {"operation": 2, "try_acquire": 1, "allow": 0, "record": 1}[where]
    assert (script.count, budget.tokens) == (calls, 5 - (where == "operation"))
    assert breaker.remaining() == 0


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_is_not_replaced_by_what_a_manager_answers(clock, kind):
    class Wrong(Manager):
        def __exit__(self, *told):
            super().__exit__(*told)
            return asyncio.sleep(1)

    log = []
    with pytest.raises(kind):
        retry_call(Script(kind), around=[spanning(log, "outer"), spanning(log, "inner", Wrong)])
    assert [name for _, which, name, *_ in log if which == "out"] == ["inner 1", "outer 1"]

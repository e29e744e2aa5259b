"""CircuitBreaker.guard(): each block is a call of its own, wherever it is entered and left."""

import asyncio
import contextvars

import pytest

from backoff_ticker import CircuitBreaker, CircuitOpen, ConstantBackOff
from tests.circuits.circuits import CLOSED, HALF_OPEN, OPEN, fail, half_open, opened, refused
from tests.helpers import PATIENCE, collect_garbage, in_thread
from tests.retries.faces import in_loop


def entered(breaker):
    guard = breaker.guard()
    guard.__enter__()
    return guard


def leave(guard, error=None):
    guard.__exit__(type(error), error, None)


async def leave_async(guard, error=None):
    await guard.__aexit__(type(error), error, None)


def in_another_thread(guard, error=None):
    in_thread(leave, guard, error).result(PATIENCE)


def in_another_context(guard, error=None):
    contextvars.Context().run(leave, guard, error)


def in_another_task(guard, error=None):
    async def main():
        await asyncio.create_task(leave_async(guard, error))

    in_loop(main())


ELSEWHERE = [leave, in_another_thread, in_another_context, in_another_task]


@pytest.mark.parametrize("leave", ELSEWHERE, ids=lambda leave: leave.__name__)
def test_calls_that_overlap_are_told_apart_wherever_they_end(now, leave):
    breaker = CircuitBreaker(ConstantBackOff(10), failures=1, clock=now)
    early = [entered(breaker) for _ in range(2)]
    fail(breaker)
    now.advance(10)
    probe = entered(breaker)
    leave(early[0], OSError())
    assert breaker.state is HALF_OPEN, "the early call is not the probe"
    refused(breaker)
    leave(probe)
    assert breaker.state is CLOSED
    later = entered(breaker)
    leave(early[1], OSError())
    assert breaker.state is CLOSED, "nor is it of the time after the outage"
    leave(later, OSError())
    assert breaker.state is OPEN


def test_a_guard_is_for_one_block(now):
    breaker = half_open(now, successes=3)
    guard = entered(breaker)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"a guard is for one block: call guard\(\) again"):
            guard.__enter__()
        with pytest.raises(RuntimeError), guard:
            raise AssertionError
        assert breaker.remaining() is None, "the probe of its first entry still runs"
        leave(guard)
        assert (breaker.state, breaker.remaining()) == (HALF_OPEN, 0)
        guard = entered(breaker)

    async def main():
        async with guard:
            raise AssertionError

    with pytest.raises(RuntimeError):
        in_loop(main())


def test_a_guard_that_was_refused_was_not_entered(now):
    breaker = opened(now)
    guard = breaker.guard()
    with pytest.raises(CircuitOpen), guard:
        raise AssertionError
    now.advance(10)
    with guard:
        refused(breaker)
    assert breaker.state is CLOSED


def test_an_async_generator_that_its_loop_closes_frees_its_probe(now):
    breaker = half_open(now)

    async def rows():
        async with breaker.guard():
            yield 1
            yield 2

    async def main():
        async for _ in rows():
            refused(breaker)
            break
        collect_garbage()
        await asyncio.sleep(0)  # the loop closes it in a task of its own
        await asyncio.sleep(0)
        assert breaker.remaining() == 0
        assert [row async for row in rows()] == [1, 2]

    in_loop(main())
    assert breaker.state is CLOSED

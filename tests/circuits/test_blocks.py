"""CircuitBreaker: which ``with`` block is left, in threads, tasks, stacks and generators."""

import asyncio
import contextlib
import contextvars
import weakref
from contextlib import ExitStack

import pytest

from backoff_ticker import CircuitBreaker, ConstantBackOff
from tests.circuits.circuits import (
    CLOSED,
    HALF_OPEN,
    OPEN,
    fail,
    half_open,
    none_is_open,
    refused,
    succeed,
)
from tests.helpers import collect_garbage
from tests.retries.faces import in_loop
from tests.stress.tools import gc_threshold


async def in_a_task(block):
    """Begin a call in a task of its own; return what ends it, by an error or well."""
    ends = asyncio.get_running_loop().create_future()

    async def call():
        async with block:
            error = await ends
            if error is not None:
                raise error

    task = asyncio.create_task(call())
    await asyncio.sleep(0)

    async def end(error=None):
        ends.set_result(error)
        with contextlib.suppress(OSError):
            await task

    return end


async def in_a_context(block):
    """Do the same in a generator, in a context such as each thread has."""
    called, context = generator(block), contextvars.copy_context()
    context.run(next, called)

    async def end(error=None):
        with contextlib.suppress(OSError, StopIteration):
            context.run(called.send, error)

    return end


def generator(block, error=None):
    """Make a call between the first and the second step of a generator."""
    with block:
        error = (yield) or error
        if error is not None:
            raise error


@pytest.mark.parametrize("begin", [in_a_task, in_a_context])
def test_calls_that_overlap_are_told_apart(now, begin):
    breaker = CircuitBreaker(ConstantBackOff(10), failures=1, clock=now)

    async def main():
        early = [await begin(breaker) for _ in range(2)]
        fail(breaker)
        now.advance(10)
        probe = await begin(breaker)
        await early[0](OSError())
        assert breaker.state is HALF_OPEN, "the early call is not the probe"
        refused(breaker)
        await probe()
        assert breaker.state is CLOSED
        later = await begin(breaker)
        await early[1](OSError())
        assert breaker.state is CLOSED, "nor is it of the time after the outage"
        await later(OSError())
        assert breaker.state is OPEN

    in_loop(main())
    assert none_is_open(breaker)


def test_blocks_of_several_breakers_may_be_nested(now):
    one, other = (CircuitBreaker(ConstantBackOff(10), failures=most, clock=now) for most in (4, 2))
    for _ in range(2):
        with contextlib.suppress(OSError), one:
            with contextlib.suppress(LookupError), other, one:
                raise LookupError
            raise OSError
    assert (one.state, other.state) == (OPEN, OPEN)
    assert none_is_open(one)
    assert none_is_open(other)


def test_blocks_of_two_breakers_need_not_be_nested(now):
    breakers = half_open(now), half_open(now)
    for _ in range(3):  # probes, then calls of a closed circuit
        stacks = ExitStack(), ExitStack()
        for stack, breaker in zip(stacks, breakers, strict=True):
            stack.enter_context(breaker)
        for stack, breaker in zip(stacks, breakers, strict=True):
            stack.close()
            assert none_is_open(breaker)
            assert breaker.state is CLOSED


@pytest.mark.parametrize("parent_is_probe", [False, True])
def test_a_task_started_in_a_block_has_blocks_of_its_own(now, *, parent_is_probe):
    breaker = CircuitBreaker(ConstantBackOff(10), failures=1, probes=2, successes=2, clock=now)
    if parent_is_probe:
        fail(breaker)
        now.advance(10)

    async def main():
        async with breaker:
            if not parent_is_probe:
                fail(breaker)
                now.advance(10)
            child = await in_a_task(breaker)
            await child()
            assert breaker.state is HALF_OPEN
            late = await in_a_task(breaker)
        assert breaker.state is (CLOSED if parent_is_probe else HALF_OPEN)
        await late()
        assert breaker.state is CLOSED

    in_loop(main())
    assert none_is_open(breaker)


def elsewhere(function, *args):
    """Call it in a context of its own, which is gone when it returns."""
    return contextvars.Context().run(function, *args)


def test_a_block_that_is_left_elsewhere_counts(now):
    breaker = CircuitBreaker(ConstantBackOff(10), failures=3, clock=now)
    failing = [generator(breaker, OSError()) for _ in range(3)]
    for each in failing:
        elsewhere(next, each)
    for each in failing:
        assert breaker.state is CLOSED
        with pytest.raises(OSError):
            elsewhere(next, each)
    assert breaker.state is OPEN
    now.advance(10)
    probe = generator(breaker)
    elsewhere(next, probe)
    refused(breaker)
    elsewhere(next, probe, None)
    assert breaker.state is CLOSED
    assert none_is_open(breaker)


def test_what_may_be_of_another_call_counts_for_nothing(now):
    breaker = CircuitBreaker(ConstantBackOff(10), failures=1, clock=now)
    early, late = generator(breaker, OSError()), generator(breaker, OSError())
    elsewhere(next, early)
    fail(breaker)
    now.advance(10)
    with breaker:  # the probe
        with pytest.raises(OSError):
            elsewhere(next, early)
        assert breaker.state is HALF_OPEN
        refused(breaker)
    assert breaker.state is CLOSED, "the probe was left where it was entered"
    assert none_is_open(breaker)
    elsewhere(next, late)
    with pytest.raises(OSError):
        elsewhere(next, late)
    assert breaker.state is OPEN, "one call is open, so it is this one"


def test_a_call_of_the_past_never_counts_for_one_of_the_present(now):
    """Whichever order they end in: see ``_left_elsewhere()``."""
    for order in [(0, 1, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1)]:
        breaker = CircuitBreaker(ConstantBackOff(10), failures=1, clock=now)
        calls = [generator(breaker, OSError()) for _ in range(2)]
        for each in calls:
            elsewhere(next, each)
        fail(breaker)
        now.advance(10)
        calls.append(generator(breaker))
        elsewhere(next, calls[2])
        for index in order:
            with contextlib.suppress(OSError):
                elsewhere(next, calls[index], None)
            assert breaker.state is not OPEN
        assert none_is_open(breaker)


class Value:
    """What a context variable of a program has."""


of_request = contextvars.ContextVar("of_request")


@pytest.mark.parametrize("is_left_elsewhere", [False, True])
@pytest.mark.parametrize("kind", ["closed", "probe", "closed meanwhile"])
def test_no_context_is_kept(now, kind, *, is_left_elsewhere):
    breaker = CircuitBreaker(clock=now)
    if kind == "probe":
        breaker = half_open(now)
    elif kind == "closed meanwhile":
        breaker = half_open(now, may_probe=lambda: breaker.reset() or True)

    def call():
        value = Value()
        of_request.set(value)
        entered = generator(breaker)
        next(entered)
        if not is_left_elsewhere:
            next(entered, None)
        return entered, weakref.ref(value)

    with gc_threshold(0):
        entered, value = elsewhere(call)
        elsewhere(next, entered, None)
        del entered
        assert value() is None


def test_blocks_that_overlap_in_one_context_are_taken_as_nested(now):
    breaker = half_open(now, probes=2, successes=2)
    first, second = generator(breaker), generator(breaker)
    next(first)
    now.advance(30)
    next(second)
    now.advance(30)  # the time of the first probe is over
    next(first, None)
    assert breaker.remaining() == 0, "the place of the second is free"
    succeed(breaker)
    assert breaker.state is CLOSED
    next(second, None)
    assert breaker.state is CLOSED
    assert none_is_open(breaker)


def test_breakers_leave_nothing_in_the_context(now):
    before = dict(contextvars.copy_context())
    for _ in range(3):
        breaker = half_open(now)
        with breaker, CircuitBreaker(clock=now):
            assert len(contextvars.copy_context()) > len(before)
        with pytest.raises(OSError), breaker:
            raise OSError
    assert dict(contextvars.copy_context()) == before


def test_a_job_that_starts_its_next_run_in_a_block_keeps_no_run_alive(now):
    breaker = CircuitBreaker(clock=now)
    values = []

    async def job(left):
        value = Value()
        of_request.set(value)
        values.append(weakref.ref(value))
        del value
        async with breaker:
            assert sum(each() is not None for each in values) < 5
            if not left:
                return None
            started = asyncio.create_task(job(left - 1))
            await asyncio.sleep(0)  # it enters its block before this one is left
            return started

    async def main():
        running = asyncio.create_task(job(50))
        while running is not None:
            running = await running

    with gc_threshold(0):
        in_loop(main())
    assert len(values) == 51
    assert none_is_open(breaker)


def test_an_async_generator_that_its_loop_closes_frees_its_probe(now):
    breaker = half_open(now)

    async def rows():
        async with breaker:
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

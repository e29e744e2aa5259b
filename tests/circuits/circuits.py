"""The ways to make a call through a circuit breaker, and breakers in each state."""

import asyncio
import contextlib

import pytest

from backoff_ticker import CircuitBreaker, CircuitOpen, CircuitState, ConstantBackOff
from tests.helpers import sleep
from tests.retries.faces import in_loop, in_trio

CLOSED, OPEN, HALF_OPEN = CircuitState


def done(outcome):
    """Return the outcome of a call, or raise it."""
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def with_block(breaker, outcome):
    with breaker.guard():
        return done(outcome)


async def guarded(breaker, outcome):
    async with breaker.guard():
        await sleep(0)
        return done(outcome)


def async_with_block(breaker, outcome, run=in_loop):
    return run(guarded(breaker, outcome))


def async_with_block_in_trio(breaker, outcome):
    return in_trio(guarded(breaker, outcome))


def decorated(breaker, outcome):
    @breaker
    def call(outcome):
        return done(outcome)

    return call(outcome)


def decorated_coroutine(breaker, outcome, run=in_loop):
    @breaker
    async def call(outcome):
        await asyncio.sleep(0)
        return done(outcome)

    return run(call(outcome))


def told(breaker, outcome):
    ticket = breaker.allow()
    breaker.record(ticket, outcome if isinstance(outcome, BaseException) else None)
    return done(outcome)


WAYS = [with_block, async_with_block, decorated, decorated_coroutine, told]


def fail(breaker, times=1, error=OSError, way=told):
    for _ in range(times):
        with pytest.raises(error):
            way(breaker, error())


def succeed(breaker, times=1, way=told):
    for number in range(times):
        assert way(breaker, number) == number


def refused(breaker, way=told):
    with pytest.raises(CircuitOpen) as caught:
        way(breaker, "not reached")
    assert caught.value.breaker is breaker
    return caught.value


def opened(now, **options):
    """Return a breaker that has just opened for 10 s."""
    breaker = CircuitBreaker(ConstantBackOff(10), failures=1, clock=now, **options)
    fail(breaker)
    return breaker


def half_open(now, **options):
    breaker = opened(now, **options)
    now.advance(10)
    return breaker


def walk(breaker, now, way=with_block):
    """Bring a breaker through all its states."""
    for outcome in [None, OSError(), OSError()]:
        with contextlib.suppress(OSError, CircuitOpen):
            way(breaker, outcome)
    now.advance(20)
    for outcome in [OSError(), None]:
        with contextlib.suppress(OSError, CircuitOpen):
            way(breaker, outcome)
        now.advance(20)

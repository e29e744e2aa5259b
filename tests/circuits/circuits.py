"""The ways to make a call through a circuit breaker, and breakers in each state."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import CircuitBreaker, CircuitOpen, CircuitState, ConstantBackOff
from tests.retries.faces import in_loop

if TYPE_CHECKING:
    from tests.helpers import SetClock

CLOSED, OPEN, HALF_OPEN = CircuitState


def done(outcome: object) -> object:
    """Return the outcome of a call, or raise it."""
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


# The ways to make a call


def with_block(breaker: CircuitBreaker, outcome: object) -> object:
    with breaker as entered:
        assert entered is breaker
        return done(outcome)


def async_with_block(breaker: CircuitBreaker, outcome: object) -> object:
    async def main() -> object:
        async with breaker as entered:
            assert entered is breaker
            await asyncio.sleep(0)
            return done(outcome)

    return in_loop(main())


def decorated(breaker: CircuitBreaker, outcome: object) -> object:
    @breaker
    def call(outcome: object) -> object:
        return done(outcome)

    return call(outcome)


def decorated_coroutine(breaker: CircuitBreaker, outcome: object) -> object:
    @breaker
    async def call(outcome: object) -> object:
        await asyncio.sleep(0)
        return done(outcome)

    return in_loop(call(outcome))


def in_a_stack(breaker: CircuitBreaker, outcome: object) -> object:
    with ExitStack() as stack:
        stack.enter_context(breaker)
        return done(outcome)
    raise AssertionError


def told(breaker: CircuitBreaker, outcome: object) -> object:
    ticket = breaker.allow()
    breaker.record(ticket, outcome if isinstance(outcome, BaseException) else None)
    return done(outcome)


WAYS = [
    *(with_block, async_with_block, decorated, decorated_coroutine, in_a_stack, told),
]


def none_is_open(breaker: CircuitBreaker) -> bool:
    """Find that no block of the breaker is open, here or elsewhere: none can be left."""
    with pytest.raises(RuntimeError) as caught:
        breaker.__exit__(None, None, None)
    return str(caught.value).endswith(" was left, but not entered")


def fail(breaker: CircuitBreaker, times: int = 1, error: Any = OSError, way: Any = told) -> None:
    for _ in range(times):
        with pytest.raises(error):
            way(breaker, error())


def succeed(breaker: CircuitBreaker, times: int = 1, way: Any = told) -> None:
    for number in range(times):
        assert way(breaker, number) == number


def refused(breaker: CircuitBreaker, way: Any = told) -> CircuitOpen:
    with pytest.raises(CircuitOpen) as caught:
        way(breaker, "not reached")
    assert caught.value.breaker is breaker
    return caught.value


def opened(now: SetClock, **options: Any) -> CircuitBreaker:
    """Return a breaker that has just opened for 10 s."""
    breaker = CircuitBreaker(ConstantBackOff(10), failures=1, clock=now, **options)
    fail(breaker)
    return breaker


def half_open(now: SetClock, **options: Any) -> CircuitBreaker:
    breaker = opened(now, **options)
    now.advance(10)
    return breaker


def walk(breaker: CircuitBreaker, now: SetClock, way: Any = with_block) -> None:
    """Bring a breaker through all its states."""
    for outcome in [None, OSError(), OSError()]:
        with contextlib.suppress(OSError, CircuitOpen):
            way(breaker, outcome)
    now.advance(20)
    for outcome in [OSError(), None]:
        with contextlib.suppress(OSError, CircuitOpen):
            way(breaker, outcome)
        now.advance(20)

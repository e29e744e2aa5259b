"""What type checkers make of the retries; checked by mypy and pyright, never run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import partial
from typing import Any, Unpack, assert_type

from backoff_ticker import (
    Attempt,
    CancellationToken,
    CircuitBreaker,
    CircuitState,
    CircuitTicket,
    ConstantBackOff,
    Outcome,
    RetryBudget,
    RetryOptions,
    StopReason,
    attempts,
    hedge_call,
    hedge_call_async,
    retry,
    retry_call,
    retry_call_async,
)

policy = ConstantBackOff(1)

# Functions


@retry
def bare(count: int, *, name: str = "") -> list[str]:
    return [name] * count


@retry(policy, on=(OSError, ValueError), max_attempts=3)
def called(count: int, *, name: str = "") -> list[str]:
    return [name] * count


@retry(max_attempts=3)
async def coroutine(count: int) -> str:
    return "x" * count


@retry()
def generator(count: int) -> Iterator[int]:
    yield from range(count)


@retry(backoff=policy)
async def async_generator(count: int) -> AsyncIterator[int]:
    yield count


assert_type(bare(1, name="a"), list[str])
assert_type(called(1, name="a"), list[str])
assert_type(generator(1), Iterator[int])
assert_type(async_generator(1), AsyncIterator[int])
bare("1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
called(1, nam="a")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]

# Methods and other callables


class Client:
    @retry
    def fetch(self, path: str) -> bytes:
        return path.encode()

    @retry(policy)
    async def fetch_async(self, path: str) -> bytes:
        return path.encode()

    @classmethod
    @retry
    def make(cls, path: str) -> Client:
        return cls()

    @staticmethod
    @retry(policy)
    def parse(path: str) -> int:
        return len(path)


class Counter:
    def __call__(self, step: int) -> int:
        return step


assert_type(Client().fetch("a"), bytes)
assert_type(Client.make("a"), Client)
assert_type(Client.parse("a"), int)
assert_type(retry(Counter())(1), int)
assert_type(retry(partial(called, 1))(name="b"), list[str])
assert_type(retry(policy)(partial(called, 1))(name="b"), list[str])
Client().fetch(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

# Calls

assert_type(retry_call(lambda: 1, policy), int)
assert_type(retry_call(partial(bare, 2)), list[str])
assert_type(hedge_call(partial(bare, 2), policy, pool=None, max_attempts=2), list[str])
retry_call(lambda: 1, policy, max_attempt=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def calls() -> None:
    assert_type(await coroutine(1), str)
    assert_type(await Client().fetch_async("a"), bytes)
    awaited: Coroutine[Any, Any, str] = coroutine(1)
    await awaited
    assert_type(await retry_call_async(partial(coroutine, 1), policy, attempt_timeout=1), str)
    assert_type(await hedge_call_async(partial(coroutine, 1), policy, max_attempts=2), str)
    async for attempt in attempts(policy):
        assert_type(attempt, Attempt)
        async with attempt as same:
            assert_type(same, Attempt)
        with attempt as same:
            assert_type(same, Attempt)


# Loops and hooks


def loop() -> int:
    run = attempts(policy, on=lambda error: 1.5, token=CancellationToken(), budget=RetryBudget())
    for attempt in run:
        with attempt:
            attempt.set_result(1)
    assert_type(run.outcome, Outcome)
    assert_type(run.outcome.reason, StopReason | None)
    return run.outcome.attempts


def passed_on(operation: Callable[[], int], **options: Unpack[RetryOptions]) -> int:
    return retry_call(operation, policy, **options)


passed_on(lambda: 1, on_retry=lambda outcome: outcome.delay, timeout=3)


# Circuit breakers


def on_change(old: CircuitState, new: CircuitState, which: CircuitBreaker) -> None: ...


breaker = CircuitBreaker(policy, on=(OSError, ValueError), on_change=[on_change])
CircuitBreaker(on={OSError: True}, failure_rate=0.5, window=30, on_change=on_change)
CircuitBreaker(on=lambda error: bool(error.args), failures=3)
CircuitBreaker(on=KeyboardInterrupt)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
CircuitBreaker(failure=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


@breaker
def guarded(count: int, *, name: str = "") -> list[str]:
    return [name] * count


@breaker
async def guarded_coroutine(count: int) -> str:
    return "x" * count


class Guarded:
    @breaker
    def method(self, count: int) -> int:
        return count


async def use_breaker() -> None:
    assert_type(guarded(1, name="a"), list[str])
    assert_type(await guarded_coroutine(1), str)
    assert_type(Guarded().method(1), int)
    guarded("1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with breaker as entered:
        assert_type(entered, CircuitBreaker)
    async with breaker as entered:
        assert_type(entered, CircuitBreaker)
    ticket = breaker.allow()
    assert_type(ticket, CircuitTicket)
    breaker.record(ticket, OSError())
    assert_type(breaker.remaining(), float | None)
    assert_type(breaker.state, CircuitState)

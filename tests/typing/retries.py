"""What type checkers make of the retries; checked by mypy and pyright, never run."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from functools import partial
from typing import Any, TypeVar, Unpack, assert_type, overload
from unittest.mock import Mock

from backoff_ticker import (
    Attempt,
    BudgetLike,
    CancellationToken,
    CircuitBreaker,
    CircuitState,
    ConstantBackOff,
    Outcome,
    RetryBudget,
    StopReason,
    attempts,
    configure,
    current_attempt,
    hedge_call,
    hedge_call_async,
    is_active,
    log_retries,
    retry,
    retry_call,
    retry_call_async,
    retry_options,
    retry_with,
)
from backoff_ticker.types import Attempts, CircuitGuard, CircuitTicket, RetryOptions

policy = ConstantBackOff(1)
pages: list[str] = []
T = TypeVar("T")

# Functions


@retry
def bare(count: int, *, name: str = "") -> list[str]:
    return [name] * count


@retry(policy, on=ConnectionError | TimeoutError, max_attempts=3)
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

# Generic and overloaded functions


@retry
def bare_identity(value: T) -> T:
    return value


@retry(policy, on=OSError)
def identity(value: T) -> T:
    return value


@overload
def doubled(value: int) -> int: ...
@overload
def doubled(value: str) -> str: ...
@retry(policy)
def doubled(value: Any) -> Any:
    return value * 2


assert_type(bare_identity(1), int)
assert_type(identity(b""), bytes)
assert_type(retry(doubled)("a"), str)
assert_type(retry(max_attempts=2)(doubled)(1), int)

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

    @retry
    @classmethod
    def make_too(cls, path: str) -> Client:
        return cls()

    @retry(policy)
    @staticmethod
    def parse_too(path: str) -> int:
        return len(path)

    @retry(fallback=None)
    def fetch_or_none(self, path: str) -> bytes:
        return path.encode()


class Counter:
    def __call__(self, step: int) -> int:
        return step


assert_type(Client().fetch("a"), bytes)
assert_type(Client.make("a"), Client)
assert_type(Client.parse("a"), int)
assert_type(Client().make_too("a"), Client)
assert_type(Client.parse_too("a"), int)
assert_type(Client().fetch_or_none("a"), bytes | None)
assert_type(retry(policy)(Client().fetch)("a"), bytes)
assert_type(retry(Counter())(1), int)
assert_type(retry(partial(called, 1))(name="b"), list[str])
assert_type(retry(policy)(partial(called, 1))(name="b"), list[str])

# Options


@contextmanager
def span(outcome: Outcome) -> Iterator[None]:
    yield


@asynccontextmanager
async def async_span(outcome: Outcome) -> AsyncIterator[None]:
    yield


def log(outcome: Outcome) -> None: ...


async def send(outcome: Outcome) -> None: ...


async def is_transient(error: Exception) -> bool:
    return True


@retry(
    on={ConnectionError: True, BlockingIOError: 1.5, TimeoutError: policy, OSError: False},
    until=re.compile("x").search,
    notify=print,
    around=[span, lambda outcome: nullcontext()],
    on_attempt=log,
    on_retry=(lambda outcome: outcome.delay, log),
    on_give_up=lambda outcome: pages.clear(),
)
def with_options(count: int) -> list[str]:
    return [""] * count


RULES = {OSError: True}
HOOKS = [log, log]


@retry(on=RULES, on_retry=HOOKS, until=lambda page: page)
def with_constants(count: int) -> list[str]:
    return [""] * count


@retry(on=is_transient, attempt_timeout=1, around=[span, async_span], on_attempt=[log, send])
async def coroutine_with_options(count: int) -> str:
    return "x" * count


@retry(on=lambda error: True)
async def coroutine_with_a_lambda(count: int) -> str:
    return "x" * count


assert_type(with_options(1), list[str])
assert_type(with_constants(1), list[str])

# Other options, and those of the process

assert_type(retry_with(called, max_attempts=1)(1, name="a"), list[str])
assert_type(retry_with(called, ConstantBackOff(2), on=lambda error: True)(1), list[str])
assert_type(retry_with(Client().fetch, token=None)("a"), bytes)
assert_type(retry_with(doubled, timeout=1)("a"), str)
assert_type(retry_with(async_generator, attempt_timeout=1)(1), AsyncIterator[int])
retry_with(called, fallback=None)(1, name="a")
again = retry(**retry_options(called))(called)
assert_type(retry(on_retry=log_retries(), on_give_up=[log_retries(), log])(called)(1), list[str])
assert_type(retry(breaker=CircuitBreaker(), budget=RetryBudget())(called)(1), list[str])


class Unlimited:
    def try_acquire(self) -> bool:
        return True

    def release(self) -> None: ...
    def success(self) -> None: ...


own: BudgetLike = Unlimited()
assert_type(retry_call(lambda: called(1), budget=own), list[str])
assert_type(CircuitBreaker()(doubled)("a"), str)
assert_type(CircuitBreaker()(called)(1, name="a"), list[str])

configure(notify=print, on_retry=[log, log], on_success=None, around=span)
with configure(active=False, token=None, notes=False):
    assert_type(is_active(), bool)
current = current_attempt()
assert_type(current, Attempt | None)
if current is not None:
    assert_type(current.number, int)
    assert_type(current.time_left, float | None)
    assert_type(current.token, CancellationToken)
    assert_type(current.outcome, Outcome)

assert_type(retry(name="fetch", note=False, attempt_timeout=None)(called)(1), list[str])
assert_type(attempts(name="fetch", attempt_timeout=None).outcome.name, str)
assert_type(hedge_call(partial(bare, 2), name="fetch", note=False), list[str])

# What is not typed


class AnyFactory:
    def __call__(self) -> Any: ...


def anything(count: int) -> Any:
    return count


assert_type(retry_call(lambda: anything(1), max_attempts=2), Any)
assert_type(retry_call(AnyFactory()), Any)
assert_type(retry_call(Mock()), Any)
assert_type(hedge_call(AnyFactory()), Any)
assert_type(retry(policy)(anything)(1), Any)
assert_type(retry(policy)(Mock()), Mock)
assert_type(retry(fallback=None)(anything)(1), Any)  # type: ignore[no-untyped-call]  # of mypy only

# Fallbacks


def last_page(outcome: Outcome) -> bytes:
    return b""


async def other_page(outcome: Outcome) -> bytes:
    return b""


@retry(fallback=None)
def or_none(count: int) -> int:
    return count


@retry(policy, on=lambda error: True, fallback=last_page)
def or_bytes(count: int) -> int:
    return count


@retry(fallback=other_page)
async def coroutine_or_bytes(count: int) -> int:
    return count


assert_type(or_none(1), int | None)
assert_type(or_bytes(1), int | bytes)
assert_type(retry_call(lambda: 1, fallback=None), int | None)
assert_type(retry_call(lambda: 1, fallback=0), int)
assert_type(retry_call(lambda: 1, on=lambda error: 1.5, fallback=last_page), int | bytes)

# Calls

assert_type(retry_call(lambda: 1, policy), int)
assert_type(retry_call(partial(bare, 2)), list[str])
assert_type(
    retry_call(lambda: 1, on=lambda error: True, on_retry=lambda outcome: pages.clear()), int
)
assert_type(hedge_call(partial(bare, 2), policy, pool=None, max_attempts=2), list[str])
assert_type(hedge_call(partial(bare, 2), fallback=None), list[str] | None)


async def calls() -> None:
    assert_type(await coroutine(1), str)
    assert_type(await coroutine_with_options(1), str)
    assert_type(await retry_with(coroutine, attempt_timeout=1)(1), str)
    assert_type(await retry_with(coroutine, on_retry=lambda outcome: None)(1), str)
    assert_type(await CircuitBreaker()(coroutine)(1), str)
    assert_type(await coroutine_with_a_lambda(1), str)
    assert_type(await coroutine_or_bytes(1), int | bytes)
    assert_type(await Client().fetch_async("a"), bytes)
    awaited: Coroutine[Any, Any, str] = coroutine(1)
    await awaited
    assert_type(await retry_call_async(partial(coroutine, 1), policy, attempt_timeout=1), str)
    assert_type(
        await retry_call_async(lambda: coroutine(1), on=is_transient, fallback=1), str | int
    )
    assert_type(await retry_call_async(partial(coroutine, 1), fallback=other_page), str | bytes)
    assert_type(await hedge_call_async(partial(coroutine, 1), policy, max_attempts=2), str)
    assert_type(await hedge_call_async(partial(coroutine, 1), fallback=last_page), str | bytes)
    assert_type(
        await hedge_call_async(partial(coroutine, 1), on=is_transient, fallback=1), str | int
    )
    async for attempt in attempts(policy):
        assert_type(attempt, Attempt)
        async with attempt as same:
            assert_type(same, Attempt)
        with attempt as same:
            assert_type(same, Attempt)
    async for attempt in attempts(on=is_transient, attempt_timeout=1, on_retry=send):
        assert_type(attempt, Attempt)


# Loops


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


async def passed_on_async(
    operation: Callable[[], Coroutine[Any, Any, int]], **options: Unpack[RetryOptions]
) -> int:
    return await retry_call_async(operation, policy, **options)


def passed_to_a_loop(**options: Unpack[RetryOptions]) -> None:
    for attempt in attempts(policy, **options):
        assert_type(attempt, Attempt)


def returned_from_a_loop() -> int:
    for attempt in attempts(policy):
        with attempt:
            return called(1).count("page")
    raise AssertionError("unreachable")


def passed_to_a_decorator(**options: Unpack[RetryOptions]) -> int:
    return retry(**options)(or_none)(1) or 0


def annotated(run: Attempts) -> None:
    for attempt in run:
        assert_type(attempt, Attempt)


# Circuit breakers


def on_change(old: CircuitState, new: CircuitState, which: CircuitBreaker) -> None: ...


breaker = CircuitBreaker(policy, on=(OSError, ValueError), on_change=[on_change])
CircuitBreaker(on=OSError | ValueError)
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
    with breaker.guard() as entered:
        assert_type(entered, CircuitGuard)
    async with breaker.guard() as entered:
        assert_type(entered, CircuitGuard)
    with breaker:  # type: ignore[attr-defined]  # pyright: ignore[reportGeneralTypeIssues]
        pass
    ticket = breaker.allow()
    assert_type(ticket, CircuitTicket)
    breaker.record(ticket, OSError())
    assert_type(breaker.remaining(), float | None)
    assert_type(breaker.state, CircuitState)

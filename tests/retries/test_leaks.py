"""After a run nothing of it is kept: errors, results and operations go without the collector."""

from __future__ import annotations

import asyncio
import gc
import inspect
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    DeadlineExceeded,
    Permanent,
    RetryAfter,
    RetryBudget,
    attempts,
    retry,
    retry_call,
    retry_call_async,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backoff_ticker.testing import VirtualClock


class Failure(Exception):
    """Remembers, weakly, each of its kind."""

    made: list[weakref.ref[Failure]] = []  # noqa: RUF012 - emptied by each test

    def __init__(self) -> None:
        self.made.append(weakref.ref(self))


class Result:
    """What an operation returns."""


def fail() -> Any:
    raise Failure


async def fail_async() -> Any:
    raise Failure


@pytest.fixture(autouse=True)
def _no_collector(clock: VirtualClock) -> Iterator[None]:
    Failure.made.clear()
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def call(**options: Any) -> None:
    retry_call(fail, ConstantBackOff(1), **options)


def decorated(**options: Any) -> None:
    retry(ConstantBackOff(1), **options)(fail)()


def loop(**options: Any) -> None:
    for attempt in attempts(ConstantBackOff(1), **options):
        with attempt:
            fail()


async def call_async(**options: Any) -> None:
    await retry_call_async(fail_async, ConstantBackOff(1), **options)


async def decorated_async(**options: Any) -> None:
    await retry(ConstantBackOff(1), **options)(fail_async)()


async def loop_async(**options: Any) -> None:
    async for attempt in attempts(ConstantBackOff(1), **options):
        async with attempt:
            await fail_async()


def alive(run: Callable[..., Any], **options: Any) -> list[bool]:
    """Return which of the errors of a run still live after its last one was caught."""
    if not inspect.iscoroutinefunction(run):
        try:
            run(**options)
        except (Failure, Cancelled):
            pass
        return [made() is not None for made in Failure.made]

    async def main() -> list[bool]:
        try:
            await run(**options)
        except (Failure, Cancelled):
            pass
        return [made() is not None for made in Failure.made]

    return asyncio.run(main())


CALLS = pytest.mark.parametrize("run", [call, decorated, call_async, decorated_async])
LOOPS = pytest.mark.parametrize("run", [loop, loop_async])


@CALLS
def test_no_error_outlives_its_run(run: Any) -> None:
    assert alive(run, max_attempts=3) == [False] * 3


@LOOPS
def test_of_a_loop_only_the_last_error_waits_for_the_collector(run: Any) -> None:
    """Its own frame holds the attempt, which tells the error."""
    assert alive(run, max_attempts=4)[:3] == [False] * 3


@CALLS
def test_no_error_outlives_a_run_with_everything(run: Any) -> None:
    outcomes = []
    options = {
        "on": lambda error: True,
        "until": bool,
        "token": CancellationToken(),
        "timeout": 60,
        "notify": lambda *_: None,
        "on_attempt": lambda outcome: outcomes.append(outcome.attempts),
        "on_retry": lambda _: None,
        "on_give_up": lambda _: None,
        "budget": RetryBudget(),
    }
    assert alive(run, max_attempts=3, **options) == [False] * 3
    assert outcomes == [1, 2, 3]


@CALLS
def test_no_error_outlives_a_run_that_is_cancelled_or_out_of_time(
    run: Any, clock: VirtualClock
) -> None:
    token = CancellationToken(clock).child(timeout=2.5)
    assert alive(run, token=token) == [False] * 3
    assert alive(run, timeout=3) == [False] * 6


def test_an_error_goes_when_the_next_attempt_succeeds(clock: VirtualClock) -> None:
    living = []

    def operation() -> None:
        living.append(sum(made() is not None for made in Failure.made))
        if len(living) < 8:
            raise Failure

    retry_call(operation, ConstantBackOff(1))
    assert max(living) <= 2
    assert [made() for made in Failure.made] == [None] * 7

    async def main() -> None:
        async def asynchronous() -> None:
            operation()

        await retry_call_async(asynchronous, ConstantBackOff(1))
        assert [made() for made in Failure.made] == [None] * 14

    living.clear()
    asyncio.run(main())
    assert max(living) <= 2


def test_errors_inside_markers_go_as_well(clock: VirtualClock) -> None:
    for marker in (Permanent, lambda error: RetryAfter(1, error)):

        def operation() -> None:
            raise marker(Failure())

        try:
            retry_call(operation, ConstantBackOff(1), max_attempts=2)
        except Failure:
            pass
    assert [made() for made in Failure.made] == [None] * 3


def test_a_deadline_keeps_its_cause_no_longer_than_itself(clock: VirtualClock) -> None:
    try:
        call(timeout=1)
    except DeadlineExceeded as error:
        assert error.__cause__ is Failure.made[0]()
    assert [made() for made in Failure.made] == [None]


def test_a_token_that_lives_on_keeps_nothing_of_a_run(clock: VirtualClock) -> None:
    token, budget = CancellationToken(), RetryBudget()

    def run() -> weakref.ref[Any]:
        count = 0

        def operation() -> Any:
            nonlocal count
            count += 1
            if count < 3:
                raise Failure
            return Result()

        result = retry_call(operation, ConstantBackOff(1), token=token, budget=budget)
        refs.append(weakref.ref(result))
        return weakref.ref(operation)

    refs: list[weakref.ref[Any]] = []
    refs.append(run())
    assert [ref() for ref in refs] == [None, None]
    assert [made() for made in Failure.made] == [None] * 2
    assert clock.pending() == []


def test_an_async_run_under_a_token_that_lives_on_leaves_nothing(clock: VirtualClock) -> None:
    token = CancellationToken()

    async def main() -> None:
        refs = []

        async def run() -> None:
            async def operation() -> Result:
                return Result()

            refs.append(weakref.ref(operation))
            refs.append(weakref.ref(await retry_call_async(operation, token=token, timeout=9)))

        await run()
        assert [ref() for ref in refs] == [None, None]

    asyncio.run(main())
    assert clock.pending() == []

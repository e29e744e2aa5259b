"""After a run its errors and results are freed without the collector."""

import asyncio
import gc
import inspect
import weakref
from contextlib import nullcontext

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    CircuitBreaker,
    ConstantBackOff,
    RetryBudget,
    retry_call,
    retry_call_async,
)
from tests.retries.faces import async_call, async_decorator, async_loop, call, decorator, loop
from tests.retries.scripts import ONE, ZERO


class Failure(Exception):
    """Remembers, weakly, each of its kind."""

    made = []  # noqa: RUF012 - emptied by each test

    def __init__(self):
        self.made.append(weakref.ref(self))


class Result:
    """What an operation returns."""


def fail(*_):
    raise Failure


async def fail_async(*_):
    await asyncio.sleep(0)
    raise Failure


@pytest.fixture(autouse=True)
def _no_collector(clock):
    Failure.made.clear()
    gc.disable()
    yield
    gc.enable()


class Failing:
    """An operation that fails, as a function and as a coroutine."""

    __call__ = staticmethod(fail)
    in_loop = staticmethod(fail_async)


def alive(run, **options):
    """Return which of the errors of a run still live after its last one was caught."""

    async def main():
        try:
            ended = run(Failing(), ONE, **options)
            if inspect.isawaitable(ended):
                await ended
        except (Failure, Cancelled):
            pass
        return [made() is not None for made in Failure.made]

    if inspect.iscoroutinefunction(run):
        return asyncio.run(main())
    with pytest.raises(StopIteration) as caught:
        main().send(None)
    return caught.value.value


class FailingPolicy(ConstantBackOff):
    """Fails when it is asked."""

    def next_backoff(self):
        raise Failure


class FailingManager(nullcontext):
    """Fails as it is left."""

    def __exit__(self, *_):
        raise Failure


def managed(_):
    return nullcontext()


def badly_managed(_):
    return FailingManager()


def around(*managers):
    return lambda: {"around": managers}


def everything():
    hooks = dict.fromkeys(("notify", "on_attempt", "on_retry", "on_give_up"), lambda *_: None)
    limits = {"token": CancellationToken(), "timeout": 60, "budget": RetryBudget()}
    return {"on": lambda _: True, "until": bool, **hooks, **limits}


# What a run of at most three attempts is given; it fails with the error of the operation, or with
# that of the user's own functions.
CASES = {
    "a limit": dict,
    "everything": everything,
    "a token out of time": lambda: {"token": CancellationToken().child(timeout=1.5)},
    "a timeout": lambda: {"timeout": 2},
    "managers": around(managed, managed),
    "a manager that fails": around(badly_managed),
    "a manager that fails between others": around(managed, badly_managed, managed),
    "a manager that is none": around(managed, fail),
    "a policy of a mapping that fails": lambda: {"on": {Failure: FailingPolicy(1)}},
    "a rule that fails": lambda: {"on": fail},
    "a hook that fails": lambda: {"notify": fail},
    "a fallback that fails": lambda: {"fallback": fail},
    "a breaker whose rule fails": lambda: {"breaker": CircuitBreaker(on=fail)},
    "a breaker whose policy fails": lambda: {
        "breaker": CircuitBreaker(FailingPolicy(1), failures=1)
    },
}
AWAITED = {
    "a rule": lambda: {"on": lambda _: asyncio.sleep(1, True)},
    "a rule that fails": lambda: {"on": fail_async},
    "a fallback that fails": lambda: {"fallback": fail_async},
}
CALLS = [call, decorator, async_call, async_decorator]


@pytest.mark.parametrize("hooks", [{}, {"on_give_up": bool}], ids=["", "hooks"])
@pytest.mark.parametrize("run", CALLS)
def test_no_error_outlives_its_run(run, hooks):
    cases = CASES.items()
    if inspect.iscoroutinefunction(run):
        cases = [*cases, *AWAITED.items()]
    for name, make in cases:
        Failure.made.clear()
        assert not any(alive(run, **{"max_attempts": 3, **hooks, **make()})), name
        assert Failure.made


@pytest.mark.parametrize("run", [loop, async_loop])
def test_of_a_loop_only_the_last_error_waits_for_the_collector(run):
    """Its own frame holds the attempt, which tells the error."""
    assert alive(run, max_attempts=4)[:3] == [False] * 3


def test_an_error_goes_when_the_next_attempt_succeeds():
    living = []

    def operation():
        living.append(sum(made() is not None for made in Failure.made))
        if len(living) % 8:
            raise Failure

    async def operation_async():
        operation()

    async def main():
        await retry_call_async(operation_async, ONE)
        assert [made() for made in Failure.made] == [None] * 14

    retry_call(operation, ONE)
    assert [made() for made in Failure.made] == [None] * 7
    asyncio.run(main())
    assert max(living) <= 2


@pytest.mark.parametrize("function", [retry_call, retry_call_async])
def test_a_token_that_lives_on_keeps_nothing_of_a_run(clock, function):
    token, budget = CancellationToken(), RetryBudget()

    def refs_of_a_run():
        count = 0

        def operation():
            nonlocal count
            count += 1
            if count < 3:
                raise Failure
            return Result()

        async def operation_async():
            return operation()

        made = operation if function is retry_call else operation_async
        options = {"token": token, "budget": budget, "timeout": 9}
        result = function(made, ONE, **options)
        if made is operation_async:
            result = asyncio.run(result)
        return weakref.ref(made), weakref.ref(result), *Failure.made

    assert {ref() for ref in refs_of_a_run()} == {None}
    assert clock.pending() == []


def test_what_is_cut_leaves_no_cycle():
    marks = []

    async def hang():
        mark = Result()
        marks.append(weakref.ref(mark))
        await asyncio.sleep(100)

    async def main():
        try:
            await retry_call_async(hang, ZERO, attempt_timeout=1, max_attempts=2)
        except TimeoutError:
            pass

    asyncio.run(main())
    assert {mark() for mark in marks} == {None}


@pytest.mark.parametrize("options", [{}, {"notify": lambda *_: None}])
def test_an_interrupted_run_leaves_no_cycle(options):
    async def main():
        task = asyncio.ensure_future(async_call(Failing(), ONE, **options))
        await asyncio.sleep(0.5)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            pass
        del task
        return [made() for made in Failure.made]

    assert asyncio.run(main()) == [None]

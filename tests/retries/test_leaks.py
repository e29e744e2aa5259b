"""After a run its errors and results are freed without the collector."""

import asyncio
import gc
import weakref
from contextlib import nullcontext, suppress

import pytest

from backoff_ticker import CancellationToken, Cancelled, CircuitBreaker, RetryBudget
from tests.retries.faces import BOTH, LOOPS, async_call
from tests.retries.scripts import ONE, ZERO, Script
from tests.tickers.made_policies import Scripted


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


def are_alive():
    return [made() is not None for made in Failure.made]


def alive(face, **options):
    """Return which of the errors of a run still live after its last one was caught."""

    async def main():
        with suppress(Failure, Cancelled):
            await face.main(Script(Failure), ONE, **options)
        return are_alive()

    if face.asynchronous:
        return face.in_loop(main())
    with suppress(Failure, Cancelled):
        face.main(Script(Failure), ONE, **options)
    return are_alive()


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
    "a policy of a mapping that fails": lambda: {"on": {Failure: Scripted(then=fail)}},
    "a rule that fails": lambda: {"on": fail},
    "a hook that fails": lambda: {"notify": fail},
    "a fallback that fails": lambda: {"fallback": fail},
    "a breaker whose rule fails": lambda: {"breaker": CircuitBreaker(on=fail)},
    "a breaker's policy": lambda: {"breaker": CircuitBreaker(Scripted(then=fail), failures=1)},
}
AWAITED = {
    "a rule": lambda: {"on": lambda _: asyncio.sleep(1, True)},
    "a rule that fails": lambda: {"on": fail_async},
    "a fallback that fails": lambda: {"fallback": fail_async},
}


NOT_IN_TRIO = ["call", "async call", "decorator", "async decorator"]  # its run keeps what ends it


@pytest.mark.parametrize("face", NOT_IN_TRIO, indirect=True)
@pytest.mark.parametrize("hooks", [{}, {"on_give_up": bool}], ids=["", "hooks"])
def test_no_error_outlives_its_run(face, hooks):
    cases = CASES | AWAITED if face.asynchronous else CASES
    for name, make in cases.items():
        Failure.made.clear()
        assert not any(alive(face, **{"max_attempts": 3, **hooks, **make()})), name
        assert Failure.made


@LOOPS
def test_of_a_loop_only_the_last_error_waits_for_the_collector(face):
    """Its own frame holds the attempt, which tells the error."""
    assert alive(face, max_attempts=4)[:3] == [False] * 3


@BOTH
def test_an_error_goes_when_the_next_attempt_succeeds(face):
    living = []

    def operation():
        living.append(sum(are_alive()))
        return Failure if len(living) % 8 else 7

    face.run(Script(operation), ONE)
    assert are_alive() == [False] * 7
    assert max(living) <= 2


@pytest.mark.parametrize("face", NOT_IN_TRIO[:2], indirect=True)
def test_a_token_that_lives_on_keeps_nothing_of_a_run(face, clock):
    token, budget = CancellationToken(), RetryBudget()

    def refs_of_a_run():
        script = Script(Failure, Failure, Result)
        result = face.run(script, ONE, token=token, budget=budget, timeout=9)
        assert isinstance(result, Result)
        return weakref.ref(script), weakref.ref(result), *Failure.made

    assert {ref() for ref in refs_of_a_run()} == {None}
    assert clock.pending() == []


def test_what_is_cut_leaves_no_cycle():
    marks = []

    async def hang():
        mark = Result()
        marks.append(weakref.ref(mark))
        await asyncio.sleep(100)

    async def main():
        with suppress(TimeoutError):
            await async_call(Script(hang), ZERO, attempt_timeout=1, max_attempts=2)

    asyncio.run(main())
    assert {mark() for mark in marks} == {None}


@pytest.mark.parametrize("options", [{}, {"notify": lambda *_: None}])
def test_an_interrupted_run_leaves_no_cycle(options):
    async def main():
        with suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await async_call(Script(Failure), ONE, **options)
        return are_alive()

    assert asyncio.run(main()) == [False]

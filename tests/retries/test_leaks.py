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
    DeadlineExceeded,
    Permanent,
    RetryAfter,
    RetryBudget,
    ZeroBackOff,
    attempts,
    hedge_call_async,
    retry,
    retry_call,
    retry_call_async,
)
from tests.retries.hedges import InTurn, takes
from tests.retries.scripts import Script


class Failure(Exception):
    """Remembers, weakly, each of its kind."""

    made = []  # noqa: RUF012 - emptied by each test

    def __init__(self):
        self.made.append(weakref.ref(self))


class Result:
    """What an operation returns."""


def fail():
    raise Failure


async def fail_async():
    raise Failure


@pytest.fixture(autouse=True)
def _no_collector(clock):
    Failure.made.clear()
    gc.disable()
    yield
    gc.enable()


def call(**options):
    retry_call(fail, ConstantBackOff(1), **options)


def decorated(**options):
    retry(ConstantBackOff(1), **options)(fail)()


def loop(**options):
    for attempt in attempts(ConstantBackOff(1), **options):
        with attempt:
            fail()


async def call_async(**options):
    await retry_call_async(fail_async, ConstantBackOff(1), **options)


async def decorated_async(**options):
    await retry(ConstantBackOff(1), **options)(fail_async)()


async def loop_async(**options):
    async for attempt in attempts(ConstantBackOff(1), **options):
        async with attempt:
            await fail_async()


def alive(run, **options):
    """Return which of the errors of a run still live after its last one was caught."""
    if not inspect.iscoroutinefunction(run):
        try:
            run(**options)
        except (Failure, Cancelled):
            pass
        return [made() is not None for made in Failure.made]

    async def main():
        try:
            await run(**options)
        except (Failure, Cancelled):
            pass
        return [made() is not None for made in Failure.made]

    return asyncio.run(main())


CALLS = pytest.mark.parametrize("run", [call, decorated, call_async, decorated_async])


LOOPS = pytest.mark.parametrize("run", [loop, loop_async])


@CALLS
def test_no_error_outlives_its_run(run):
    assert alive(run, max_attempts=3) == [False] * 3


@LOOPS
def test_of_a_loop_only_the_last_error_waits_for_the_collector(run):
    """Its own frame holds the attempt, which tells the error."""
    assert alive(run, max_attempts=4)[:3] == [False] * 3


@CALLS
def test_no_error_outlives_a_run_with_everything(run):
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
def test_no_error_outlives_a_run_whose_hooks_return_managers(run):
    def managed(_):
        return nullcontext()

    class Failing(nullcontext[None]):
        def __exit__(self, *_):
            fail()

    def failing(_):
        return Failing()

    for name in ("on_attempt", "on_retry", "on_give_up"):
        for hooks in ([managed], [managed, managed], [failing], [managed, failing, managed]):
            Failure.made.clear()
            assert not any(alive(run, max_attempts=3, **{name: hooks})), (name, hooks)
            assert Failure.made


class FailingPolicy(ConstantBackOff):
    """Fails when it is asked."""

    def next_backoff(self):
        raise Failure


@CALLS
@pytest.mark.parametrize("hooks", [{}, {"on_give_up": lambda _: None}], ids=["", "hooks"])
def test_no_error_outlives_a_run_in_which_something_else_fails(run, hooks):
    def fails(*_):
        raise Failure

    for count, rest in [
        (2, {"on": {Failure: FailingPolicy(1)}}),
        (2, {"on": lambda error: FailingPolicy(1)}),
        (2, {"on": fails}),
        (2, {"notify": fails}),
        (2, {"max_attempts": 1, "fallback": fails}),
        (1, {"breaker": CircuitBreaker(on=fails)}),
        (1, {"breaker": CircuitBreaker(FailingPolicy(1), failures=1)}),
    ]:
        Failure.made.clear()
        assert not any(alive(run, **rest, **hooks)), rest
        assert len(Failure.made) >= count


def test_no_error_outlives_a_run_whose_predicates_await():
    async def on(error):
        await asyncio.sleep(1)
        return len(Failure.made) < 3

    async def fails(_):
        await asyncio.sleep(1)
        raise Failure

    for run in (call_async, decorated_async):
        for options in ({"on": on}, {"on": fails}, {"max_attempts": 1, "fallback": fails}):
            for hooks in ({}, {"notify": lambda *_: None}):
                Failure.made.clear()
                assert not any(alive(run, **options, **hooks)), (options, hooks)


@CALLS
def test_no_error_outlives_a_run_that_is_cancelled_or_out_of_time(run, clock):
    token = CancellationToken(clock=clock).child(timeout=2.5)
    assert alive(run, token=token) == [False] * 3
    assert alive(run, timeout=3) == [False] * 6


def test_an_error_goes_when_the_next_attempt_succeeds(clock):
    living = []

    def operation():
        living.append(sum(made() is not None for made in Failure.made))
        if len(living) < 8:
            raise Failure

    retry_call(operation, ConstantBackOff(1))
    assert max(living) <= 2
    assert [made() for made in Failure.made] == [None] * 7

    async def main():
        async def asynchronous():
            operation()

        await retry_call_async(asynchronous, ConstantBackOff(1))
        assert [made() for made in Failure.made] == [None] * 14

    living.clear()
    asyncio.run(main())
    assert max(living) <= 2


def test_errors_inside_markers_go_as_well(clock):
    for marker in (Permanent, lambda error: RetryAfter(1, error)):

        def operation():
            raise marker(Failure())

        try:
            retry_call(operation, ConstantBackOff(1), max_attempts=2)
        except Failure:
            pass
    assert [made() for made in Failure.made] == [None] * 3


def test_a_deadline_keeps_its_cause_no_longer_than_itself(clock):
    try:
        call(timeout=1)
    except DeadlineExceeded as error:
        assert error.__cause__ is Failure.made[0]()
    assert [made() for made in Failure.made] == [None]


def test_a_token_that_lives_on_keeps_nothing_of_a_run(clock):
    token, budget = CancellationToken(), RetryBudget()

    def run():
        count = 0

        def operation():
            nonlocal count
            count += 1
            if count < 3:
                raise Failure
            return Result()

        result = retry_call(operation, ConstantBackOff(1), token=token, budget=budget)
        refs.append(weakref.ref(result))
        return weakref.ref(operation)

    refs = []
    refs.append(run())
    assert [ref() for ref in refs] == [None, None]
    assert [made() for made in Failure.made] == [None] * 2
    assert clock.pending() == []


def test_an_async_run_under_a_token_that_lives_on_leaves_nothing(clock):
    token = CancellationToken()

    async def main():
        refs = []

        async def run():
            async def operation():
                return Result()

            refs.append(weakref.ref(operation))
            refs.append(weakref.ref(await retry_call_async(operation, token=token, timeout=9)))

        await run()
        assert [ref() for ref in refs] == [None, None]

    asyncio.run(main())
    assert clock.pending() == []


TOKEN = CancellationToken()


def alive_after_hedge(make, caught=(), **options):
    """Return which errors, and last the operation, live after a call whose end was caught."""

    async def main():
        operation = make()
        ref = weakref.ref(operation)
        try:
            async with asyncio.timeout(100):
                await hedge_call_async(
                    operation.in_loop, ConstantBackOff(10), token=TOKEN, **options
                )
        except caught:
            pass
        del operation
        return [made() is not None for made in [*Failure.made, ref]]

    return asyncio.run(main())


CASES = {
    "all fail": ([(1, Failure)], Failure, {}),
    "all fail at once": ([(0, Failure)], Failure, {"max_attempts": 3}),
    "success": ([(1, Failure), (1, Failure), (50, Failure), (2, 7)], (), {}),
    "losers": ([(50, 7), (45, Failure), (60, Failure)], (), {"timeout": 60}),
    "permanent": ([(50, Failure), (3, Failure)], Failure, {"on": KeyError}),
    "timeout": ([(1, Failure), (50, 7)], DeadlineExceeded, {"timeout": 20}),
    "of asyncio": ([(1, Failure), (500, 7)], TimeoutError, {"budget": RetryBudget()}),
    "rejected": ([(1, Failure), (1, 7)], Exception, {"until": lambda _: False}),
}


@pytest.mark.parametrize("case", CASES)
def test_nothing_of_a_call_outlives_it(case, clock):
    steps, caught, options = CASES[case]

    def make():
        functions = [
            takes(seconds, answer, cleanup=1, then=answer if answer is Failure else None)
            for seconds, answer in steps
        ]
        return InTurn(*functions)

    found = alive_after_hedge(make, caught, **options)
    assert found == [False] * len(found)
    assert len(found) > 1
    assert clock.pending() == []


def test_no_interrupt_outlives_its_call():
    made = []

    class Weak(BaseException):
        def __init__(self):
            made.append(weakref.ref(self))

    found = alive_after_hedge(lambda: InTurn(takes(50, 1), takes(1, Weak)), Weak)
    assert found == [False]
    assert [ref() for ref in made] == [None]


def test_no_cancel_in_a_clean_up_outlives_its_call(clock):
    async def main():
        cause = Result()
        ref = weakref.ref(cause)
        operation = InTurn(takes(50, 1, cleanup=5), takes(1, 7))
        task = asyncio.ensure_future(hedge_call_async(operation.in_loop, ConstantBackOff(10)))
        await asyncio.sleep(13)
        task.cancel(cause)
        del cause
        try:
            await task
        except asyncio.CancelledError as error:
            assert error.args[0] is ref()
        del task
        await asyncio.sleep(0)  # the loop has the task in its hands until then
        assert ref() is None

    asyncio.run(main())


@pytest.mark.parametrize("way", ["attempt", "scope"])
def test_what_is_cut_leaves_no_cycle(clock, way):
    marks = []

    async def hang():
        mark = Result()
        marks.append(weakref.ref(mark))
        await asyncio.sleep(100)

    async def main():
        try:
            if way == "attempt":
                await retry_call_async(hang, ZeroBackOff(), attempt_timeout=1, max_attempts=2)
            else:
                async with CancellationToken(clock=clock).child(timeout=1).scope():
                    await hang()
        except TimeoutError:
            pass

    asyncio.run(main())
    assert {mark() for mark in marks} == {None}


@pytest.mark.parametrize("options", [{}, {"notify": lambda *_: None}])
def test_an_interrupted_run_leaves_no_cycle(options):
    async def main():
        task = asyncio.ensure_future(call_async(**options))
        await asyncio.sleep(0.5)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            pass
        del task
        return [made() for made in Failure.made]

    assert asyncio.run(main()) == [None]


def test_an_interrupt_of_a_retry_that_comes_at_once_leaves_no_cycle():
    with pytest.raises(KeyboardInterrupt):
        retry_call(Script(Failure, Failure, KeyboardInterrupt), ZeroBackOff())
    assert [made() for made in Failure.made] == [None, None]

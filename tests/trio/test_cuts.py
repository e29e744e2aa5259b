"""What is cut under trio: scopes, attempts of retries, hedged calls."""

import contextvars
import weakref

import pytest
import trio
import trio.testing

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    DeadlineExceeded,
    attempts,
    current_attempt,
    hedge_call_async,
    retry,
    retry_call_async,
)
from tests.helpers import collect_garbage, waiters_of
from tests.trio.runs import in_a_run, lasts

TEN = ConstantBackOff(10)


class Failing:
    """An operation that fails so many times; then it returns how often it was called."""

    def __init__(self, times, error=OSError):
        self.times, self.error, self.calls = times, error, 0

    async def __call__(self):
        await trio.lowlevel.checkpoint()
        self.calls += 1
        if self.calls <= self.times:
            raise self.error(f"failure {self.calls}")
        return self.calls


class Hanging(Failing):
    """An operation that never ends so many times, in tasks of its own."""

    async def __call__(self):
        self.calls += 1
        async with trio.open_nursery() as nursery:
            for _ in range(2 if self.calls <= self.times else 0):
                nursery.start_soon(trio.sleep_forever)
        return self.calls


async def fail_in_the_end():
    try:
        await trio.sleep_forever()
    finally:
        raise OSError("clean-up")


class Messy(Failing):
    """An operation that never ends so many times, and whose clean-up fails then."""

    async def __call__(self):
        self.calls += 1
        if self.calls <= self.times:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fail_in_the_end)
                nursery.start_soon(trio.sleep_forever)
        return self.calls


async def cancel_in(seconds, token):
    await trio.sleep(seconds)
    token.cancel("stop")


# Scopes


@pytest.mark.parametrize("wait", [trio.sleep_forever, Hanging(1)], ids=["a wait", "a nursery"])
@lasts(15.0)
async def test_a_token_cuts_a_scope(wait):
    token = CancellationToken()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancel_in, 10, token)
        with pytest.raises(Cancelled, match="stop"):
            async with token.scope():
                await wait()
        await trio.lowlevel.checkpoint()  # no cancel stays
    with pytest.raises(DeadlineExceeded):
        async with CancellationToken(timeout=5).scope():
            await trio.sleep_forever()
    assert waiters_of(token._wait_set()) == []


@in_a_run
async def test_a_scope_of_a_cancelled_token_runs_to_its_first_checkpoint():
    token, steps = CancellationToken(), []
    token.cancel()
    with pytest.raises(Cancelled):
        async with token.scope():
            steps.append("before")
            await trio.lowlevel.checkpoint()
            steps.append("after")
    async with token.scope():
        steps.append("no checkpoint")
    await trio.lowlevel.checkpoint()
    assert steps == ["before", "no checkpoint"]


@in_a_run
async def test_a_body_that_cancels_its_own_token_and_ends():
    token = CancellationToken()
    async with token.scope():
        token.cancel()
    await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("both", [False, True])
@in_a_run
async def test_an_outer_scope_of_trio_wins(both):
    token = CancellationToken()
    with trio.CancelScope() as outer:
        async with token.scope():
            outer.cancel()
            if both:
                token.cancel()
            await trio.sleep_forever()
    assert outer.cancelled_caught


@lasts(5.0)
async def test_a_shield_keeps_outer_cancels_out():
    with trio.move_on_after(1), trio.CancelScope(shield=True), pytest.raises(DeadlineExceeded):
        async with CancellationToken(timeout=5).scope():
            await trio.sleep_forever()


@lasts(5.0)
async def test_what_else_is_in_a_group_of_errors_is_raised():
    with pytest.raises(ExceptionGroup) as caught:
        async with CancellationToken(timeout=5).scope():
            await Messy(1)()
    assert caught.group_contains(OSError)
    assert not caught.group_contains(trio.Cancelled)
    await trio.lowlevel.checkpoint()


@in_a_run
async def test_a_scope_keeps_no_token_alive():
    token = CancellationToken()
    async with token.scope():
        await trio.lowlevel.checkpoint()
    link = weakref.ref(token)
    del token
    collect_garbage()
    assert link() is None


# Retries


async def call(operation, **options):
    return await retry_call_async(operation, TEN, **options)


async def loop(operation, **options):
    async for attempt in attempts(TEN, **options):
        async with attempt:
            result = await operation()
    return result


EITHER_WAY = pytest.mark.parametrize("retried", [call, loop])


@lasts(30.0 + 10 + 0 + 5 + 20)
async def test_retries():
    @retry(TEN, on=OSError, max_attempts=2)
    async def decorated():
        raise OSError

    assert await retry_call_async(Failing(3), TEN, on=OSError) == 4
    with pytest.raises(OSError):
        await decorated()
    with pytest.raises(DeadlineExceeded):
        await retry_call_async(Failing(9), ConstantBackOff(60), on=OSError, timeout=5)
    with pytest.raises(DeadlineExceeded):
        await retry_call_async(Hanging(1), TEN, timeout=5)
    assert await loop(Failing(2), on=OSError, timeout=60) == 3


@EITHER_WAY
@pytest.mark.parametrize(("kind", "on"), [(Hanging, TimeoutError), (Messy, ExceptionGroup)])
@lasts(80.0)
async def test_attempt_timeout_cuts_an_attempt_with_tasks_of_its_own(kind, on, retried):
    """What remains of a group of errors without the cancel is the failure of the attempt."""
    assert await retried(kind(2), on=on, attempt_timeout=30) == 3


@EITHER_WAY
@lasts(30.0)
async def test_what_remains_of_a_group_is_raised_at_the_end(retried):
    with pytest.raises(ExceptionGroup) as caught:
        await retried(Messy(9), attempt_timeout=30, max_attempts=1)
    assert not caught.group_contains(trio.Cancelled)


@pytest.mark.parametrize("operation", [Hanging(1), Failing(9)], ids=["an attempt", "a wait"])
@lasts(5.0)
async def test_a_token_cuts(operation):
    token = CancellationToken()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancel_in, 5, token)
        with pytest.raises(Cancelled):
            await retry_call_async(operation, ConstantBackOff(60), token=token, on=OSError)


@EITHER_WAY
@pytest.mark.parametrize("limit", ["timeout", "attempt_timeout"])
@pytest.mark.parametrize("kind", [Hanging, Failing])
@pytest.mark.parametrize("on", [OSError, Exception, None])
@lasts(5.0)
async def test_a_cancel_of_trio_is_neither_retried_nor_swallowed(on, kind, limit, retried):
    operation = kind(9)
    with trio.move_on_after(5) as scope:
        await retried(operation, on=on, **{limit: 30})
    assert (scope.cancelled_caught, operation.calls) == (True, 1)


@lasts(5.0)
async def test_a_group_with_the_cancel_of_an_outer_scope_is_not_retried():
    operation = Messy(9)
    with pytest.raises(ExceptionGroup), trio.move_on_after(5):
        await retry_call_async(operation, TEN, on=Exception, attempt_timeout=30)
    assert operation.calls == 1


# Hedged calls


@lasts(16.0)
async def test_a_hedged_call_that_is_cancelled_awaits_its_attempts():
    began, ended = [], []

    async def operation():
        began.append(trio.current_time())
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(1)  # a clean-up that takes time is awaited
            ended.append(trio.current_time())

    with trio.move_on_after(15) as scope:
        await hedge_call_async(operation, TEN)
    assert scope.cancelled_caught
    assert not trio.lowlevel.current_task().child_nurseries
    assert (len(began), len(ended)) == (2, 2)


@lasts(0.0)
async def test_attempts_inherit_the_deadline_and_the_context():
    variable = contextvars.ContextVar("variable")

    async def operation():
        return trio.current_effective_deadline(), variable.get(), current_attempt().number

    variable.set("set")
    with trio.fail_after(5) as scope:
        assert await hedge_call_async(operation) == (scope.deadline, "set", 1)

"""Cancels of a token and of the task."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    DeadlineExceeded,
    ZeroBackOff,
    retry,
    retry_call_async,
)
from tests.retries.faces import (
    ALL_ASYNC,
    ASYNC,
    BOTH,
    FOUR,
    SYNC,
    ended_by_cancel,
    in_loop,
    on_faces,
)
from tests.retries.made_policies import at, cancelled_token
from tests.retries.scripts import Script, Takes, now

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock


# Waits


def test_a_cancel_ends_the_wait_at_once(face: Any, clock: VirtualClock) -> None:
    token, errors = CancellationToken(), [OSError(1), OSError(2)]
    at(clock, 13, lambda: token.cancel("enough"))
    script = Script(*errors)
    error = ended_by_cancel(face, script, ConstantBackOff(10), token=token)
    assert (error.cause, error.__cause__) == ("enough", errors[1])
    assert (script.times, now()) == ([0, 10], 13)
    assert clock.pending() == []


@BOTH
def test_the_cause_of_a_cancel_is_told_beside_the_last_error(
    face: Any, clock: VirtualClock
) -> None:
    token, cause, last = CancellationToken(), KeyError("shutting down"), OSError()
    at(clock, 3, lambda: token.cancel(cause))
    error = ended_by_cancel(face, Script(last), ConstantBackOff(10), token=token)
    assert error.cause is cause
    assert error.__cause__ is last
    assert (last.__cause__, last.__context__) == (None, None)


@BOTH
def test_a_cancel_at_the_very_end_of_a_wait_comes_first(face: Any, clock: VirtualClock) -> None:
    token, script = CancellationToken(), Script(OSError, 7)
    at(clock, 10, token.cancel)  # before the wait asks for the same moment
    ended_by_cancel(face, script, ConstantBackOff(10), token=token)
    assert (script.times, now()) == ([0], 10)


@BOTH
def test_a_parents_cancel_counts(face: Any, clock: VirtualClock) -> None:
    parent = CancellationToken()
    at(clock, 3, lambda: parent.cancel("above"))
    error = ended_by_cancel(
        face, Script(OSError), ConstantBackOff(10), token=parent.child().child(timeout=5)
    )
    assert (error.cause, now()) == ("above", 3)


@on_faces("call", "async call")
def test_a_cancel_ends_the_waits_of_all(face: Any, clock: VirtualClock) -> None:
    token = CancellationToken()
    at(clock, 25, token.cancel)
    scripts = [Script(OSError) for _ in range(8)]
    ended: list[float] = []

    def run(script: Script) -> None:
        ended_by_cancel(face, script, ConstantBackOff(10), token=token)
        ended.append(now())

    threads = [threading.Thread(target=run, args=(script,)) for script in scripts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [script.times for script in scripts] == [[0, 10, 20]] * 8
    assert ended == [25] * 8


def test_a_cancel_ends_the_waits_of_a_hundred_tasks(clock: VirtualClock) -> None:
    token = CancellationToken()
    at(clock, 25, token.cancel)
    calls = []

    @retry(ConstantBackOff(10), token=token)
    async def fails() -> None:
        calls.append(now())
        raise OSError

    async def main() -> list[Any]:
        return await asyncio.gather(*(fails() for _ in range(100)), return_exceptions=True)

    assert [type(error) for error in in_loop(main())] == [Cancelled] * 100
    assert calls == [0] * 100 + [10] * 100 + [20] * 100
    assert now() == 25


# Attempts


@SYNC
def test_in_a_thread_an_attempt_runs_to_its_end(face: Any, clock: VirtualClock) -> None:
    token, last = CancellationToken(), OSError("last")
    at(clock, 13, token.cancel)
    script = Script(OSError, Takes(10, last))
    error = ended_by_cancel(face, script, ConstantBackOff(10), token=token)
    assert error.__cause__ is last
    assert now() == 20
    token = CancellationToken()
    at(clock, 25, token.cancel)
    assert face.run(Script(Takes(10, 7)), token=token) == 7
    assert now() == 30


@ALL_ASYNC
def test_a_coroutine_that_runs_is_cut(face: Any, clock: VirtualClock) -> None:
    token, first = CancellationToken(), OSError("first")
    at(clock, 13, lambda: token.cancel("enough"))
    script = Script(first, Takes(50, 7))
    error = ended_by_cancel(face, script, ConstantBackOff(10), token=token)
    assert (error.cause, error.__cause__) == ("enough", first)
    assert (script.times, now()) == ([0, 10], 13)
    token = CancellationToken()
    at(clock, 20, token.cancel)
    error = ended_by_cancel(face, Script(Takes(50, 7)), token=token)
    assert (error.__cause__, now()) == (None, 20)


@ASYNC
def test_the_deadline_of_a_token_cuts_as_well(face: Any, clock: VirtualClock) -> None:
    token, first = CancellationToken(clock=clock).child(timeout=13), OSError("first")
    with pytest.raises(DeadlineExceeded) as caught:
        face.run(Script(first, Takes(50, 7)), ConstantBackOff(10), token=token)
    assert caught.value.__cause__ is first
    assert now() == 13


def test_a_token_cancelled_before_cuts_nothing(face: Any) -> None:
    assert face.run(Script(Takes(5, 7)), token=cancelled_token()) == 7
    assert now() == 5
    last = OSError()
    script = Script(Takes(5, last))
    error = ended_by_cancel(face, script, ZeroBackOff(), token=cancelled_token())
    assert error.__cause__ is last
    assert (script.times, now()) == ([5], 10)


@FOUR
def test_a_token_cancelled_as_the_first_attempt_begins_lets_it_begin(face: Any) -> None:
    token, script = CancellationToken(), Script(7)

    def cancel(outcome: Any) -> None:
        token.cancel()

    assert face.run(script, token=token, on_attempt=cancel) == 7
    assert script.count == 1


@ASYNC
def test_a_result_in_spite_of_a_cut_is_returned(face: Any, clock: VirtualClock) -> None:
    token = CancellationToken()
    at(clock, 3, token.cancel)

    async def stubborn() -> str:
        try:
            await asyncio.sleep(50)
        except asyncio.CancelledError:
            return "in spite of it"
        return "never"

    script = Script(7)
    script.in_loop = stubborn
    assert face.run(script, token=token) == "in spite of it"
    assert now() == 3


# asyncio


@ASYNC
def test_a_cancel_of_the_task_wins(face: Any, clock: VirtualClock) -> None:
    for steps, when in [((Takes(50, 7),), 3), ((OSError,), 3)]:
        token = CancellationToken()

        async def main() -> None:
            began = now()
            task = asyncio.ensure_future(
                face.main(Script(*steps), ConstantBackOff(10), token=token)
            )
            await asyncio.sleep(when)
            token.cancel()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert task.cancelled()
            assert now() - began == when

        in_loop(main())


@ASYNC
def test_after_a_cut_the_task_goes_on(face: Any, clock: VirtualClock) -> None:
    async def main() -> None:
        token = CancellationToken().child(timeout=3)
        with pytest.raises(Cancelled):
            await face.main(Script(Takes(50, 7)), token=token)
        assert asyncio.current_task().cancelling() == 0
        await asyncio.sleep(2)

    in_loop(main())
    assert now() == 5


def test_zero_delays_give_way_to_the_loop(clock: VirtualClock) -> None:
    token, script = CancellationToken(), Script(OSError)

    async def main() -> None:
        running = asyncio.ensure_future(
            retry_call_async(script.in_loop, ZeroBackOff(), token=token)
        )
        for _ in range(20):
            await asyncio.sleep(0)
        token.cancel()
        with pytest.raises(Cancelled):
            await running

    in_loop(main())
    assert 64 <= script.count < 64 * 25


def test_failures_at_once_let_the_loop_run(clock: VirtualClock) -> None:
    script = Script(OSError)

    async def main() -> None:
        running = asyncio.ensure_future(
            retry_call_async(script.in_loop, ZeroBackOff(), max_attempts=64 * 50)
        )
        for _ in range(20):
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    in_loop(main())
    assert 64 <= script.count < 64 * 25


def test_an_operation_is_not_called_where_a_cancel_of_the_task_comes_first(clock):
    called = []

    async def operation():
        called.append(1)
        raise OSError

    def cancel(outcome):
        if outcome.attempts == 2:
            asyncio.current_task().cancel()

    async def main():
        token = CancellationToken(clock=clock)
        await retry_call_async(operation, ConstantBackOff(1), token=token, on_attempt=cancel)

    with pytest.raises(asyncio.CancelledError):
        in_loop(main())
    assert called == [1]

"""``async with token.scope()``: one scope, what ends it, and what it leaves in its task."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import CancellationToken, Cancelled, DeadlineExceeded
from tests.helpers import PATIENCE, LoopThread, waiters_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from backoff_ticker.testing import VirtualClock


def run(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run a coroutine in a loop in debug mode, in which nothing else may go wrong."""
    errors: list[dict[str, Any]] = []

    async def watched() -> Any:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        return await main()

    result = asyncio.run(watched(), debug=True)
    assert errors == []
    return result


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


def cancelling() -> int:
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling()


def test_a_cancel_ends_the_body_and_is_raised_as_cancelled() -> None:
    cause = ValueError("why")

    async def main() -> None:
        token = CancellationToken()
        asyncio.get_running_loop().call_soon(token.cancel, cause)
        with pytest.raises(Cancelled) as caught:
            async with token.scope():
                await forever()
        assert (type(caught.value), caught.value.cause) == (Cancelled, cause)
        assert isinstance(caught.value.__context__, asyncio.CancelledError)
        assert (cancelling(), waiters_of(token._wait_set())) == (0, [])
        await turns()

    run(main)


def test_the_block_gets_the_token() -> None:
    async def main() -> None:
        token = CancellationToken()
        async with token.scope() as entered:
            assert entered is token

    run(main)


def test_a_body_under_an_open_token_runs_to_its_end() -> None:
    async def main() -> None:
        token = CancellationToken()
        async with token.scope():
            await turns()
            assert len(waiters_of(token._wait_set())) == 1
        assert waiters_of(token._wait_set()) == []
        token.cancel()
        await turns()
        assert cancelling() == 0

    run(main)


def test_a_scope_under_a_cancelled_token_ends_at_its_first_await() -> None:
    async def main() -> None:
        token = CancellationToken()
        token.cancel("before")
        log = ["before"]
        with pytest.raises(Cancelled, match="before"):
            async with token.scope():
                log.append("entered")
                await asyncio.sleep(0)
                log.append("not reached")
        assert (log, cancelling()) == (["before", "entered"], 0)
        await turns()

    run(main)


@pytest.mark.parametrize("when", ["before", "inside", "inside, and seen by the loop"])
@pytest.mark.parametrize("error", [None, ValueError("body")])
def test_a_body_that_ends_by_itself_in_a_cancelled_scope_leaves_no_cancel_behind(
    when: str, error: Exception | None
) -> None:
    async def body(token: CancellationToken) -> None:
        async with token.scope():
            if when.startswith("inside"):
                token.cancel()
            if when.endswith("loop"):
                with pytest.raises(asyncio.CancelledError):
                    await forever()
            if error is not None:
                raise error

    async def main() -> None:
        token = CancellationToken()
        if when == "before":
            token.cancel()
        if error is None:
            await body(token)
        else:
            with pytest.raises(ValueError, match="body"):
                await body(token)
        assert cancelling() == 0
        await turns()
        assert cancelling() == 0
        async with asyncio.timeout(60):
            await turns()
        async with asyncio.TaskGroup() as group:
            group.create_task(turns())

    run(main)


def test_a_cancelled_error_of_the_body_itself_under_an_open_token_passes() -> None:
    async def main() -> None:
        with pytest.raises(asyncio.CancelledError):
            async with CancellationToken().scope():
                raise asyncio.CancelledError

    run(main)


def test_the_body_may_clean_up_with_awaits_before_cancelled_is_raised() -> None:
    async def main() -> None:
        token = CancellationToken()
        log: list[str] = []
        asyncio.get_running_loop().call_soon(token.cancel)
        with pytest.raises(Cancelled):
            async with token.scope():
                try:
                    await forever()
                finally:
                    await turns()
                    token.cancel()
                    await turns()
                    log.append("cleaned up")
        assert (log, cancelling()) == (["cleaned up"], 0)

    run(main)


def test_a_cancel_from_another_thread_ends_the_body(clock: VirtualClock) -> None:
    token = CancellationToken(clock=clock)

    async def main() -> int:
        with pytest.raises(Cancelled, match="thread"):
            async with token.scope():
                await forever()
        return cancelling()

    loop = LoopThread()
    outcome = loop.submit(main())
    clock.settle()
    assert len(waiters_of(token._wait_set())) == 1
    token.cancel("thread")
    assert outcome.result(PATIENCE) == 0
    loop.close()
    assert loop.errors == []


@pytest.mark.parametrize("depth", [0, 1])
def test_a_deadline_ends_the_body_and_is_raised_as_deadline_exceeded(
    clock: VirtualClock, depth: int
) -> None:
    async def main() -> None:
        token = CancellationToken(clock=clock).child(timeout=5)
        if depth:
            token = token.child()
        passing = asyncio.create_task(clock.advance_async(5))
        with pytest.raises(DeadlineExceeded):
            async with token.scope():
                await forever()
        assert await passing == 1
        assert (cancelling(), waiters_of(token._wait_set())) == (0, [])
        assert await clock.advance_async(60) == 0

    run(main)


def test_a_body_that_ends_before_the_deadline_leaves_no_timer(clock: VirtualClock) -> None:
    async def main() -> None:
        token = CancellationToken(clock=clock).child(timeout=5)
        async with token.scope():
            await turns()
        assert await clock.advance_async(5) == 0
        await turns()
        assert cancelling() == 0

    run(main)


def test_a_scope_under_a_passed_deadline_ends_at_its_first_await(clock: VirtualClock) -> None:
    async def main() -> None:
        token = CancellationToken(clock=clock).child(timeout=0)
        with pytest.raises(DeadlineExceeded):
            async with token.scope():
                await asyncio.sleep(0)
        assert cancelling() == 0
        assert await clock.advance_async(60) == 0

    run(main)


@pytest.mark.parametrize("swallowed", [False, True])
def test_a_task_that_was_cancelled_before_still_gets_its_own_cancels_only(swallowed: bool) -> None:
    """``cancelling()`` is 1 on entry; the scope counts from there."""

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turns()
        assert cancelling() == 1
        token = CancellationToken()
        async with token.scope():
            await turns()
        asyncio.get_running_loop().call_soon(token.cancel)
        if swallowed:
            async with token.scope():
                with pytest.raises(asyncio.CancelledError):
                    await forever()
        else:
            with pytest.raises(Cancelled):
                async with token.scope():
                    await forever()
        assert cancelling() == 1
        await turns()
        task.uncancel()

    run(main)


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_real_cancel_that_is_still_to_come_on_entry_wins(cancelled: bool) -> None:
    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        token = CancellationToken()
        if cancelled:
            token.cancel()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            async with token.scope():
                await turns()
        assert cancelling() == 1
        await turns()
        task.uncancel()

    run(main)


def test_a_scope_can_be_entered_once() -> None:
    async def main() -> None:
        token = CancellationToken()
        scope = token.scope()
        async with scope:
            with pytest.raises(RuntimeError, match="entered once"):
                await scope.__aenter__()
        with pytest.raises(RuntimeError, match="entered once"):
            async with scope:
                pass
        async with token.scope():
            pass
        assert waiters_of(token._wait_set()) == []

    run(main)


def test_a_scope_is_entered_in_a_task_or_not_at_all() -> None:
    token = CancellationToken()

    def enter() -> None:
        with pytest.raises(RuntimeError):
            token.scope().__aenter__().send(None)

    async def main() -> None:
        entered = asyncio.get_running_loop().create_future()

        def callback() -> None:
            enter()
            entered.set_result(None)

        asyncio.get_running_loop().call_soon(callback)
        await entered

    enter()
    run(main)
    assert waiters_of(token._wait_set()) == []

"""Scopes among all that cancels in asyncio: each order of token, task, time-out and group."""

from __future__ import annotations

import asyncio
from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import CancellationToken, Cancelled
from tests.cancellation.test_scope import cancelling, forever, run, turns
from tests.helpers import waiters_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

SOURCES = ["token", "task", "timeout"]
ORDERS = [order for count in (1, 2, 3) for order in permutations(SOURCES, count)]


class Trial:
    """One body, cancelled by what ``order`` names, in one turn of the loop or one after another."""

    def __init__(self, order: tuple[str, ...], *, together: bool) -> None:
        self.order = order
        self.together = together
        self.token = CancellationToken()
        self.timeout = asyncio.timeout(None)
        self.task = asyncio.current_task()

    def cause(self, name: str) -> None:
        if name == "token":
            self.token.cancel("token")
        elif name == "timeout":
            self.timeout.reschedule(asyncio.get_running_loop().time())
        else:
            assert self.task is not None
            self.task.cancel()

    async def drive(self) -> None:
        await turns(3)
        for name in self.order:
            self.cause(name)
            if not self.together:
                await turns(4)

    async def body(self) -> None:
        """Wait, and take so long to clean up that everything else comes meanwhile."""
        driver = asyncio.create_task(self.drive())
        try:
            await forever()
        finally:
            while not driver.done():
                try:
                    await turns()
                except asyncio.CancelledError:
                    continue
            await driver


async def outcome(run_it: Callable[[], Awaitable[None]]) -> tuple[str, int, bool]:
    """Return what was raised, the count of cancels then, and whether another one still came."""
    raised = "nothing"
    try:
        await run_it()
    except BaseException as error:
        raised = type(error).__name__
    count = cancelling()
    try:
        await turns()
    except asyncio.CancelledError:
        return raised, count, True
    return raised, count, False


def expected(order: tuple[str, ...], outer: str) -> tuple[str, int, bool]:
    if "task" in order:
        return "CancelledError", 1, False
    first = outer if outer in order else order[0]
    return {"token": "Cancelled", "timeout": "TimeoutError"}[first], 0, False


@pytest.mark.parametrize("order", ORDERS, ids=" ".join)
@pytest.mark.parametrize("together", [True, False], ids=["together", "one by one"])
@pytest.mark.parametrize("outer", ["token", "timeout"])
def test_the_outermost_canceller_decides_the_error_and_a_real_cancel_always_wins(
    order: tuple[str, ...], together: bool, outer: str
) -> None:
    async def main() -> tuple[str, int, bool]:
        trial = Trial(order, together=together)

        async def scope_outside() -> None:
            async with trial.token.scope(), trial.timeout:
                await trial.body()

        async def timeout_outside() -> None:
            async with trial.timeout, trial.token.scope():
                await trial.body()

        return await outcome(scope_outside if outer == "token" else timeout_outside)

    assert run(main) == expected(order, outer)


@pytest.mark.parametrize("together", [True, False], ids=["together", "one by one"])
@pytest.mark.parametrize("order", [*list(permutations(["outer", "inner"])), ("outer",), ("inner",)])
@pytest.mark.parametrize("task", [False, True])
def test_nested_scopes_of_two_tokens(order: tuple[str, ...], together: bool, task: bool) -> None:
    async def main() -> tuple[str, str, tuple[str, int, bool]]:
        tokens = {"outer": CancellationToken(), "inner": CancellationToken()}
        me = asyncio.current_task()
        assert me is not None
        seen = []

        async def drive() -> None:
            await turns(3)
            for name in order:
                tokens[name].cancel(name)
                if not together:
                    await turns(4)
            if task:
                me.cancel()

        async def nested() -> None:
            driver = asyncio.create_task(drive())
            try:
                async with tokens["outer"].scope():
                    try:
                        async with tokens["inner"].scope():
                            try:
                                await forever()
                            finally:
                                while not driver.done():
                                    try:
                                        await turns()
                                    except asyncio.CancelledError:
                                        continue
                    except BaseException as error:
                        seen.append(getattr(error, "cause", type(error).__name__))
                        raise
            except BaseException as error:
                seen.append(getattr(error, "cause", type(error).__name__))
                raise

        told = await outcome(nested)
        return seen[0], seen[1], told

    inner, outer, told = run(main)
    if task:
        assert [inner, outer, told[0], told[1]] == ["CancelledError"] * 3 + [1]
    elif "outer" in order:
        assert (inner, outer, told) == ("CancelledError", "outer", ("Cancelled", 0, False))
    else:
        assert (inner, outer, told) == ("inner", "inner", ("Cancelled", 0, False))


def test_nested_scopes_of_one_token_raise_once() -> None:
    async def main() -> tuple[str, int, bool]:
        token = CancellationToken()

        async def nested() -> None:
            async with token.scope(), token.scope(), token.child().scope():
                asyncio.get_running_loop().call_soon(token.cancel)
                await forever()

        return await outcome(nested)

    assert run(main) == ("Cancelled", 0, False)


@pytest.mark.parametrize("error", [None, ValueError("body")])
def test_a_real_cancel_in_the_moment_of_leaving_wins(error: Exception | None) -> None:
    async def main() -> tuple[str, int, bool]:
        task = asyncio.current_task()
        assert task is not None
        token = CancellationToken()

        async def leaving() -> None:
            async with token.scope():
                token.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await forever()
                asyncio.get_running_loop().call_soon(task.cancel)
                if error is not None:
                    raise error

        return await outcome(leaving)

    assert run(main) == ("CancelledError", 1, False)


def test_a_scope_of_the_same_token_inside_a_handler_of_its_cancel_is_cancelled_again() -> None:
    async def main() -> tuple[str, int, bool]:
        token = CancellationToken()
        log: list[Any] = []

        async def nested() -> None:
            async with token.scope():
                token.cancel("why")
                try:
                    await forever()
                except asyncio.CancelledError:
                    log.append("outer")
                with pytest.raises(Cancelled, match="why"):
                    async with token.scope():
                        await forever()
                log.append("inner")

        told = await outcome(nested)
        assert log == ["outer", "inner"]
        return told

    assert run(main) == ("nothing", 0, False)


async def fail() -> None:
    raise ValueError("sibling")


async def fail_when(event: asyncio.Event) -> None:
    await event.wait()
    raise ValueError("sibling")


def leaves(error: BaseException) -> list[str]:
    """The types of the errors in a group at any depth."""
    if isinstance(error, BaseExceptionGroup):
        return sorted(leaf for inner in error.exceptions for leaf in leaves(inner))
    return [type(error).__name__]


async def leaves_of(run_it: Callable[[], Awaitable[None]]) -> tuple[list[str], int]:
    try:
        await run_it()
    except BaseException as error:
        raised = leaves(error)
    else:
        raised = []
    count = cancelling()
    await turns()
    return raised, count


async def left_by_a_failing_group() -> int:
    """Return the count that asyncio itself leaves when a group fails at its end: 1 before 3.13."""

    async def grouped() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())

    return (await leaves_of(grouped))[1]


def test_a_cancelled_scope_around_a_group_ends_all_tasks_of_the_group() -> None:
    async def main() -> tuple[list[str], int]:
        token = CancellationToken()
        ended: list[str] = []

        async def sibling() -> None:
            try:
                await forever()
            finally:
                ended.append("sibling")

        async def grouped() -> None:
            async with token.scope(), asyncio.TaskGroup() as group:
                group.create_task(sibling())
                group.create_task(sibling())
                asyncio.get_running_loop().call_soon(token.cancel)

        told = await leaves_of(grouped)
        assert ended == ["sibling", "sibling"]
        return told

    assert run(main) == (["Cancelled"], 0)


@pytest.mark.parametrize("order", list(permutations(["token", "sibling"])), ids=" ".join)
@pytest.mark.parametrize("waits", ["in the body", "for the group"])
def test_a_group_that_fails_in_a_scope_that_is_cancelled_tells_its_error_and_no_cancel_stays(
    order: tuple[str, ...], waits: str
) -> None:
    async def main() -> tuple[list[str], int]:
        token = CancellationToken()
        event = asyncio.Event()

        async def grouped() -> None:
            async with token.scope(), asyncio.TaskGroup() as group:
                group.create_task(fail_when(event))
                await turns()
                for name in order:
                    token.cancel() if name == "token" else event.set()
                if waits == "in the body":
                    await forever()

        return await leaves_of(grouped)

    left = run(left_by_a_failing_group) if (order[0], waits[:3]) == ("sibling", "for") else 0
    assert run(main) == (["ValueError"], left)


@pytest.mark.parametrize("order", list(permutations(["token", "sibling"])), ids=" ".join)
def test_a_scope_in_a_group_that_fails_lets_the_cancel_of_the_group_pass(
    order: tuple[str, ...],
) -> None:
    async def main() -> tuple[list[str], int]:
        token = CancellationToken()
        event = asyncio.Event()

        async def grouped() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(fail_when(event))
                await turns()
                async with token.scope():
                    for name in order:
                        token.cancel() if name == "token" else event.set()
                    await forever()

        return await leaves_of(grouped)

    raised = ["Cancelled", "ValueError"] if order[0] == "token" else ["ValueError"]
    assert run(main) == (raised, 0)


def test_a_group_that_fails_ends_an_open_scope_inside_and_outside_alike() -> None:
    async def main() -> list[tuple[list[str], int]]:
        token = CancellationToken()

        async def inside() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(fail())
                async with token.scope():
                    await forever()

        async def outside() -> None:
            async with token.scope(), asyncio.TaskGroup() as group:
                group.create_task(fail())
                await forever()

        told = [await leaves_of(inside), await leaves_of(outside)]
        assert waiters_of(token._wait_set()) == []
        return told

    assert run(main) == [(["ValueError"], 0)] * 2


def test_a_cancelled_scope_in_a_task_of_a_group_fails_the_group_as_any_error_does() -> None:
    async def main() -> tuple[list[str], int]:
        token = CancellationToken()

        async def member() -> None:
            async with token.scope():
                await forever()

        async def grouped() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(member())
                group.create_task(forever())
                asyncio.get_running_loop().call_soon(token.cancel)
                await forever()

        return await leaves_of(grouped)

    assert run(main) == (["Cancelled"], 0)

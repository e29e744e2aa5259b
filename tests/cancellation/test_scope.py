"""``async with token.scope()``: what ends a scope, and what it leaves in its task."""

import asyncio
from itertools import permutations

import pytest

from backoff_ticker import CancellationToken, Cancelled, DeadlineExceeded
from tests.helpers import turns, waiters_of
from tests.retries.faces import in_loop


async def outlast(task):
    """Go on until a task has ended, whatever cancels this one."""
    while not task.done():
        try:
            await turns()
        except asyncio.CancelledError:
            continue


async def forever():
    await asyncio.get_running_loop().create_future()


def cancelling():
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling()


def test_a_cancel_ends_the_body_and_is_raised_as_cancelled():
    cause = ValueError("why")

    async def main():
        token = CancellationToken()
        asyncio.get_running_loop().call_soon(token.cancel, cause)
        with pytest.raises(Cancelled) as caught:
            async with token.scope():
                await forever()
        assert (type(caught.value), caught.value.cause) == (Cancelled, cause)
        assert isinstance(caught.value.__context__, asyncio.CancelledError)
        assert (cancelling(), waiters_of(token._wait_set())) == (0, [])
        await turns()

    in_loop(main())


@pytest.mark.parametrize("timeout", [None, 5])
def test_a_body_under_an_open_token_runs_to_its_end(clock, timeout):
    async def main():
        token = CancellationToken(clock=clock).child(timeout)
        async with token.scope():
            await turns()
            assert len(waiters_of(token._wait_set())) == 1
        assert (waiters_of(token._wait_set()), clock.pending()) == ([], [])
        token.cancel()
        await turns()
        assert cancelling() == 0

    in_loop(main())


def test_a_scope_under_a_cancelled_token_ends_at_its_first_await():
    async def main():
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

    in_loop(main())


@pytest.mark.parametrize("when", ["before", "inside", "inside, and seen by the loop"])
@pytest.mark.parametrize("error", [None, ValueError("body")])
def test_a_body_that_ends_by_itself_in_a_cancelled_scope_leaves_no_cancel_behind(when, error):
    async def body(token):
        async with token.scope():
            if when.startswith("inside"):
                token.cancel()
            if when.endswith("loop"):
                with pytest.raises(asyncio.CancelledError):
                    await forever()
            if error is not None:
                raise error

    async def main():
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

    in_loop(main())


@pytest.mark.parametrize("depth", [0, 1])
def test_a_deadline_ends_the_body_and_is_raised_as_deadline_exceeded(clock, depth):
    async def main():
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

    in_loop(main())


@pytest.mark.parametrize("swallowed", [False, True])
def test_a_task_that_was_cancelled_before_still_gets_its_own_cancels_only(swallowed):
    """``cancelling()`` is 1 on entry; the scope counts from there."""

    async def main():
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

    in_loop(main())


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_real_cancel_that_is_still_to_come_on_entry_wins(cancelled):
    async def main():
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

    in_loop(main())


def test_a_scope_can_be_entered_once():
    async def main():
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

    in_loop(main())


def test_a_scope_is_entered_in_a_task_or_not_at_all():
    token = CancellationToken()

    def enter():
        with pytest.raises(RuntimeError):
            token.scope().__aenter__().send(None)

    async def main():
        asyncio.get_running_loop().call_soon(enter)
        await turns()

    in_loop(main())
    assert waiters_of(token._wait_set()) == []


# Among all that cancels in asyncio


SOURCES = ["token", "task", "timeout"]
ORDERS = [order for count in (1, 2, 3) for order in permutations(SOURCES, count)]


class Trial:
    """One body, cancelled by what ``order`` names, in one turn of the loop or one after another."""

    def __init__(self, order, *, together):
        self.order = order
        self.together = together
        self.token = CancellationToken()
        self.timeout = asyncio.timeout(None)
        self.task = asyncio.current_task()

    def cause(self, name):
        if name == "token":
            self.token.cancel("token")
        elif name == "timeout":
            self.timeout.reschedule(asyncio.get_running_loop().time())
        else:
            assert self.task is not None
            self.task.cancel()

    async def drive(self):
        await turns(3)
        for name in self.order:
            self.cause(name)
            if not self.together:
                await turns(4)

    async def body(self):
        """Wait, and take so long to clean up that everything else comes meanwhile."""
        driver = asyncio.create_task(self.drive())
        try:
            await forever()
        finally:
            await outlast(driver)
            await driver


async def outcome(run_it):
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


def expected(order, outer):
    if "task" in order:
        return "CancelledError", 1, False
    first = outer if outer in order else order[0]
    return {"token": "Cancelled", "timeout": "TimeoutError"}[first], 0, False


@pytest.mark.parametrize("order", ORDERS, ids=" ".join)
@pytest.mark.parametrize("together", [True, False], ids=["together", "one by one"])
@pytest.mark.parametrize("outer", ["token", "timeout"])
def test_the_outermost_canceller_decides_the_error_and_a_real_cancel_always_wins(
    order, together, outer
):
    async def main():
        trial = Trial(order, together=together)

        async def scope_outside():
            async with trial.token.scope(), trial.timeout:
                await trial.body()

        async def timeout_outside():
            async with trial.timeout, trial.token.scope():
                await trial.body()

        return await outcome(scope_outside if outer == "token" else timeout_outside)

    assert in_loop(main()) == expected(order, outer)


@pytest.mark.parametrize("together", [True, False], ids=["together", "one by one"])
@pytest.mark.parametrize("order", [*list(permutations(["outer", "inner"])), ("outer",), ("inner",)])
@pytest.mark.parametrize("task", [False, True])
def test_nested_scopes_of_two_tokens(order, together, task):
    async def main():
        tokens = {"outer": CancellationToken(), "inner": CancellationToken()}
        me = asyncio.current_task()
        assert me is not None
        seen = []

        async def drive():
            await turns(3)
            for name in order:
                tokens[name].cancel(name)
                if not together:
                    await turns(4)
            if task:
                me.cancel()

        async def nested():
            driver = asyncio.create_task(drive())
            try:
                async with tokens["outer"].scope():
                    try:
                        async with tokens["inner"].scope():
                            try:
                                await forever()
                            finally:
                                await outlast(driver)
                    except BaseException as error:
                        seen.append(getattr(error, "cause", type(error).__name__))
                        raise
            except BaseException as error:
                seen.append(getattr(error, "cause", type(error).__name__))
                raise

        told = await outcome(nested)
        return seen[0], seen[1], told

    inner, outer, told = in_loop(main())
    if task:
        assert [inner, outer, told[0], told[1]] == ["CancelledError"] * 3 + [1]
    elif "outer" in order:
        assert (inner, outer, told) == ("CancelledError", "outer", ("Cancelled", 0, False))
    else:
        assert (inner, outer, told) == ("inner", "inner", ("Cancelled", 0, False))


@pytest.mark.parametrize("error", [None, ValueError("body")])
def test_a_real_cancel_in_the_moment_of_leaving_wins(error):
    async def main():
        task = asyncio.current_task()
        assert task is not None
        token = CancellationToken()

        async def leaving():
            async with token.scope():
                token.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await forever()
                asyncio.get_running_loop().call_soon(task.cancel)
                if error is not None:
                    raise error

        return await outcome(leaving)

    assert in_loop(main()) == ("CancelledError", 1, False)


async def fail_when(event):
    await event.wait()
    raise ValueError("sibling")


def leaves(error):
    """The types of the errors in a group at any depth."""
    if isinstance(error, BaseExceptionGroup):
        return sorted(leaf for inner in error.exceptions for leaf in leaves(inner))
    return [type(error).__name__]


async def leaves_of(run_it):
    try:
        await run_it()
    except BaseException as error:
        raised = leaves(error)
    else:
        raised = []
    count = cancelling()
    await turns()
    return raised, count


@pytest.mark.parametrize("order", list(permutations(["token", "sibling"])), ids=" ".join)
def test_a_group_that_fails_in_a_scope_that_is_cancelled_tells_its_error_and_no_cancel_stays(order):
    async def main():
        token = CancellationToken()
        event = asyncio.Event()

        async def grouped():
            async with token.scope(), asyncio.TaskGroup() as group:
                group.create_task(fail_when(event))
                await turns()
                for name in order:
                    token.cancel() if name == "token" else event.set()
                await forever()

        return await leaves_of(grouped)

    assert in_loop(main()) == (["ValueError"], 0)


@pytest.mark.parametrize("order", list(permutations(["token", "sibling"])), ids=" ".join)
def test_a_scope_in_a_group_that_fails_lets_the_cancel_of_the_group_pass(order):
    async def main():
        token = CancellationToken()
        event = asyncio.Event()

        async def grouped():
            async with asyncio.TaskGroup() as group:
                group.create_task(fail_when(event))
                await turns()
                async with token.scope():
                    for name in order:
                        token.cancel() if name == "token" else event.set()
                    await forever()

        return await leaves_of(grouped)

    raised = ["Cancelled", "ValueError"] if order[0] == "token" else ["ValueError"]
    assert in_loop(main()) == (raised, 0)

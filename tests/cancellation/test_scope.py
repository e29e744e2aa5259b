"""``async with token.scope()``: what ends a scope, and what it leaves in its task."""

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from itertools import permutations

import pytest

from backoff_ticker import CancellationToken, Cancelled, DeadlineExceeded
from tests.helpers import turns, waiters_of
from tests.retries.faces import in_a_loop, in_loop


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
    return asyncio.current_task().cancelling()


@in_a_loop
async def test_a_cancel_ends_the_body_and_is_raised_as_cancelled():
    cause = ValueError("why")
    token = CancellationToken()
    asyncio.get_running_loop().call_soon(token.cancel, cause)
    with pytest.raises(Cancelled) as caught:
        async with token.scope():
            await forever()
    assert (type(caught.value), caught.value.cause) == (Cancelled, cause)
    assert isinstance(caught.value.__context__, asyncio.CancelledError)
    assert (cancelling(), waiters_of(token._wait_set())) == (0, [])
    await turns()


@pytest.mark.parametrize("timeout", [None, 5])
@in_a_loop
async def test_a_body_under_an_open_token_runs_to_its_end(clock, timeout):
    token = CancellationToken(clock=clock).child(timeout)
    async with token.scope():
        await turns()
        assert len(waiters_of(token._wait_set())) == 1
    assert (waiters_of(token._wait_set()), clock.pending()) == ([], [])
    token.cancel()
    await turns()
    assert cancelling() == 0


@in_a_loop
async def test_a_scope_under_a_cancelled_token_ends_at_its_first_await():
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


@pytest.mark.parametrize("when", ["before", "inside", "inside, and seen by the loop"])
@pytest.mark.parametrize("error", [None, ValueError("body")])
@in_a_loop
async def test_a_body_that_ends_by_itself_in_a_cancelled_scope_leaves_no_cancel_behind(when, error):
    async def body(token):
        async with token.scope():
            if when.startswith("inside"):
                token.cancel()
            if when.endswith("loop"):
                with pytest.raises(asyncio.CancelledError):
                    await forever()
            if error is not None:
                raise error

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


@pytest.mark.parametrize("depth", [0, 1])
@in_a_loop
async def test_a_deadline_ends_the_body_and_is_raised_as_deadline_exceeded(clock, depth):
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


@pytest.mark.parametrize("swallowed", [False, True])
@in_a_loop
async def test_a_task_that_was_cancelled_before_still_gets_its_own_cancels_only(swallowed):
    """``cancelling()`` is 1 on entry; the scope counts from there."""
    task = asyncio.current_task()
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


@pytest.mark.parametrize("cancelled", [False, True])
@in_a_loop
async def test_a_real_cancel_that_is_still_to_come_on_entry_wins(cancelled):
    task = asyncio.current_task()
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


@in_a_loop
async def test_a_scope_can_be_entered_once():
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


async def cancelled_by(acts, together):
    """Wait, and take so long to clean up that all ``acts``, which cancel, come meanwhile.

    They come in one turn of the loop, or one after another.
    """

    async def drive():
        await turns(3)
        for act in acts:
            act()
            if not together:
                await turns(4)

    driver = asyncio.create_task(drive())
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
@in_a_loop
async def test_the_outermost_canceller_decides_the_error_and_a_real_cancel_always_wins(
    order, together, outer
):
    token, timeout = CancellationToken(), asyncio.timeout(None)
    acts = {
        "token": token.cancel,
        "task": asyncio.current_task().cancel,
        "timeout": lambda: timeout.reschedule(asyncio.get_running_loop().time()),
    }
    body = cancelled_by([acts[name] for name in order], together)

    async def scope_outside():
        async with token.scope(), timeout:
            await body

    async def timeout_outside():
        async with timeout, token.scope():
            await body

    found = await outcome(scope_outside if outer == "token" else timeout_outside)
    assert found == expected(order, outer)


@pytest.mark.parametrize("together", [True, False], ids=["together", "one by one"])
@pytest.mark.parametrize("order", [*list(permutations(["outer", "inner"])), ("outer",), ("inner",)])
@pytest.mark.parametrize("task", [False, True])
@in_a_loop
async def test_nested_scopes_of_two_tokens(order, together, task):
    tokens = {"outer": CancellationToken(), "inner": CancellationToken()}
    acts = [partial(tokens[name].cancel, name) for name in order]
    acts += [asyncio.current_task().cancel] if task else []
    seen = []

    @asynccontextmanager
    async def noted_scope(name):
        try:
            async with tokens[name].scope():
                yield
        except BaseException as error:
            seen.append(getattr(error, "cause", type(error).__name__))
            raise

    async def nested():
        async with noted_scope("outer"), noted_scope("inner"):
            await cancelled_by(acts, together)

    raised, count, again = await outcome(nested)
    if task:
        assert (*seen, raised, count) == (*["CancelledError"] * 3, 1)
    else:
        causes = ["CancelledError", "outer"] if "outer" in order else ["inner", "inner"]
        assert (seen, raised, count, again) == (causes, "Cancelled", 0, False)


@pytest.mark.parametrize("error", [None, ValueError("body")])
@in_a_loop
async def test_a_real_cancel_in_the_moment_of_leaving_wins(error):
    task = asyncio.current_task()
    token = CancellationToken()

    async def leaving():
        async with token.scope():
            token.cancel()
            with pytest.raises(asyncio.CancelledError):
                await forever()
            asyncio.get_running_loop().call_soon(task.cancel)
            if error is not None:
                raise error

    assert await outcome(leaving) == ("CancelledError", 1, False)


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
@pytest.mark.parametrize("outer", ["scope", "group"])
@in_a_loop
async def test_a_group_and_a_scope_that_fail_at_once_tell_their_errors_and_no_cancel_stays(
    outer, order
):
    token, event = CancellationToken(), asyncio.Event()

    async def fail():
        for name in order:
            token.cancel() if name == "token" else event.set()
        await forever()

    async def scope_outside():
        async with token.scope(), asyncio.TaskGroup() as group:
            group.create_task(fail_when(event))
            await turns()
            await fail()

    async def group_outside():
        async with asyncio.TaskGroup() as group:
            group.create_task(fail_when(event))
            await turns()
            async with token.scope():
                await fail()

    both = outer == "group" and order[0] == "token"
    raised = await leaves_of(scope_outside if outer == "scope" else group_outside)
    assert raised == (["Cancelled", "ValueError"] if both else ["ValueError"], 0)

"""Hedged calls: odd operations, options, interrupts, eager tasks."""

from __future__ import annotations

import asyncio
import contextvars
import sys
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    ZeroBackOff,
    hedge_call_async,
)
from tests.retries.faces import in_loop
from tests.retries.hedges import InTurn, hedge, takes
from tests.retries.scripts import Script, Takes, now
from tests.retries.test_options import BAD

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock

pytestmark = pytest.mark.usefixtures("clock")

TEN = ConstantBackOff(10)

# Operations


def test_an_operation_that_fails_as_it_is_called_has_failed() -> None:
    operation = InTurn(Script(OSError), Script(OSError), takes(3, 7))
    assert hedge(operation, TEN) == 7
    assert operation.times == [0, 0, 0]
    last = OSError()
    with pytest.raises(OSError) as caught:
        hedge(Script(OSError, last), TEN, max_attempts=2)
    assert caught.value is last


@pytest.mark.parametrize("value", [7, None, "text", [1]])
def test_one_that_returns_no_awaitable_is_not_made_again(value: Any) -> None:
    script = Script(value)
    operation = InTurn(takes(50, 1), script)
    with pytest.raises(TypeError, match=f"awaitable, not one of type {type(value).__name__}"):
        hedge(operation, TEN)
    assert (script.count, now()) == (1, 10)


class Awaitable:
    """Can be awaited, and is no coroutine."""

    def __await__(self) -> Any:
        yield from asyncio.sleep(15).__await__()
        return 7


def test_whatever_can_be_awaited_will_do() -> None:
    def future() -> asyncio.Future[int]:
        made = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(15, lambda: made.done() or made.set_result(7))
        return made

    def task() -> asyncio.Task[int]:
        return asyncio.ensure_future(takes(15, 7)())

    for made in (future, task, Awaitable):
        began, operation = now(), InTurn(made)
        assert hedge(operation, TEN) == 7
        assert [time - began for time in operation.times] == [0, 10]


def test_one_that_cancels_itself_is_cancelled() -> None:
    operation = InTurn(takes(100, 1, cleanup=2), takes(3, asyncio.CancelledError("itself")))
    with pytest.raises(asyncio.CancelledError, match="itself"):
        hedge(operation, TEN)
    assert (len(operation.times), now()) == (2, 10 + 3 + 2)


class Interrupt(BaseException):
    """Is no Exception."""


def test_what_is_no_exception_passes_after_all_have_ended() -> None:
    for options in ({}, {"on": BaseException}):
        began, error = now(), Interrupt()
        operation = InTurn(takes(100, 1, cleanup=2), takes(3, error))
        with pytest.raises(Interrupt) as caught:
            hedge(operation, TEN, **options)
        assert caught.value is error
        assert not hasattr(error, "__notes__")
        assert (len(operation.times), now() - began) == (2, 10 + 3 + 2)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_interrupts_end_the_loop(kind: type[BaseException]) -> None:
    operation = InTurn(takes(100, 1), takes(3, kind))

    async def main() -> None:
        await hedge_call_async(operation, TEN)

    with pytest.raises(kind):
        asyncio.run(main())
    assert (len(operation.times), now()) == (2, 13)


def test_attempts_see_the_context_of_the_caller_each_in_a_copy() -> None:
    variable = contextvars.ContextVar("variable", default="none")
    seen = []

    async def operation() -> None:
        seen.append(variable.get())
        variable.set("an attempt's")
        raise OSError

    async def main() -> None:
        variable.set("the caller's")
        with pytest.raises(OSError):
            await hedge_call_async(operation, TEN, max_attempts=3)
        assert variable.get() == "the caller's"

    in_loop(main())
    assert seen == ["the caller's"] * 3


def test_tasks_are_named_after_the_operation_and_count() -> None:
    names = []

    async def fetch() -> None:
        names.append(asyncio.current_task().get_name())
        raise OSError

    with pytest.raises(OSError):
        hedge(fetch, TEN, max_attempts=2)
    assert [name.rpartition(".")[2] for name in names] == ["fetch, 1", "fetch, 2"]


# Options

NOT_HERE = ["attempt_timeout", "notify", "timer"]
NOT_HERE += ["on_attempt", "on_retry", "on_success", "on_give_up"]


@pytest.mark.parametrize("name", [*NOT_HERE, "retries", "backoff_", "Token"])
def test_options_that_are_not_there_are_refused_by_name(name: str) -> None:
    for value in (None, 3):
        script = Script(7)
        with pytest.raises(TypeError, match=rf"hedge_call_async\(\) has no option '{name}'") as e:
            hedge(script.in_loop, **{name: value})
        offered = str(e.value).partition("it has")[2]
        assert not [other for other in NOT_HERE if other in offered]
        assert script.count == 0


@pytest.mark.parametrize("name", [name for name in BAD if name not in NOT_HERE])
def test_bad_values_are_refused_by_name(name: str) -> None:
    script = Script(7)
    for value, kind in BAD[name]:
        with pytest.raises(kind, match=name):
            hedge(script.in_loop, **{name: value})
    with pytest.raises(TypeError, match=r"hedge_call_async\(\).*until or retry_if"):
        hedge(script.in_loop, until=bool, retry_if=bool)
    assert script.count == 0


@pytest.mark.parametrize("operation", [None, 7, ValueError()])
def test_what_cannot_be_called_is_refused(operation: Any) -> None:
    with pytest.raises(TypeError, match="operation"):
        hedge(operation)


def test_a_token_with_a_deadline_on_another_clock_is_refused(clock: VirtualClock) -> None:
    script = Script(7)
    with pytest.raises(ValueError, match="clock"):
        hedge(script.in_loop, token=CancellationToken(clock).child(timeout=5), clock=type(clock)())
    assert script.count == 0


# Eager tasks


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with 3.12")
def test_eager_tasks_do_the_same() -> None:
    def eagerly(operation: Any, backoff: Any, **options: Any) -> Any:
        async def main() -> Any:
            asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
            try:
                return await hedge_call_async(operation, backoff, **options)
            finally:
                assert asyncio.all_tasks() == {asyncio.current_task()}

        return in_loop(main())

    for policy in (TEN, ZeroBackOff()):
        script = Script(7)
        assert eagerly(script.in_loop, policy) == 7
        assert script.count == 1
        script = Script(OSError, OSError, 7)
        assert eagerly(script.in_loop, policy) == 7
        assert script.count == 3
    script = Script(OSError)
    with pytest.raises(OSError):
        eagerly(script.in_loop, TEN)
    assert (script.count, now()) == (5, 0)
    operation = InTurn(takes(100, 1, cleanup=5), takes(3, OSError), takes(30, 7))
    assert eagerly(operation, TEN, max_attempts=3) == 7
    assert (operation.times, now()) == ([0, 10, 13], 13 + 30 + 5)
    with pytest.raises(Interrupt):
        eagerly(Script(Interrupt).in_loop, TEN)
    with pytest.raises(asyncio.CancelledError):
        eagerly(Script(asyncio.CancelledError).in_loop, TEN)
    token = CancellationToken()
    with pytest.raises(Cancelled):
        eagerly(
            Script(Takes(1, lambda: token.cancel() and None)).in_loop, TEN, token=token, until=bool
        )

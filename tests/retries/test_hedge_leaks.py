"""After a hedged call nothing of it is kept: its errors go without the collector."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    CancellationToken,
    ConstantBackOff,
    DeadlineExceeded,
    RetryBudget,
    hedge_call_async,
)
from tests.retries.hedges import InTurn, takes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backoff_ticker.testing import VirtualClock


class Failure(Exception):
    """Remembers, weakly, each of its kind."""

    made: list[weakref.ref[Failure]] = []  # noqa: RUF012 - emptied by each test

    def __init__(self) -> None:
        self.made.append(weakref.ref(self))


class Result:
    """What an operation returns."""


@pytest.fixture
def _no_collector(clock: VirtualClock) -> Iterator[None]:
    Failure.made.clear()
    gc.collect()
    gc.disable()
    yield
    gc.enable()


TOKEN = CancellationToken()


def alive(make: Callable[[], Any], caught: Any = (), **options: Any) -> list[bool]:
    """Return which errors, and last the operation, live after a call whose end was caught."""

    async def main() -> list[bool]:
        operation = make()
        ref = weakref.ref(operation)
        try:
            async with asyncio.timeout(100):
                await hedge_call_async(operation, ConstantBackOff(10), token=TOKEN, **options)
        except caught:
            pass
        del operation
        return [made() is not None for made in [*Failure.made, ref]]

    return asyncio.run(main())


CASES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "all fail": ([(1, Failure)], Failure, {}),
    "all fail at once": ([(0, Failure)], Failure, {"max_attempts": 3}),
    "success": ([(1, Failure), (1, Failure), (50, Failure), (2, 7)], (), {}),
    "losers": ([(50, 7), (45, Failure), (60, Failure)], (), {"timeout": 60}),
    "permanent": ([(50, Failure), (3, Failure)], Failure, {"on": KeyError}),
    "timeout": ([(1, Failure), (50, 7)], DeadlineExceeded, {"timeout": 20}),
    "of asyncio": ([(1, Failure), (500, 7)], TimeoutError, {"budget": RetryBudget()}),
    "rejected": ([(1, Failure), (1, 7)], Exception, {"until": lambda _: False}),
}


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.parametrize("case", CASES)
def test_nothing_of_a_call_outlives_it(case: str, clock: VirtualClock) -> None:
    steps, caught, options = CASES[case]

    def make() -> Any:
        functions = [
            takes(seconds, answer, cleanup=1, then=answer if answer is Failure else None)
            for seconds, answer in steps
        ]
        return InTurn(*functions)

    found = alive(make, caught, **options)
    assert found == [False] * len(found)
    assert len(found) > 1
    assert clock.pending() == []


@pytest.mark.usefixtures("_no_collector")
def test_no_interrupt_outlives_its_call() -> None:
    made = []

    class Weak(BaseException):
        def __init__(self) -> None:
            made.append(weakref.ref(self))

    found = alive(lambda: InTurn(takes(50, 1), takes(1, Weak)), Weak)
    assert found == [False]
    assert [ref() for ref in made] == [None]


@pytest.mark.usefixtures("_no_collector")
def test_no_cancel_in_a_clean_up_outlives_its_call(clock: VirtualClock) -> None:
    async def main() -> None:
        cause = Result()
        ref = weakref.ref(cause)
        operation = InTurn(takes(50, 1, cleanup=5), takes(1, 7))
        task = asyncio.ensure_future(hedge_call_async(operation, ConstantBackOff(10)))
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

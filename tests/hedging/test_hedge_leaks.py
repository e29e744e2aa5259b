"""After a hedged call its operation, errors and tokens are freed without the collector."""

import asyncio
import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from backoff_ticker import (
    CancellationToken,
    ConstantBackOff,
    DeadlineExceeded,
    RetryBudget,
    current_clock,
    hedge_call,
    hedge_call_async,
)
from backoff_ticker.waiting import loop_runs
from tests.helpers import eventually
from tests.retries.hedges import InTurn, own_token, takes
from tests.stress.tools import gc_threshold

TEN = ConstantBackOff(10)
TOKEN = CancellationToken()
"""Outlives all calls."""


class Failure(Exception):
    """Is kept, weakly."""

    def __init__(self):
        left.append(weakref.ref(self))


left = []
"""What the attempts of a test have made, weakly."""


class Watched(InTurn):
    """An operation whose tokens are kept, weakly."""

    def _next(self):
        left.append(weakref.ref(own_token()))
        return super()._next()


def in_threads(operation, caught, _, **options):
    with suppress(caught):
        hedge_call(operation, TEN, **options)


def in_pool(operation, caught, _, **options):
    with ThreadPoolExecutor(8) as pool:
        in_threads(operation, caught, None, pool=pool, **options)


def in_loop(operation, caught, runner, **options):
    async def main():
        with suppress(caught):
            async with asyncio.timeout(100):
                await hedge_call_async(operation.in_loop, TEN, **options)

    runner.run(main())


def judges_long(_):
    """Accept a result, while the other attempt ends."""
    if not loop_runs():
        current_clock().sleep(10)
    return True


CASES = {
    "all fail": ([(1, Failure)], Failure, {}),
    "all fail at once": ([(0, Failure)], Failure, {"max_attempts": 3}),
    "success": ([(1, Failure), (1, Failure), (50, Failure), (2, 7)], (), {}),
    "losers": ([(50, 7), (45, Failure), (60, Failure)], (), {"timeout": 60}),
    "permanent": ([(50, Failure), (3, Failure)], Failure, {"on": KeyError}),
    "timeout": ([(1, Failure), (50, 7)], DeadlineExceeded, {"timeout": 20}),
    "of asyncio": ([(1, Failure), (500, 7)], TimeoutError, {"budget": RetryBudget()}),
    "rejected": ([(1, Failure), (1, 7)], Exception, {"until": lambda _: False}),
    "an end that nobody looks at": ([(15, Failure), (3, 7)], (), {"until": judges_long}),
}


@pytest.mark.parametrize("call", [in_threads, in_pool, in_loop])
@pytest.mark.parametrize("case", CASES)
def test_nothing_of_a_call_outlives_it(case, call, clock, join_attempts):
    steps, caught, options = CASES[case]
    left.clear()

    def call_and_forget():
        operation = Watched(
            *(
                takes(seconds, answer, cleanup=1, then=answer if answer is Failure else None)
                for seconds, answer in steps
            )
        )
        left.append(weakref.ref(operation))
        call(operation, caught, runner, token=TOKEN, **options)

    gc.collect()
    with gc_threshold(0), asyncio.Runner() as runner:
        call_and_forget()
        join_attempts()
        eventually(lambda: {ref() for ref in left} == {None}, "all has been dropped")
    assert len(left) > 1
    assert clock.pending() == []

"""Hedged calls in threads and in loops, and the attempts that a test makes them of."""

import asyncio
import gc

from backoff_ticker import current_clock, hedge_call, hedge_call_async
from backoff_ticker.waiting import cancelled_error, shielded
from tests.helpers import sleep
from tests.retries.faces import Face, in_loop, in_trio
from tests.retries.scripts import answered


async def in_task(operation, backoff=None, **options):
    """Make a hedged call in this loop, after which no task of it is left."""
    try:
        return await hedge_call_async(operation, backoff, **options)
    finally:
        assert asyncio.all_tasks() == {asyncio.current_task()}
        gc.collect()  # tasks whose errors nobody asked for complain as they go


class HedgeFace(Face):
    """One of the ways to make a hedged call; an operation for all has also ``in_loop``."""

    def run(self, operation, backoff=None, **options):
        if self.asynchronous:
            operation = getattr(operation, "in_loop", operation)
        return super().run(operation, backoff, **options)

    __call__ = run

    @property
    def waits(self):
        """Whether it waits for the attempts that have lost."""
        return self.asynchronous


hedge = HedgeFace("hedge_call_async", in_task, in_loop=in_loop)

HEDGES = {
    "hedge": HedgeFace("hedge_call", hedge_call),
    "async hedge": hedge,
    "trio hedge": HedgeFace("hedge_call_async", hedge_call_async, in_loop=in_trio),
}


def own_token():
    """Return the token of the attempt that runs in this thread."""
    from backoff_ticker import current_attempt  # here: `test_untracked` runs without it

    attempt = current_attempt()
    assert attempt is not None
    return attempt.token


class takes:  # noqa: N801 - reads as what an attempt does
    """An attempt that takes time, and takes time and does something when it is told to end."""

    def __init__(self, seconds, answer, *, cleanup=0.0, then=None):
        self._seconds = seconds
        self._answer = answer
        self._cleanup = cleanup
        self._then = then

    def __call__(self):
        if own_token().wait(self._seconds):
            current_clock().sleep(self._cleanup)
            if self._then is None:
                own_token().raise_if_cancelled()
            return answered(self._then)
        return answered(self._answer)

    async def in_loop(self):
        """Do the same as a coroutine."""
        try:
            await sleep(self._seconds)
        except cancelled_error():
            with shielded():
                await sleep(self._cleanup)
            if self._then is None:
                raise
            return answered(self._then)
        return answered(self._answer)

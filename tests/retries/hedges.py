"""Hedged calls, and the attempts that a test makes them of."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

from backoff_ticker import hedge_call_async
from tests.retries.faces import in_loop
from tests.retries.scripts import answered, now

if TYPE_CHECKING:
    from collections.abc import Callable


def hedge(operation: Any, backoff: Any = None, **options: Any) -> Any:
    """Make a hedged call in a new loop, in which nothing goes wrong and no task is left."""

    async def main() -> Any:
        try:
            return await hedge_call_async(operation, backoff, **options)
        finally:
            assert asyncio.all_tasks() == {asyncio.current_task()}
            gc.collect()  # tasks whose errors nobody asked for complain as they go

    return in_loop(main())


class InTurn:
    """An operation that makes its attempts by functions in turn, by the last one ever after.

    Attributes:
        times: When it was called.
    """

    def __init__(self, *functions: Callable[[], Any]) -> None:
        self._functions = functions
        self.times: list[float] = []

    def __call__(self) -> Any:
        self.times.append(now())
        return self._functions[min(len(self.times), len(self._functions)) - 1]()


def takes(seconds: float, answer: Any, *, cleanup: float = 0.0, then: Any = None) -> Any:
    """Return an attempt that takes time, and takes time and does something when it is cancelled."""

    async def attempt() -> Any:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            await asyncio.sleep(cleanup)
            if then is None:
                raise
            return answered(then)
        return answered(answer)

    return attempt

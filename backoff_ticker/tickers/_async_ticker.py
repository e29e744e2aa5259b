"""``AsyncTicker``, and how its readers wait."""

from __future__ import annotations

from sys import modules

from .. import _process
from .._errors import TickerClosed
from .._sentinels import EMPTY
from .._validation import as_seconds
from ..clock import later
from ..waiting import CHECKPOINT_EVERY, NO_DEADLINE, LoopWaiter, checkpoint, current_loop, trio_runs
from ._ticker import BaseTicker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Coroutine
    from datetime import timedelta
    from typing import Any, Self

    from ._tick import Tick


class AsyncTicker(BaseTicker):
    """An iterator of ticks for event loops: a ``Ticker`` for ``async for tick in ticker:``.

    Coroutines of several event loops may read it; it belongs to none. A reader that never has to
    wait yields to its loop at every 64th tick, so a delay of zero does not block other tasks.

    It takes the arguments of ``Ticker``, which describes them.

    If cancelled: the tick stays for the next reader.

    Example:
        >>> import asyncio
        >>> from backoff_ticker import AsyncTicker, ConstantBackOff, with_max_retries
        >>> async def main():
        ...     async for tick in AsyncTicker(with_max_retries(ConstantBackOff(0.001), 1)):
        ...         print(tick.number, tick.delay)
        >>> asyncio.run(main())
        1 0.0
        2 0.001
    """

    __slots__ = ()

    # It repeats park_coroutine(): a second coroutine would add an eighth to the memory of a reader.
    async def receive(  # noqa: C901
        self, timeout: float | timedelta | None = None, *, _end: type[Exception] = TickerClosed
    ) -> Tick:
        """Wait for the next tick and take it, as ``Ticker.receive()`` does in a thread."""
        limit = NO_DEADLINE
        if timeout is not None:
            limit = later(self._monotonic(), as_seconds("timeout", timeout))
        try:
            if self._pending.number % CHECKPOINT_EVERY == 0 or ("trio" in modules and trio_runs()):
                await checkpoint()
            due = self._pending.due
            # A tick that is not due yet is looked for once the reader stands in line.
            is_early = timeout is None and due is not None and due > self._monotonic()
            tick: Any = EMPTY if is_early else self._poll()
            if tick is not EMPTY:
                return tick
            while True:
                if timeout is not None and self._monotonic() >= limit:
                    raise TimeoutError(f"no tick within {as_seconds('timeout', timeout)} s")
                waiter = self._waiter(limit)
                future: Any = EMPTY
                try:
                    while True:
                        future = waiter.await_next(self._clock, self._recheck)
                        if future is None:
                            break
                        await future
                finally:
                    try:
                        self._end_wait(waiter, future)
                    except BaseException:
                        self._end_wait(waiter, future)
                        raise
                tick = self._poll(first_poll=False)
                if tick is not EMPTY:  # ATOMIC: as in Ticker._wait_for_tick()
                    return tick
        except TickerClosed:
            if _end is TickerClosed:
                raise
            raise _end from None

    def _waiter(self, limit: float) -> LoopWaiter:
        """Return the waiter that rests if it belongs to this loop, else a new one."""
        loop, readers = current_loop(), self._readers
        waiter: Any = readers.resting
        if waiter is not None and waiter.domain == id(loop):
            readers.resting = None  # no other loop does so
            if self._ends in waiter.sources and waiter.generation == _process.generation:
                waiter.loop = loop
                waiter.limit = limit
                return waiter
            waiter.end()  # after a reset() with another token, or a fork
        return LoopWaiter(self._wait_sets(), limit)

    def _end_wait(self, waiter: LoopWaiter, future: object) -> None:
        """Let a waiter rest, or end it if it was cut short. May be repeated."""
        readers = self._readers
        if future is None and readers.resting in (None, waiter) and self._timer is None:
            waiter.rest()
        if readers.resting is not waiter:
            waiter.end()

    def __del__(self) -> None:
        readers = getattr(self, "_readers", None)  # None: __init__() has failed
        if readers is not None and readers.resting is not None:
            readers.resting.end()  # which leaves the set of the token

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Coroutine[Any, Any, Tick]:
        return self.receive(_end=StopAsyncIteration)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.stop()

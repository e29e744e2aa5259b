"""The timers of an event loop that runs on a virtual clock."""

from __future__ import annotations

import asyncio
from heapq import heappush
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from ..liveness._reports import name_of

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_STALE = 1024
"""How many orders of past timers are kept, in addition to twice the number of timers."""


class LoopTimers:
    """The timers of one loop, and their order among all timers of the clock.

    The loop knows when a timer is due, but not which of those that are due at the same time was set
    first. That is recorded when a timer is set.

    Attributes:
        ahead: How far the loop's time is ahead of the clock's, in seconds.
    """

    def __init__(self, loop: Any, ahead: float, next_order: Callable[[], int]) -> None:  # noqa: ANN401 - much of it is private
        self.ahead: float = ahead
        self._loop = loop
        self._next_order = next_order
        self._orders: dict[float, int] = {}

    def recording(self, call_at: Any) -> Any:  # noqa: ANN401
        """Return the replacement of the loop's ``call_at``."""
        record, next_order, loop = self._orders.setdefault, self._next_order, self._loop

        def call_at_recorded(when: float, callback: Any, *args: Any, context: Any = None) -> Any:  # noqa: ANN401
            record(when, next_order())
            if loop._debug or loop._closed or when is None:
                return call_at(when, callback, *args, context=context)
            # asyncio's own method, inlined: every sleep comes this way.
            timer: Any = asyncio.TimerHandle(when, callback, args, loop, context)
            heappush(loop._scheduled, timer)
            timer._scheduled = True
            return timer

        return call_at_recorded

    def next(self) -> tuple[float | None, int | None]:
        """Return when the next one is due on the clock, and its order among those due then."""
        scheduled, orders = self._loop._scheduled, self._orders
        when = scheduled[0]._when if scheduled else inf
        if len(orders) > _MAX_STALE + 2 * len(scheduled):
            pending = {handle._when for handle in scheduled}
            for stale in orders.keys() - pending:
                del orders[stale]
        return (when - self.ahead, orders.get(when)) if isfinite(when) else (None, None)

    def pending(self) -> list[tuple[float, str]]:
        """Return when each one is due on the clock, and what it calls."""
        return [
            (handle._when - self.ahead, f"call of {name_of(_called(handle))}")
            for handle in list(self._loop._scheduled)
            if not handle._cancelled
        ]


def _called(handle: Any) -> Any:  # noqa: ANN401
    timer = getattr(handle._callback, "__self__", None)
    return timer._callback if isinstance(timer, LoopTimer) else handle._callback


class LoopTimer:
    """The handle of ``clock.call_at(..., loop=loop)`` for a loop that runs on the clock."""

    __slots__ = ("_callback", "_handle", "when")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        ahead: float,
        when: float,
        callback: Callable[[], object],
    ) -> None:
        self.when: float = when
        self._callback: Callable[[], object] | None = callback
        self._handle = loop.call_at(when + ahead, self._run)

    def cancel(self) -> bool:
        """Prevent the call; True if this call prevented it."""
        if self._callback is None:
            return False
        self._callback = None
        self._handle.cancel()
        return True

    def _run(self) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()

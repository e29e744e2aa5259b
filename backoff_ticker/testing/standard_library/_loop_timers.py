"""The timers of an event loop that runs on a virtual clock."""

from __future__ import annotations

import asyncio
from heapq import heappush
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from ..liveness._reports import name_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..participants._parking import Parking

_MAX_STALE = 1024
"""How many orders of past timers are kept, in addition to twice the number of timers."""


class _Timer(asyncio.TimerHandle):
    """A timer in the heap of a loop, made and compared with fewer calls."""

    __slots__ = ()
    _scheduled: bool
    _when: float

    def __init__(self, when: float, callback: Any, args: Any, loop: Any, context: Any) -> None:  # noqa: ANN401 - asyncio's
        asyncio.Handle.__init__(self, callback, args, loop, context)
        self._when = when
        self._scheduled = True

    def __lt__(self, other: Any) -> bool:  # noqa: ANN401 - as asyncio's
        return self._when < other._when  # type: ignore[no-any-return]


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

    def recording_call_at(self) -> Any:  # noqa: ANN401
        """Return the replacement of the loop's ``call_at``."""
        orders, next_order, loop = self._orders, self._next_order, self._loop
        original, is_usual = loop.call_at, _is_usual(loop, "call_at")

        def call_at(when: float, callback: Any, *args: Any, context: Any = None) -> Any:  # noqa: ANN401
            if when not in orders:
                orders[when] = next_order()
            if not is_usual or loop._debug or loop._closed or when is None:
                return original(when, callback, *args, context=context)
            # asyncio's own method, inlined.
            timer = _Timer(when, callback, args, loop, context)
            heappush(loop._scheduled, timer)
            return timer

        return call_at

    def recording_call_later(self, parking: Parking) -> Any:  # noqa: ANN401
        """Return the replacement of the loop's ``call_later``."""
        orders, next_order, loop = self._orders, self._next_order, self._loop
        original, is_usual = loop.call_later, _is_usual(loop, "call_later", "call_at", "time")
        ahead = self.ahead

        def call_later(delay: float, callback: Any, *args: Any, context: Any = None) -> Any:  # noqa: ANN401
            if not is_usual or loop._debug or loop._closed or delay is None:
                return original(delay, callback, *args, context=context)
            # asyncio's own method, inlined with the two that it calls: every sleep comes this way.
            when = parking.seconds + ahead + delay
            if when not in orders:
                orders[when] = next_order()
            timer = _Timer(when, callback, args, loop, context)
            heappush(loop._scheduled, timer)
            return timer

        return call_later

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


def _is_usual(loop: object, *names: str) -> bool:
    """Whether the class of a loop has these methods from asyncio."""
    own, usual = type(loop), asyncio.BaseEventLoop
    return all(getattr(own, name) is getattr(usual, name) for name in names)


def _called(handle: Any) -> Any:  # noqa: ANN401
    timer = getattr(handle._callback, "__self__", None)
    return timer._callback.get(0) if isinstance(timer, LoopTimer) else handle._callback


class LoopTimer:
    """The handle of ``clock.call_at(..., loop=loop)`` for a loop that runs on the clock.

    The callback belongs to the loop or to ``cancel()``, whichever pops it; any thread may cancel.
    """

    __slots__ = ("_callback", "_handle", "_loop", "when")

    def __init__(
        self,
        loop: Any,  # noqa: ANN401 - much of it is private
        ahead: float,
        when: float,
        callback: Callable[[], object],
    ) -> None:
        self.when: float = when
        self._callback = {0: callback}
        self._loop = loop
        self._handle = loop.call_at(when + ahead, self._run)

    def cancel(self) -> bool:
        """Prevent the call; True if this call prevented it."""
        if self._callback.pop(0, None) is None:
            return False
        # Not cancel(), which also clears what the loop, in its own thread, may be about to call.
        self._loop._timer_handle_cancelled(self._handle)
        self._handle._cancelled = True
        return True

    def _run(self) -> None:
        callback = self._callback.pop(0, None)
        if callback is not None:
            callback()

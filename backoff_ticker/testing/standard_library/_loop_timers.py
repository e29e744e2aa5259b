"""The timers of an event loop that runs on a virtual clock."""

from __future__ import annotations

from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from .._reports import name_of

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_STALE = 1024
"""How many orders of past timers are kept, in addition to twice the number of timers."""


class LoopTimers:
    """The timers of one loop, and their order among all timers of the clock.

    The loop knows when a timer is due, but not which of those that are due at the same time was set
    first. That is recorded when a timer is set.
    """

    def __init__(self, loop: Any, next_order: Callable[[], int]) -> None:  # noqa: ANN401 - much of it is private
        self._loop = loop
        self._call_at = loop.call_at
        self._next_order = next_order
        self._orders: dict[float, int] = {}

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:  # noqa: ANN401
        """Stand for the loop's method, which all its timers go through."""
        if when not in self._orders:
            self._orders[when] = self._next_order()
        return self._call_at(when, callback, *args, context=context)

    def move(self, seconds: float) -> None:
        """Move all timers, because the loop's time is another one from now on."""
        for handle in self._loop._scheduled:
            handle._when += seconds

    def next(self) -> tuple[float | None, int | None]:
        """Return when the next one is due on the clock, and its order among those due then."""
        scheduled, orders = self._loop._scheduled, self._orders
        when = scheduled[0]._when if scheduled else inf
        if len(orders) > _MAX_STALE + 2 * len(scheduled):
            pending = {handle._when for handle in scheduled}
            for stale in orders.keys() - pending:
                del orders[stale]
        return (when, orders.get(when)) if isfinite(when) else (None, None)

    def pending(self) -> list[tuple[float, str]]:
        """Return when each one is due on the clock, and what it calls."""
        return [
            (handle._when, f"call of {name_of(_called(handle))}")
            for handle in list(self._loop._scheduled)
            if not handle._cancelled
        ]


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
        when: float,
        callback: Callable[[], object],
    ) -> None:
        self.when: float = when
        self._callback = {0: callback}
        self._loop = loop
        self._handle = loop.call_at(when, self._run)

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

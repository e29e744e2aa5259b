"""The pending timers of a virtual clock, in order, and what is told of them.

Times are floats of seconds outside and integer nanoseconds inside, so that sums are exact.
"""

from __future__ import annotations

import sys
from heapq import heapify, heappop, heappush
from math import floor
from typing import TYPE_CHECKING, Any, NamedTuple

from ..clock import PendingCall

if TYPE_CHECKING:
    from collections.abc import Callable

_SECOND = 1_000_000_000


def in_nanoseconds(seconds: float) -> int:
    """Convert a finite number of seconds; the only place that rounds."""
    whole = floor(seconds)
    return whole * _SECOND + round((seconds - whole) * _SECOND)


def in_seconds(nanoseconds: int) -> float:
    """Return the nearest float."""
    return nanoseconds / _SECOND


LATEST = in_nanoseconds(sys.float_info.max)  # that a float of seconds can express


class TimerInfo(NamedTuple):
    """A timer that is set on a virtual clock; ``clock.pending()`` returns a list of them.

    Attributes:
        when: When it is due, in seconds of the clock.
        what: What it is for, in words.
        owner: The participant that it wakes, or the participant in whose event loop it is; None for
            a callback of the clock.

    Example:
        >>> from backoff_ticker.testing import VirtualClock
        >>> with VirtualClock() as clock:
        ...     timer = clock.call_at(5, print)
        ...     print(clock.pending())
        [TimerInfo(when=5.0, what='call of print', owner=None)]
    """

    when: float
    what: str
    owner: str | None


class VirtualTimer(PendingCall):
    """Calls a callback at a given time, which ends the wait of ``sleeper`` if that is given.

    ``when`` is in seconds, ``due`` in nanoseconds; ``what`` is shown in reports.
    """

    __slots__ = ("_heap", "due", "sleeper", "what")

    def __init__(
        self,
        when: float,
        what: str,
        heap: TimerHeap,
        callback: Callable[[], object],
        *,
        sleeper: Any = None,
    ) -> None:
        due = in_nanoseconds(when)
        self.due: int = due + (in_seconds(due) < when)  # nothing runs early
        super().__init__(in_seconds(self.due), callback)
        self.what: str = what
        self.sleeper: Any = sleeper
        self._heap = heap

    def cancel(self) -> bool:
        prevented = super().cancel()
        self._heap.cancelled += prevented
        return prevented


class TimerHeap:
    """A heap of timers, the next one first. Only commands of the kernel use it."""

    __slots__ = ("_added", "_entries", "cancelled")

    def __init__(self) -> None:
        # About how many were cancelled since the last sweep: two threads may count one.
        self.cancelled: int = 0
        self._added = 0
        self._entries: list[tuple[int, bool, int, VirtualTimer]] = []

    def push(self, timer: VirtualTimer, *, last: bool = False) -> None:
        """Add a timer after those due at the same time; ``last``: after those that come, too."""
        entries = self._entries
        self._added += 1
        heappush(entries, (timer.due, last, self._added, timer))
        if self.cancelled * 2 > len(entries):
            self.cancelled = 0
            entries[:] = [entry for entry in entries if not entry[3].is_taken]
            heapify(entries)

    def first(self) -> VirtualTimer | None:
        """Return the next timer that is neither fired nor cancelled; drop those before it."""
        entries = self._entries
        while entries:
            timer = entries[0][3]
            if not timer.is_taken:
                return timer
            heappop(entries)
        return None

    def pending(self) -> list[VirtualTimer]:
        return [timer for _, _, _, timer in sorted(self._entries) if not timer.is_taken]

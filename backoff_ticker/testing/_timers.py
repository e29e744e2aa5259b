"""The pending timers of a virtual clock, in order.

Times are floats of seconds outside and integer nanoseconds inside, so that sums are exact.
"""

from __future__ import annotations

import sys
from heapq import heapify, heappop, heappush
from math import floor
from typing import TYPE_CHECKING, Any

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


class VirtualTimer:
    """Calls a callback, or ends the wait of ``sleeper``, a participant, at a given time.

    ``when`` is in seconds, ``due`` in nanoseconds. ``order`` is that among timers which are due at
    the same time; ``what`` is shown in reports.
    """

    __slots__ = ("_callbacks", "_heap", "due", "order", "sleeper", "what", "when")

    def __init__(
        self,
        when: float,
        order: int,
        what: str,
        heap: TimerHeap,
        *,
        sleeper: Any = None,
        callback: Callable[[], object] | None = None,
    ) -> None:
        due = in_nanoseconds(when)
        self.due: int = due + (in_seconds(due) < when)  # nothing runs early
        self.when: float = in_seconds(self.due)
        self.order: int = order
        self.what: str = what
        self.sleeper: Any = sleeper
        self._callbacks = [callback]  # whoever pops it has fired or cancelled the timer
        self._heap = heap

    @property
    def pending(self) -> bool:
        return bool(self._callbacks)

    def cancel(self) -> bool:
        """Prevent the call; True if this call prevented it. From any thread; never blocks."""
        try:
            self._callbacks.pop()
        except IndexError:
            return False
        self._heap.cancelled += 1
        return True

    def fire(self) -> None:
        try:
            callback = self._callbacks.pop()
        except IndexError:
            return
        if callback is not None:
            callback()


class TimerHeap:
    """A heap of timers, the next one first. Only commands of the kernel use it."""

    __slots__ = ("_added", "_entries", "cancelled")

    def __init__(self) -> None:
        # About how many were cancelled since the last sweep: two threads may count one.
        self.cancelled: int = 0
        self._added = 0  # a tie-breaker, so that timers are never compared
        self._entries: list[tuple[int, int, int, VirtualTimer]] = []

    def push(self, timer: VirtualTimer) -> None:
        entries = self._entries
        self._added += 1
        heappush(entries, (timer.due, timer.order, self._added, timer))
        if self.cancelled * 2 > len(entries):
            self.cancelled = 0
            entries[:] = [entry for entry in entries if entry[3].pending]
            heapify(entries)

    def first(self) -> VirtualTimer | None:
        """Return the next timer that is neither fired nor cancelled; drop those before it."""
        entries = self._entries
        while entries:
            timer = entries[0][3]
            if timer.pending:
                return timer
            heappop(entries)
        return None

    def pending(self) -> list[VirtualTimer]:
        return [timer for _, _, _, timer in sorted(self._entries) if timer.pending]

    def __len__(self) -> int:
        return len(self._entries)

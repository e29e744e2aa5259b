"""The pending timers of a virtual clock, in order.

Times are floats of seconds outside and integer nanoseconds inside, so that sums are exact.
"""

from __future__ import annotations

import sys
from heapq import heapify, heappop, heappush
from math import floor
from typing import TYPE_CHECKING, Any

from ._participant import Participant

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    Target: TypeAlias = Callable[[], object] | Participant

_SECOND = 1_000_000_000


def in_nanoseconds(seconds: float) -> int:
    """Convert a finite number of seconds; the only place that rounds."""
    whole = floor(seconds)
    return whole * _SECOND + round((seconds - whole) * _SECOND)


def in_seconds(nanoseconds: int) -> float:
    """Return the nearest float."""
    return nanoseconds / _SECOND


LATEST = in_nanoseconds(sys.float_info.max)
"""The latest time that a float of seconds can express."""


class VirtualTimer:
    """Calls a callback, or ends a participant's wait, at a given time.

    Attributes:
        when: The time, in seconds of the clock.
        due: The same in nanoseconds; timers are ordered by it.
        order: The order among timers that are due at the same time.
        what: What it is for, in reports.
    """

    __slots__ = ("_heap", "_target", "due", "order", "what", "when")

    def __init__(self, when: float, order: int, target: Target, heap: TimerHeap, what: str) -> None:
        self.when: float = when
        self.due: int = in_nanoseconds(when)
        self.order: int = order
        self.what: str = what
        self._target = {0: target}  # empty once it was fired or cancelled
        self._heap = heap

    @property
    def pending(self) -> bool:
        """Whether it was neither fired nor cancelled."""
        return bool(self._target)

    @property
    def sleeper(self) -> Participant | None:
        """The participant whose wait it ends; None for a callback."""
        target = self._target.get(0)
        return target if isinstance(target, Participant) else None

    def cancel(self) -> bool:
        """Prevent the call; True if this call prevented it. From any thread; never blocks."""
        if self._target.pop(0, None) is None:
            return False
        self._heap.cancelled += 1
        return True

    def fire(self) -> None:
        """Call the callback, unless it was cancelled; if an interrupt comes before, it is kept."""
        target: Any = self._target.get(0)
        try:
            # ATOMIC: no call between the removal and the call of the callback. An interrupt there
            # would lose the callback: the timer is not pending any more.
            del self._target[0]
        except KeyError:
            return
        target()


class TimerHeap:
    """A heap of timers, the next one first. Commands of the kernel use it, and nothing else does.

    Attributes:
        cancelled: About how many timers were cancelled since the last sweep. Threads that count at
            once may count one: then the sweep comes later.
    """

    __slots__ = ("_added", "_entries", "cancelled")

    def __init__(self) -> None:
        self.cancelled: int = 0
        self._added = 0  # a tie-breaker, so that timers are never compared
        self._entries: list[tuple[int, int, int, VirtualTimer]] = []

    def push(self, timer: VirtualTimer) -> None:
        """Add a timer; one that is there may be added again. Sweep out those that are over."""
        entries = self._entries
        self._added += 1
        heappush(entries, (timer.due, timer.order, self._added, timer))
        if self.cancelled * 2 > len(entries):
            self.cancelled = 0
            pending = [entry for entry in entries if entry[3].pending]
            heapify(pending)
            entries[:] = pending

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
        """Return the timers that are neither fired nor cancelled, in order."""
        timers = [timer for _, _, _, timer in sorted(self._entries) if timer.pending]
        return list(dict.fromkeys(timers))

    def __len__(self) -> int:
        return len(self._entries)

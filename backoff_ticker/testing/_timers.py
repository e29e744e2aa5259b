"""What is due on a virtual clock, in order."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from ._nanoseconds import in_nanoseconds
from ._participant import Participant

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    Target: TypeAlias = Callable[[], object] | Participant


class VirtualTimer:
    """A callback that is due, or the end of a participant's wait.

    Attributes:
        when: When it is due, in seconds of the clock.
        due: The same in nanoseconds: what orders it.
        order: Which comes first among those due at the same time.
        what: What it is for, for reports.
    """

    __slots__ = ("_heap", "_target", "due", "order", "what", "when")

    def __init__(self, when: float, order: int, target: Target, heap: TimerHeap, what: str) -> None:
        self.when: float = when
        self.due: int = in_nanoseconds(when)
        self.order: int = order
        self.what: str = what
        self._target = [target]
        self._heap = heap

    @property
    def pending(self) -> bool:
        """Whether it was neither fired nor cancelled."""
        return bool(self._target)

    @property
    def sleeper(self) -> Participant | None:
        """The participant whose wait it ends; None for a callback."""
        try:
            target = self._target[0]
        except IndexError:
            return None
        return target if isinstance(target, Participant) else None

    def take(self) -> Target | None:
        """Return what it is for to the one caller that gets it; None to any other."""
        try:
            return self._target.pop()
        except IndexError:
            return None

    def cancel(self) -> bool:
        """Prevent the call; True if this is what prevented it. From anywhere; never blocks."""
        if self.take() is None:
            return False
        self._heap.cancelled += 1
        return True


class TimerHeap:
    """The timers of a clock, the next first. Only the kernel touches it, with its lock.

    Attributes:
        cancelled: About how many of them are dead: says when a sweep is worth while.
    """

    __slots__ = ("_added", "_entries", "cancelled")

    def __init__(self) -> None:
        self.cancelled: int = 0
        self._added = 0  # keeps timers themselves from being compared
        self._entries: list[tuple[int, int, int, VirtualTimer]] = []

    def push(self, timer: VirtualTimer) -> None:
        """Add a timer; once more than half of all are dead, forget those."""
        entries = self._entries
        self._added += 1
        heappush(entries, (timer.due, timer.order, self._added, timer))
        if self.cancelled * 2 > len(entries):
            self.cancelled = 0
            entries[:] = [entry for entry in entries if entry[3].pending]
            heapify(entries)

    def first(self) -> VirtualTimer | None:
        """Return the next one that is not cancelled."""
        entries = self._entries
        while entries:
            timer = entries[0][3]
            if timer.pending:
                return timer
            heappop(entries)
            self.cancelled -= 1
        return None

    def pop(self) -> None:
        """Remove the next one."""
        heappop(self._entries)

    def pending(self) -> list[VirtualTimer]:
        """Return those that are not cancelled, in order."""
        return [timer for _, _, _, timer in sorted(self._entries) if timer.pending]

    def __len__(self) -> int:
        return len(self._entries)

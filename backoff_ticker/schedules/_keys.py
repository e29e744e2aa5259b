"""The keys of a schedule: which wait and until when, which a worker has. Nothing waits here.

One thread at a time calls the methods: the *owner*, see ``_core``. A signal handler may raise
anywhere in them, and then the owner repeats the change. So each may be repeated: an entry is put
in line before it says when it is due, and is held before it leaves the line.

Invariants:
    * An entry waits if its ``due`` is a time, and then an item with this time is in the heap, or in
      the line of its group. All other items are out of date, and are dropped when they come first.
    * A key has at most one *hold*. An entry that a worker has, or that was added again while a
      worker has its key, does not wait: the end of the hold decides when it is due.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush

from .. import _process
from ..clock import later
from ..tickers import catch_up
from ..waiting import NO_DEADLINE, failure_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable
    from typing import Any

    from ..policies import BackOff

    Item = tuple[float, int, "Entry"]

_NANOSECOND = 1e-9
_SPARE_ITEMS = 64


class Entry:
    """A key of the schedule.

    Attributes:
        key: What the user has added.
        due: When it falls due, in monotonic seconds; ``NO_DEADLINE`` while it does not wait.
        every: The seconds between two times of its grid; 0.0: it has none.
        origin: The first time of its grid, the time at which it was due first.
        group: The group that it belongs to.
        slot: The number, from 0, of the first time of its grid that is later than its last job.
        failures: How often its work has failed in a row.
        runs: Its copies of feedback policies, by the identity of the original; None: none yet.
    """

    __slots__ = ("due", "every", "failures", "group", "key", "origin", "runs", "slot")

    def __init__(self, key: Any, due: float, every: float, group: Any) -> None:  # noqa: ANN401
        self.key = key
        self.due = NO_DEADLINE
        self.every = every
        self.origin = due
        self.group = group
        self.failures = self.slot = 0
        self.runs: dict[int, BackOff] | None = None

    def advance(self, due: float, now: float) -> float:
        """Pass the times of the grid up to ``due``, when its last job was due.

        Return the first time after those, and not before ``now``; without a grid ``now``.
        """
        if not self.every:
            return now
        slot = later(self.origin, self.slot * self.every)
        if slot <= due:
            self.slot += 1
            slot = later(self.origin, self.slot * self.every)
            if slot <= due:
                slot, self.slot = catch_up(self.origin, self.every, later(due, _NANOSECOND))
        return slot if slot >= now else catch_up(self.origin, self.every, now)[0]

    def missed(self) -> int:
        """Return how many times of the grid since its last job are before ``due``."""
        if self.due - self.origin <= self.slot * self.every + _NANOSECOND or not self.every:
            return 0
        return max(0, catch_up(self.origin, self.every, self.due)[1] - self.slot)


class Hold:
    """An entry that a worker has.

    Attributes:
        due: When it was due.
        is_dropped: Whether its job was dropped, and has to be ended.
        missed: How many times of its grid were left out before.
        again: When it was asked for once more meanwhile; ``NO_DEADLINE``: it was not.
    """

    __slots__ = ("again", "due", "entry", "is_dropped", "missed")

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.due = entry.due
        self.missed = entry.missed()
        self.again = NO_DEADLINE
        self.is_dropped = False


class _Group:
    """What a group has: workers, and entries that are due and wait for one of those to end."""

    __slots__ = ("holds", "line")

    def __init__(self) -> None:
        self.holds: dict[Hold, None] = {}
        self.line: list[Item] = []  # a heap: who is let in too early keeps its turn


class Keys:
    """All keys of a schedule.

    Attributes:
        entries: The keys, whether they wait or a worker has them.
        holds: Those that workers have, and those that were removed since.
        failing: Keys whose last work failed.
        dropped: Holds whose jobs were dropped.
        limit: How many of a group may be held at once; 0: there are no groups.
    """

    __slots__ = (
        *("_added", "_generation", "_groups", "_heap"),
        *("dropped", "entries", "failing", "holds", "limit"),
    )

    def __init__(self, limit: int) -> None:
        self.entries: dict[Hashable, Entry] = {}
        self.holds: dict[Hashable, Hold] = {}
        self.failing: dict[Hashable, None] = {}
        self.dropped: deque[Hold] = deque()
        self.limit = limit
        self._heap: list[Item] = []
        self._added = 0  # keys that are due at the same time come in the order of their numbers
        self._groups: dict[Hashable, _Group] = {}
        self._generation = _process.generation

    def begin(self, generation: int) -> None:
        """Drop the holds of the parent, before the first change in a forked child."""
        if self._generation != generation:
            for key in self.holds:
                self.remove(key)
            self.holds.clear()
            self.dropped.clear()
            for group in self._groups.values():
                group.holds.clear()
            self._sort_anew()
            self._generation = generation

    def add(self, key: Hashable, due: float, every: float, group: Hashable) -> None:
        """Add a key, or have it fall due earlier; one that is held comes once more afterwards."""
        hold = self.holds.get(key)
        entry = self.entries.get(key)
        if entry is None:
            entry = self.entries[key] = Entry(key, due, every, group)
        if hold is not None:
            hold.again = min(hold.again, due)
        elif due < entry.due:
            self._put_in_line(entry, due)

    def add_all(self, batch: Iterable[tuple[Hashable, float, float, Hashable]]) -> None:
        entries, holds = self.entries, self.holds
        for key, due, every, group in batch:
            if key in entries or key in holds:
                self.add(key, due, every, group)
            else:
                entry = entries[key] = Entry(key, due, every, group)
                self._added += 1
                heappush(self._heap, (due, self._added, entry))
                entry.due = due

    def remove(self, key: Hashable) -> None:
        entry = self.entries.get(key)
        if entry is not None:
            entry.due = NO_DEADLINE
            if key in self.holds:
                self.holds[key].again = NO_DEADLINE
            self.failing.pop(key, None)
            del self.entries[key]

    def pick(self, now: float) -> Hold | None:
        """Return a hold for the key that is due first, or one whose job was dropped, if any.

        It is none before ``take(hold)``.
        """
        while self.dropped:
            hold = self.dropped[0]
            if self.holds.get(hold.entry.key) is hold:
                return hold
            self.dropped.popleft()  # it has ended: the process has forked, or was interrupted
        while (first := self._first()) is not None and first[0] <= now:
            entry = first[2]
            if not self.limit:
                return Hold(entry)
            group = self._groups.setdefault(entry.group, _Group())
            if len(group.holds) < self.limit:
                return Hold(entry)
            heappush(group.line, first)
            heappop(self._heap)
            if self._is_stale(group.line):
                self._sort_anew()
        return None

    def take(self, hold: Hold) -> None:
        entry = hold.entry
        if self.dropped and self.dropped[0] is hold:
            hold.is_dropped = True
            self.dropped.popleft()
            return
        error = failure_of(self.holds.__setitem__, entry.key, hold)
        if error is not None:  # its hash fails by now: it must not stop the others
            entry.due = NO_DEADLINE
            raise error
        if self.limit:
            self._groups[entry.group].holds[hold] = None
        entry.due = NO_DEADLINE
        heappop(self._heap)

    def next_due(self) -> float:
        """Return when the next key falls due; ``NO_DEADLINE``: none does."""
        first = self._first()
        return NO_DEADLINE if first is None else first[0]

    def end(self, hold: Hold, due: float | None, failures: int, now: float) -> None:
        """End a hold: the key is due then, or when it was asked for meanwhile.

        ``NO_DEADLINE``: it leaves, unless it was asked for; None: it leaves.
        """
        entry = hold.entry
        key = entry.key
        if self.holds.get(key) is not hold:
            return  # it has ended
        known = self.entries.get(key)
        again = max(hold.again, now)
        if known is entry and (due is None or due == again == NO_DEADLINE):
            self.failing.pop(key, None)
            del self.entries[key]
        elif known is entry and due is not None and due != NO_DEADLINE:
            entry.failures = failures
            if failures:
                self.failing[key] = None
            else:
                self.failing.pop(key, None)
            self._put_in_line(entry, min(due, again))
        elif known is not None:  # it has left, and came anew
            if known is entry:
                self.failing.pop(key, None)
                known = self.entries[key] = Entry(key, again, entry.every, entry.group)
            self._put_in_line(known, again)
        if self.limit and entry.group in self._groups:
            self._groups[entry.group].holds.pop(hold, None)
            self._let_in(entry.group)
        del self.holds[key]

    def _put_in_line(self, entry: Entry, due: float) -> None:
        self._added += 1
        heappush(self._heap, (due, self._added, entry))
        entry.due = due
        if self._is_stale(self._heap):
            self._sort_anew()

    def _is_stale(self, items: list[Item]) -> bool:
        """Whether most of these are out of date."""
        return len(items) > 2 * len(self.entries) + _SPARE_ITEMS

    def _sort_anew(self) -> None:
        """Drop what is out of date, which may have kept places of groups; who waits looks again."""
        heap = [*self._heap]
        for group in self._groups.values():
            heap += group.line
        heap = [item for item in heap if item[0] == item[2].due]
        heapify(heap)
        self._heap = heap
        for group in self._groups.values():
            group.line.clear()

    def _first(self) -> Item | None:
        """Return the first item of the heap that is not out of date."""
        heap = self._heap
        while heap:
            first = heap[0]
            if first[0] == first[2].due:
                return first
            heappop(heap)
            if self.limit:  # it may have kept a place of its group
                self._let_in(first[2].group)
        return None

    def _let_in(self, name: Hashable) -> None:
        """Put the next entry that waits for a place in its group in line, if there is a place."""
        group = self._groups.get(name)
        if group is None or len(group.holds) >= self.limit:
            return
        while group.line:
            item = group.line[0]
            if item[0] == item[2].due:
                heappush(self._heap, item)
                heappop(group.line)
                return
            heappop(group.line)
        if not group.holds:
            del self._groups[name]

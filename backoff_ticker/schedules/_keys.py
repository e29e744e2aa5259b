"""The keys of a schedule: which wait and until when, which a worker has. Nothing waits here.

One thread at a time calls the methods, save ``count()`` and ``in``: the *owner*, see ``_core``. A
signal handler may raise anywhere in them, and then the owner repeats the change. So each may be
repeated: an entry is put in line before it says when it is due, and held before it leaves the line.

Invariants:
    * An entry waits if its ``due`` is a time, and then an item with this time is in the heap, or in
      the line of its group. All other items are out of date, and are dropped when they come first.
    * An entry that a worker has does not wait, and has one *hold*, whose end decides when it is
      due. It stays among the entries until then, also if its key was removed meanwhile.
    * Code of the user runs where a key comes or leaves, as keys are hashed and compared. All else
      goes by the identity of entries.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush
from itertools import count

from .. import _process
from ..clock import later
from ..tickers import catch_up
from ..waiting import NO_DEADLINE, check_stack, failure_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from typing import Any, TypeVarTuple, Unpack
    from weakref import ref

    from ..policies import BackOff

    Item = tuple[float, int, "Entry"]
    Ts = TypeVarTuple("Ts")

_NANOSECOND = 1e-9
_SPARE_ITEMS = 64


def error_of(call: Callable[[Unpack[Ts]], object], *args: *Ts) -> Exception | None:
    """Return the error of a call that runs code of the user, as ``failure_of()`` does.

    Where it may have had no memory or no stack that is raised: the next owner repeats the change.
    """
    error = failure_of(call, *args)
    if isinstance(error, MemoryError):
        raise error
    if error is not None:
        check_stack()
    return error


class Entry:
    """A key of the schedule."""

    __slots__ = ("due", "every", "failures", "group", "key", "origin", "runs", "slot")

    def __init__(self, key: Any, due: float, every: float, group: Any) -> None:
        self.key: Any = key  # what the user has added
        self.due: float = NO_DEADLINE  # in monotonic seconds; NO_DEADLINE while it does not wait
        self.every: float = every  # the seconds between two times of its grid; 0.0: it has none
        self.origin: float = due  # the first time of its grid, at which it was due first
        self.group: Any = group
        self.failures: int = 0  # in a row
        self.slot: int = 0  # the number, from 0, of the first time of its grid after its last job
        self.runs: dict[int, BackOff] | None = None  # its feedback policies, by id of the original

    def advance(self, due: float, now: float) -> float:
        """Pass the times of the grid up to ``due``, when its last job was due.

        Return the first time after those, and not before ``now``; without a grid ``now``.
        """
        if not self.every:
            return now
        if self.slot * self.every + self.origin <= due + _NANOSECOND:
            self.slot += 1
        slot = later(self.origin, self.slot * self.every)
        if slot <= due:
            slot, self.slot = catch_up(self.origin, self.every, later(due, _NANOSECOND))
        return slot if slot >= now else catch_up(self.origin, self.every, now)[0]

    def missed(self, due: float) -> int:
        """Return how many times of the grid since its last job are before ``due``."""
        if not self.every or due <= self.slot * self.every + self.origin + _NANOSECOND:
            return 0
        return max(0, catch_up(self.origin, self.every, due)[1] - self.slot)


class Hold:
    """An entry that a worker has."""

    __slots__ = ("again", "due", "entry", "follower", "generation", "outcome", "watch")

    def __init__(self, entry: Entry) -> None:
        due = entry.due
        self.entry: Entry = entry
        self.due: float = due  # when it was due
        self.again: float = NO_DEADLINE  # or when it was asked for once more meanwhile
        # Itself; None after its key was removed; another one after that was added again.
        self.follower: Entry | None = entry
        # After its end: when it is due (NO_DEADLINE: it leaves, unless it was asked for; None: it
        # leaves), its failures, and the time of the end. Until then: as if nobody had got it.
        self.outcome: tuple[float | None, int, float] = due, entry.failures, due
        self.generation: int = _process.generation  # in which that was told
        # Tells if its job is dropped; None: that was not handed over yet, or has ended.
        self.watch: ref[Any] | None = None


class _Group:
    """What a group has: workers, and entries that are due and wait for one of those to end."""

    __slots__ = ("holds", "line")

    def __init__(self) -> None:
        self.holds: set[Hold] = set()
        self.line: list[Item] = []  # a heap: who is let in too early keeps its turn


class Keys:
    """All keys of a schedule."""

    __slots__ = (
        *("_groups", "_heap", "_numbers"),
        *("dropped", "entries", "failing", "generation", "holds", "limit", "picked"),
    )

    def __init__(self, limit: int) -> None:
        self.entries: dict[Hashable, Entry] = {}  # whether they wait or a worker has them
        self.holds: dict[Entry, Hold] = {}
        self.failing: set[Entry] = set()  # those whose last work failed
        self.dropped: deque[Any] = deque()  # jobs in the place of dropped ones; readers end them
        self.picked: Hold | None = None  # which was taken last, if its job was not handed over
        self.limit: int = limit  # how many of a group may be held at once; 0: there are no groups
        self._heap: list[Item] = []
        self._numbers = count()  # keys that are due at the same time come in their order
        self._groups: dict[Hashable, _Group] = {}
        self.generation: int = _process.generation  # whose holds they are

    def count(self, _: object = None) -> int:
        """Return the number of keys; roughly, if the caller is not the owner."""
        removed = sum(hold.follower is None for hold in [*self.holds.values()])
        return max(0, len(self.entries) - removed)

    def __contains__(self, key: object) -> bool:
        entry = self.entries.get(key)
        hold = None if entry is None else self.holds.get(entry)
        if hold is None:
            return entry is not None and key in self.entries  # its hold may have ended just now
        return hold.follower is not None

    def begin(self, generation: int) -> None:
        """Drop the holds of the parent, before the first change in a forked child."""
        if self.generation < generation:
            for hold in self.holds.values():
                hold.watch = None
                self._replace(hold.entry, None)
                error_of(self._leave_group, hold)
            self.holds.clear()
            self.dropped.clear()
            self.generation = generation

    def add(self, added: list[Entry]) -> bool:
        """Add keys, or have them fall due earlier; those held come once more afterwards.

        Return whether the last one was known before.
        """
        entries, holds, heap, numbers = self.entries, self.holds, self._heap, self._numbers
        is_known = False
        for entry in added:
            due = entry.origin
            known = entries.setdefault(entry.key, entry)
            hold = holds.get(known)
            if hold is not None:
                if hold.follower is None:
                    hold.follower = entry
                hold.again = min(hold.again, due)
                known = hold.follower
            elif due < known.due:  # _put_in_line(), without a call for each of a million keys
                heappush(heap, (due, next(numbers), known))
                known.due = due
            is_known = known is not entry
        self._drop_stale(heap)
        return is_known

    def remove(self, key: Hashable) -> bool:
        """Remove a key; return whether it was known."""
        entry = self.entries.get(key)
        if entry is None:
            return False
        self.failing.discard(entry)
        hold = self.holds.get(entry)
        if hold is not None:
            was_known = hold.follower is not None
            hold.again = NO_DEADLINE
            hold.follower = None
            return was_known
        entry.due = NO_DEADLINE
        self._let_in(entry.group)  # it may have had its turn
        self._drop_stale(self._heap)
        del self.entries[key]  # no call after it: one that is repeated knows the key no more
        return True

    def take(self, now: float) -> Hold | None:
        """Hold the key that is due first for a worker, if one is due."""
        while (first := self.first()) is not None and first[0] <= now:
            entry = first[2]
            group = self._groups.setdefault(entry.group, _Group()) if self.limit else None
            if group is not None and len(group.holds) >= self.limit:
                heappush(group.line, first)
                heappop(self._heap)
                self._drop_stale(group.line)
                continue
            self.picked = hold = Hold(entry)
            self.holds[entry] = hold
            if group is not None:
                group.holds.add(hold)
            entry.due = NO_DEADLINE
            heappop(self._heap)
            if group is not None and len(group.holds) < self.limit:
                self._let_in(entry.group)  # an item out of date and true again had two turns
            return hold
        return None

    def end(self, hold: Hold) -> None:
        """End a hold: the key is due as its outcome says, or when it was asked for meanwhile."""
        entry = hold.entry
        if self.holds.get(entry) is not hold:
            return  # it has ended
        hold.watch = None
        due, failures, now = hold.outcome
        again = max(hold.again, now)
        if hold.follower is entry and (due is None or due == NO_DEADLINE):
            is_wanted = due is not None and again != NO_DEADLINE
            hold.follower = Entry(entry.key, again, entry.every, entry.group) if is_wanted else None
        follower = hold.follower
        if follower is entry and due is not None:
            if failures:
                self.failing.add(entry)
            elif entry.failures:
                self.failing.discard(entry)
            entry.failures = failures
            self._put_in_line(entry, min(due, again))
        else:
            self._replace(entry, follower)
            if follower is not None:
                self._put_in_line(follower, again)
        if self.limit:
            error_of(self._leave_group, hold)
        del self.holds[entry]

    def _replace(self, entry: Entry, follower: Entry | None) -> None:
        """Have another entry for the key, or none; one that cannot be hashed any more stays."""
        self.failing.discard(entry)
        if follower is None:
            error_of(self.entries.pop, entry.key, None)
        else:
            error_of(self.entries.__setitem__, entry.key, follower)

    def _put_in_line(self, entry: Entry, due: float) -> None:
        heappush(self._heap, (due, next(self._numbers), entry))
        entry.due = due

    def _drop_stale(self, items: list[Item]) -> None:
        """Drop what is out of date, once that is most of a heap."""
        if len(items) > 2 * len(self.entries) + _SPARE_ITEMS:
            fresh = [item for item in items if item[0] == item[2].due]
            heapify(fresh)
            items[:] = fresh

    def first(self) -> Item | None:
        """Return the first item of the heap that is not out of date."""
        heap = self._heap
        while heap:
            first = heap[0]
            if first[0] == first[2].due:
                return first
            heappop(heap)
        return None

    def _leave_group(self, hold: Hold) -> None:
        """Free the place of a hold in its group, which has to be hashed."""
        group = self._groups.get(hold.entry.group)
        if group is not None:
            group.holds.discard(hold)
            self._let_in(hold.entry.group)

    def _let_in(self, name: Hashable) -> None:
        """Put the next entry that waits for a place in its group in line again.

        If there is no place for it, it goes back when it comes first.
        """
        group = self._groups.get(name)
        while group is not None and group.line:
            item = group.line[0]
            is_waiting = item[0] == item[2].due
            if is_waiting:
                heappush(self._heap, item)
            heappop(group.line)
            if is_waiting:
                return
        if group is not None and not group.holds:
            del self._groups[name]

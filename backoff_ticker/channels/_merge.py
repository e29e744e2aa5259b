"""``merge``: iterating over what many sources give, in threads and coroutines.

A merge has a waiter in each source, its *case*, which stays registered while no reader waits. A
reader looks at the *ready* cases only: those that were woken, and those whose time has come. So a
value costs what there is to look at, however many sources there are.

Invariants:
    * A case is ready until a reader finds nothing, after it has registered the case, and nothing
      has woken it since. So readers may be interrupted anywhere, and look at the same case at once.
    * When a case becomes the only one that is ready, the first reader of each wake domain is woken.
      A reader that comes later looks for ready cases once it has registered.
    * A case is a wake domain of its own, so it takes no wake-up away from anybody.
    * Of the times of a case in the heap, each is earlier than those that came before it.
"""

# mypy: disable-error-code="overload-overlap"
# The second overload is for timers of users.

from __future__ import annotations

from heapq import heappop, heappush
from weakref import ref

from .. import _process
from .._random import shared_random
from .._sentinels import CLOSED, EMPTY, ENDED
from .._validation import whole_repr
from ..waiting import (
    FREED,
    NO_DEADLINE,
    Place,
    Waiter,
    WaitLine,
    acquire,
    checkpoint,
    park_coroutine,
    park_thread,
)
from ._select import Selection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Generic, Self, overload

    from ..waiting import Source, WaitSet
    from ._select import AnySource, R_co, S, Selectable
else:
    R_co, Generic = None, {None: object}  # typing is not imported at run time

_IDLE, _OVER = -1, -2


class _Heap(list):  # type: ignore[type-arg]  # list[Any] would be made at run time
    """Entries ``(when, identity of the case, case, its time before)``; a change may use these."""

    __slots__ = ()

    least_out = property(heappop)
    new_in = property(None, heappush)


class _Case(Waiter):
    """A source of a merge.

    Attributes:
        given, source: The source as it was given, and what values are received from.
        index: Where it is among the ready ones; else ``_IDLE``, or ``_OVER`` at its end.
        mark: How often it was woken.
        when: Its earliest time in the heap, or ``NO_DEADLINE``.
    """

    __slots__ = ("given", "index", "mark", "merge", "source", "when")

    # Replaced as a whole, since two readers may do so at once.
    sources: dict[WaitSet, Place]  # type: ignore[mutable-override]
    stays = True

    def __init__(self, merge: Merge[Any], given: AnySource, source: Source) -> None:
        super().__init__(None, {})
        self.merge = ref(merge)  # weak, so that it is freed as soon as nobody needs it
        self.given, self.source = given, source
        self.index, self.mark, self.when = _IDLE, 0, NO_DEADLINE
        self.register()

    @property
    def is_stale(self) -> bool:
        merge = self.merge()
        return merge is None or not merge._readers.reachable()

    def register(self) -> None:
        places, wait_sets = self.sources, self.source._wait_sets()
        if tuple(places) != wait_sets:  # at first, and when a ticker has another token
            self.unregister()
            places = {wait_set: Place(self) for wait_set in wait_sets}
            for place in places.values():
                place.line = None
            self.sources = places
        for wait_set in wait_sets:
            place = places[wait_set]
            if place.line is None:
                wait_set.add(place, self.domain)

    def unregister(self) -> None:
        places = self.sources
        for wait_set in places:  # without memory for items(), CPython crashes
            wait_set.leave(places[wait_set], self.domain)

    def wake(self) -> bool:
        merge = self.merge()
        if merge is not None:
            merge._note(self)
        return merge is not None


class Merge(Generic[R_co]):
    """The iterator that ``merge()`` returns.

    Example:
        >>> from backoff_ticker import Channel, Merge, merge
        >>> isinstance(merge(Channel(), Channel()), Merge)
        True
    """

    # _open: the cases whose ends were not given yet, by their identity
    # _ready: those that are ready, numbered from 0 to _size - 1
    # _edges: how often one became the only one that is ready; _told: at which readers were woken
    # _taken: those that gave a value; the next step begins to receive from them again
    __slots__ = (
        *("__weakref__", "_clock", "_edges", "_generation", "_heap", "_open", "_readers", "_ready"),
        *("_size", "_taken", "_told"),
    )

    def __init__(self, sources: tuple[AnySource, ...]) -> None:
        self._open: dict[int, _Case] = {}
        selection = Selection("merge()", sources, NO_DEADLINE)
        self._clock = selection.clock
        self._readers = WaitLine()
        self._heap = _Heap()
        self._ready: dict[int, _Case] = {}
        self._size = self._edges = self._told = 0
        for given, source in selection.cases:
            case = _Case(self, given, source)
            self._open[case.domain] = case
        self._taken = dict.fromkeys(self._open.values())
        self._generation = -1  # each process looks at all of them first

    def __del__(self) -> None:
        for case in self._open.values():
            case.unregister()

    def _note(self, case: _Case, entry: Any = None) -> None:
        """Make a case ready; with the first ``entry`` of the heap, as its time has come."""
        heap, ready = self._heap, self._ready
        claim = self._readers.claim
        acquire(claim)
        try:
            case.mark += 1
            if case.index == _IDLE:
                size = self._size
                larger = size + 1
                if not size:
                    self._edges += 1
                ready[size] = case
                case.index = size
                self._size = larger
            edges = self._edges
            if entry is not None and heap and heap[0] is entry:
                entry = heap.least_out
                case.when = entry[3]
        finally:
            claim += FREED
        if self._told != edges:
            self._readers.wake_firsts()
            self._told = edges

    def _put_aside(self, case: _Case, mark: int, index: int, when: float = NO_DEADLINE) -> bool:
        """Have a case ready no more until ``when``, unless it was woken after ``mark``."""
        before = case.when
        entry = when, case.domain, case, before
        ready, heap = self._ready, self._heap
        claim = self._readers.claim
        acquire(claim)
        try:
            at = case.index
            if at < 0 or case.mark != mark or case.when != before:
                return False
            size = self._size - 1
            if index == _OVER:
                del self._open[case.domain]
            elif when < before:
                heap.new_in = entry
                case.when = when
            self._size = size
            ready[at] = last = ready[size]
            last.index = at
            case.index = index
            del ready[size]
            return True
        finally:
            claim += FREED

    def _take(self, end: type[Exception], *, fresh: bool) -> Any:
        """Take a value or end of a source; None: none is ready; raise ``end`` after the last."""
        self._prepare()
        while size := self._size:
            case = self._ready.get(int(shared_random() * size))
            if case is None:
                continue  # another reader was faster
            mark = case.mark
            value = case.source._take_nowait(fresh=fresh)
            # ATOMIC: a signal handler that raises between this and the return to the user would
            # lose the value: so there is no call, and no jump back.
            if value is EMPTY:
                case.register()
                when = case.source._recheck(case)
                if when is not None:
                    self._put_aside(case, mark, _IDLE, when)
            elif value is not ENDED and not case.source._ends_with_value:
                try:
                    self._taken[case] = None
                    pair = case.given, value
                except MemoryError:
                    case.source._put_back(value)
                    raise
                return pair
            else:
                case.unregister()
                if self._put_aside(case, mark, _OVER):
                    return case.given, CLOSED if value is ENDED else value
        if not self._open:
            raise end
        return None

    def _prepare(self) -> None:
        """Ask those that gave a value for the next one, and find those whose time has come."""
        if self._generation != _process.generation:
            for case in [*self._open.values()]:
                case.generation = _process.generation
                self._note(case)
            self._generation = _process.generation
        for case in [*self._taken]:
            case.source._begin_receive()
            self._taken.pop(case, None)
        now = self._clock.monotonic() if self._heap else 0.0
        while (first := self._heap[:1]) and first[0][0] <= now:
            self._note(first[0][2], first[0])

    def _recheck(self, waiter: Waiter) -> float | None:
        if self._size or not self._open:
            return None
        for when, *_ in self._heap[:1]:
            if when <= self._clock.monotonic():
                return None
            if self._readers.leads(waiter):
                return when
        return NO_DEADLINE

    def __iter__(self) -> Self:
        return self

    __aiter__ = __iter__

    def __next__(self) -> R_co:
        fresh, line, names = True, (self._readers,), ("merge()", "async for")
        while True:
            pair: R_co = self._take(StopIteration, fresh=fresh)
            if pair is not None:
                return pair
            park_thread(self._clock, *names, line, self._recheck, ends=bool(self._heap))
            fresh = False

    async def __anext__(self) -> R_co:
        await checkpoint()
        fresh, line = True, (self._readers,)
        while True:
            pair: R_co = self._take(StopAsyncIteration, fresh=fresh)
            if pair is not None:
                return pair
            await park_coroutine(self._clock, line, self._recheck)
            fresh = False

    def __repr__(self) -> str:
        return f"merge({', '.join(whole_repr(case.given) for case in [*self._open.values()])})"


if TYPE_CHECKING:

    @overload
    def merge(*sources: Selectable[R_co]) -> Merge[R_co]: ...
    @overload
    def merge(*sources: S) -> Merge[tuple[S, Any]]: ...


def merge(*sources: Any) -> Any:
    """Iterate over the values of any number of sources, with ``for`` or ``async for``.

    Each step is a ``select`` and gives a tuple of the source and its value. The end of a source
    (``CLOSED``, or the cause of a token) is given once. The iteration ends when every source has
    ended; timers never end. A value costs the same however many sources have none.

    Wakes when: as ``select()``. If cancelled or interrupted: nothing is taken.
    Thread safety: threads and event loops may share it; each value and each end goes to one.

    Raises:
        TypeError, ValueError: As for the sources of ``select()``.

    Example:
        >>> from backoff_ticker import Channel, merge
        >>> left, right = Channel(1), Channel(1)
        >>> for number, channel in enumerate([left, right]):
        ...     channel.send(number)
        ...     channel.close()
        >>> sorted(value for _, value in merge(left, right) if isinstance(value, int))
        [0, 1]
    """
    return Merge(sources)

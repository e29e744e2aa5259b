"""Waiting for the first of several sources, in threads and event loops."""

from __future__ import annotations

from .._random import shared_random
from .._sentinels import CLOSED, EMPTY, ENDED
from .._validation import as_seconds, safe_repr
from ..waiting import NO_DEADLINE, Source, checkpoint, park_coroutine, park_thread
from ._timer import is_timer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Any, Self, TypeVar

    from ..clock import Clock
    from ..waiting import LoopWaiter, ThreadWaiter, WaitSet
    from ._protocol import TimerLike

    AnySource = Source | TimerLike
    S = TypeVar("S", bound=AnySource)


class _Selection:
    """One wait for the first of several sources.

    Attributes:
        cases: The sources in any order: each as it was given, and what stands behind it.
        clock: Measures the wait.
    """

    __slots__ = ("cases", "clock")

    def __init__(self, what: str, sources: tuple[AnySource, ...]) -> None:
        if not sources:
            raise TypeError(f"{what} needs at least one source")
        given = {id(source): source for source in sources}  # a source given twice counts once
        self.cases = [_case(what, source) for source in given.values()]
        self.clock = _clock_of(what, [case[1] for case in self.cases])

    def first(self, *, fresh: bool) -> tuple[Any, Any, bool] | None:
        """Take the value of a ready source, any of them with the same probability.

        Returns the source, its value, and whether that is its end; None if none is ready.
        """
        cases = self.cases
        if fresh:
            for _, behind in cases:
                behind._ask()
        left = len(cases)
        while left:
            at = int(shared_random() * left)
            left -= 1
            case = cases[at]
            cases[at] = cases[left]
            cases[left] = case
            source, behind = case
            value = behind._try(fresh=fresh)
            if value is ENDED:
                return source, CLOSED, True
            if value is not EMPTY:
                return source, value, behind._once
        return None

    def limit(self, seconds: float) -> float:
        return NO_DEADLINE if seconds == NO_DEADLINE else self.clock.monotonic() + seconds

    def check(self, limit: float, seconds: float) -> None:
        """Raise TimeoutError if the time is over."""
        if limit != NO_DEADLINE and self.clock.monotonic() >= limit:
            raise TimeoutError(f"no source was ready within {seconds} s")

    def wait_sets(self) -> dict[WaitSet, None]:
        """Return all that can wake: a dictionary, since tickers look up their token in it."""
        return {wait_set: None for case in self.cases for wait_set in case[1]._wait_sets()}

    def look(self, waiter: ThreadWaiter | LoopWaiter) -> float | None:
        until = waiter.limit
        for _, behind in self.cases:
            at = behind._recheck(waiter)
            if at is None:
                return None
            until = min(until, at)
        return until

    def hand_on(self, found: tuple[Any, Any, bool]) -> None:
        """Pass on the wake-ups of the sources whose value is not taken."""
        for source, behind in self.cases:
            if source is not found[0]:
                behind._pass_on_wakeup()

    def give_up(self, found: tuple[Any, Any, bool] | None) -> None:
        """Put back what was taken, and pass on all wake-ups."""
        for source, behind in self.cases:
            if found is not None and source is found[0] and not found[2]:
                behind._put_back(found[1])
            behind._pass_on_wakeup()


def _case(what: str, source: AnySource) -> tuple[AnySource, Source]:
    if isinstance(source, Source):
        return source, source
    if is_timer(source):
        return source, source.c
    raise TypeError(
        f"{what} waits for tickers, channels, timers and tokens, not for {safe_repr(source)}"
    )


def _clock_of(what: str, sources: list[Source]) -> Clock:
    timed = [clock for source in sources if (clock := source._timed_by) is not None]
    for clock in timed:
        if clock is not timed[0]:
            raise ValueError(f"{what} mixes times of {timed[0]!r} and {clock!r}")
    return timed[0] if timed else sources[0]._clock


def select(*sources: S, timeout: float | timedelta | None = None) -> tuple[S, Any]:
    """Block until the first of ``sources`` is ready, and take its value.

    Of several that are ready one is chosen at random, each with the same probability; the others
    keep what they have. While it waits it costs nothing; a call costs in proportion to the number
    of sources.

    Wakes when: a tick falls due, an item comes or a sender waits, a timer fires, a token is
    cancelled, a source ends.
    If interrupted: nothing is taken, and wake-ups go on to others who wait.
    Thread safety: any number of threads and loops, on the same sources, too.

    Args:
        sources: Tickers of either kind, channels, timers (their ``c`` is received from), tokens.
            A waiting ``select`` is a receiver for senders on a rendezvous.
        timeout: Seconds >= 0 or a timedelta; 0 does not wait; None: no limit. Measured by the clock
            of tickers, timers and deadlines, if there are any, else by that of the first source.

    Returns:
        The source and its value: a tick, an item, the time a timer fired, the cause with which a
        token was cancelled; ``CLOSED`` for a ticker or channel that has ended.

    Raises:
        TypeError: No source is given, or something that is none; nothing was taken.
        ValueError: Tickers, timers of clocks, and tokens with deadlines are on different clocks.
        TypeError, ValueError: ``timeout`` is not a finite duration of at least 0.
        TimeoutError: No source was ready in time.
        Exception: What the policy of a ticker failed with; once.
    """
    seconds = NO_DEADLINE if timeout is None else as_seconds("timeout", timeout)
    found = _wait("select()", sources, seconds)
    return found[0], found[1]


def _wait(what: str, sources: tuple[AnySource, ...], seconds: float) -> tuple[Any, Any, bool]:
    selection = _Selection(what, sources)
    found = selection.first(fresh=True)
    if found is None:
        limit = selection.limit(seconds)
        try:
            while found is None:
                selection.check(limit, seconds)
                park_thread(selection.clock, what, selection.wait_sets(), selection.look, limit)
                found = selection.first(fresh=False)
            selection.hand_on(found)
        except BaseException:
            selection.give_up(found)
            raise
    return found


async def select_async(*sources: S, timeout: float | timedelta | None = None) -> tuple[S, Any]:
    """Wait in a coroutine as ``select()`` does in a thread.

    If it is cancelled, nothing is taken, and wake-ups go on to others who wait. It gives way to the
    loop once before it looks, so that nobody starves where sources are ready each time.
    """
    seconds = NO_DEADLINE if timeout is None else as_seconds("timeout", timeout)
    found = await _wait_async("select_async()", sources, seconds)
    return found[0], found[1]


async def _wait_async(
    what: str, sources: tuple[AnySource, ...], seconds: float
) -> tuple[Any, Any, bool]:
    selection = _Selection(what, sources)
    await checkpoint
    found = selection.first(fresh=True)
    if found is None:
        limit = selection.limit(seconds)
        try:
            while found is None:
                selection.check(limit, seconds)
                wait_sets = selection.wait_sets()
                await park_coroutine(selection.clock, wait_sets, selection.look, limit)
                found = selection.first(fresh=False)
            selection.hand_on(found)
        except BaseException:
            selection.give_up(found)
            raise
    return found


class _Merge:
    """See ``merge``."""

    __slots__ = ("_open",)

    def __init__(self, sources: tuple[AnySource, ...]) -> None:
        _Selection("merge()", sources)  # only to raise what the first step would
        self._open = {id(source): source for source in sources}

    def _told(self, source: AnySource) -> bool:
        """Whether the end of ``source`` was reported before; from now on it was."""
        key = id(source)
        try:
            del self._open[key]  # no call from here to the return of the end
        except KeyError:
            return True
        return False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[Any, Any]:
        while self._open:
            source, value, ends = _wait("merge()", tuple(self._open.values()), NO_DEADLINE)
            if not ends or not self._told(source):
                return source, value
        raise StopIteration

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> tuple[Any, Any]:
        while self._open:
            sources = tuple(self._open.values())
            source, value, ends = await _wait_async("merge()", sources, NO_DEADLINE)
            if not ends or not self._told(source):
                return source, value
        raise StopAsyncIteration


def merge(*sources: AnySource) -> _Merge:
    """Return an iterator of what several sources bring, for ``for`` and ``async for``.

    Each step is a ``select``: it gives the source and its value. The end of a source, ``CLOSED`` or
    the cause of a token, is given once, then the source is left out; after the last of them the
    iteration ends. Timers never end.

    Any number of threads and loops may share it; each value, and each end, goes to one of them.

    Raises:
        TypeError: No source is given, or something that is none.
        ValueError: Tickers, timers of clocks, and tokens with deadlines are on different clocks.
    """
    return _Merge(sources)

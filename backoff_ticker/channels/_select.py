"""``select``: waiting for the first of several sources, in threads and coroutines."""

# mypy: disable-error-code="overload-overlap"
# The second overload of each function is for timers of users.

from __future__ import annotations

from .._random import shared_random
from .._sentinels import CLOSED, EMPTY, ENDED
from .._validation import as_seconds, safe_repr
from ..clock import later, one_clock
from ..waiting import NO_DEADLINE, Source, check_stack, checkpoint, park_coroutine, park_thread
from ._timer import is_timer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Any, Protocol, overload

    from typing_extensions import TypeVar

    from ..waiting import Waiter, WaitSet
    from ._protocol import TimerLike

    AnySource = Source | TimerLike
    S = TypeVar("S", bound=AnySource)
    R_co = TypeVar("R_co", covariant=True, default=tuple[Any, Any])
    Timeout = float | timedelta | None

    class Selectable(Protocol[R_co]):
        """A source of the package: type checkers know what is selected, itself and its value."""

        @property
        def _selected(self) -> R_co: ...


class Selection:
    """One wait for the first of several sources.

    Attributes:
        cases: The sources in any order: each as it was given, and what is received from.
        chosen, value: The source that was ready, as it was given, and what was taken.
        source: Where to give it back; None: nothing was taken, or the source has ended.
    """

    __slots__ = ("cases", "chosen", "clock", "deadline", "is_fresh", "seconds", "source", "value")

    def __init__(self, caller: str, sources: tuple[AnySource, ...], seconds: float) -> None:
        if not sources:
            raise TypeError(f"{caller} needs at least one source")
        unique = {id(source): source for source in sources}
        self.cases = [(given, _receiver_of(caller, given)) for given in unique.values()]
        clocks = [clock for _, source in self.cases if (clock := source._timing_clock) is not None]
        self.clock = one_clock(caller, clocks, self.cases[0][1]._clock)
        self.seconds = seconds
        self.deadline = later(self.clock.monotonic(), seconds)
        self.is_fresh = True  # it has not waited yet
        self.chosen: Any = None
        self.value: Any = None
        self.source: Source | None = None

    def is_over(self) -> bool:
        """Take the value of a ready source, if there is one; else raise once the time is over."""
        cases, fresh = self.cases, self.is_fresh
        if not fresh:
            check_stack()
        else:
            for _, source in cases:
                source._begin_receive()
        left = len(cases)
        while left:  # shuffles the cases only as far as it tries them
            at = int(shared_random() * left)
            left -= 1
            cases[at], cases[left] = cases[left], cases[at]
            given, source = cases[left]
            value = source._take_nowait(fresh=fresh)
            # ATOMIC: a signal handler that raises before the value is stored, or after this method
            # has returned True, would lose it. So there is no call in either place.
            if value is not EMPTY:
                ends = value is ENDED or source._ends_with_value
                self.chosen = given
                self.value = CLOSED if value is ENDED else value
                self.source = None if ends else source
                if not fresh:
                    for other, source in cases:
                        if other is not given:
                            source._pass_on_wakeup()
                return True
        self.is_fresh = False
        if self.deadline != NO_DEADLINE and self.clock.monotonic() >= self.deadline:
            raise TimeoutError(f"no source was ready within {self.seconds} s")
        return False

    def give_back(self) -> None:
        """Put back what was taken, and wake others for all sources."""
        if self.source is not None:
            self.source._put_back(self.value)
        for _, source in self.cases:
            source._pass_on_wakeup()

    def wait_sets(self) -> dict[WaitSet, None]:
        """Return the wait sets of all sources: a dict, since tickers look up their token in it."""
        return {wait_set: None for _, source in self.cases for wait_set in source._wait_sets()}

    def ends_by_itself(self) -> bool:  # not in block_on(): CPython 3.14 makes a loop of any()
        return any(source._ends_by_itself for _, source in self.cases)

    def recheck(self, waiter: Waiter) -> float | None:
        until = waiter.limit
        for _, source in self.cases:
            at = source._recheck(waiter)
            if at is None:
                return None
            until = min(until, at)
        return until


def _receiver_of(caller: str, given: AnySource) -> Source:
    if isinstance(given, Source):
        return given
    if is_timer(given):
        return given.c
    kinds = "tickers, schedules, channels, timers and tokens"
    raise TypeError(f"{caller} waits for {kinds}, not for {safe_repr(given)}")


if TYPE_CHECKING:

    @overload
    def select(*sources: Selectable[R_co], timeout: Timeout = None) -> R_co: ...
    @overload
    def select(*sources: S, timeout: Timeout = None) -> tuple[S, Any]: ...


def select(*sources: Any, timeout: float | timedelta | None = None) -> Any:
    """Wait for the first of several sources, such as tickers and channels, and take its value.

    It blocks this thread; in a coroutine use ``select_async``. If several sources are ready, one is
    chosen at random with equal probability, and the others keep what they have.

    Wakes when: a tick or key is due, a channel has an item or a sender that waits, a timer fires, a
    token is cancelled, or a source ends.
    If interrupted: nothing is taken, and others that wait are woken for it.
    Thread safety: any number of threads and event loops may select from the same sources.

    Args:
        sources: Tickers of either kind, channels, schedules, timers and tokens. With a channel of
            capacity 0, a ``select`` that waits counts as a receiver.
        timeout: Seconds >= 0 or a timedelta. 0 does not wait; None means no limit. The clock of
            the tickers, schedules, timers and deadlines measures it; without any, that of the first
            source.

    Returns:
        A tuple of the source and its value: a tick, an item, a job, the time at which a timer
        fired, or the cause of a token; ``CLOSED`` for any other source that has ended.

    Raises:
        TimeoutError: No source was ready in time.
        TypeError, ValueError: There is no source, or an argument is not one; tickers, schedules,
            timers and deadlines are on different clocks; ``timeout`` is not a finite duration >= 0.
        RuntimeError: It has to wait where an event loop runs, without a timeout, and for nothing
            that comes by itself, such as a tick; any other wait blocks that loop, with a
            ``RuntimeWarning``.
        Exception: The policy of a ticker failed; its error is raised once.

    Example:
        >>> from backoff_ticker import CancellationToken, Channel, select
        >>> jobs, token = Channel(1), CancellationToken()
        >>> jobs.send("job")
        >>> source, value = select(jobs, token)
        >>> source is jobs, value
        (True, 'job')
    """
    seconds = NO_DEADLINE if timeout is None else as_seconds("timeout", timeout)
    return block_on(("select()", "await select_async()"), sources, seconds)


def block_on(
    names: tuple[str, str], sources: tuple[AnySource, ...], seconds: float
) -> tuple[Any, Any]:
    """Block this thread as ``select()`` does; ``names`` are those of ``park_thread()``."""
    wait = Selection(names[0], sources, seconds)
    try:
        while True:
            if wait.is_over():
                return wait.chosen, wait.value
            wait_sets, ends = wait.wait_sets(), wait.ends_by_itself()
            park_thread(wait.clock, *names, wait_sets, wait.recheck, wait.deadline, ends=ends)
    except BaseException:
        wait.give_back()
        raise


if TYPE_CHECKING:

    @overload
    async def select_async(*sources: Selectable[R_co], timeout: Timeout = None) -> R_co: ...
    @overload
    async def select_async(*sources: S, timeout: Timeout = None) -> tuple[S, Any]: ...


async def select_async(*sources: Any, timeout: float | timedelta | None = None) -> Any:
    """Wait in a coroutine for the first of several sources, as ``select()`` does in a thread.

    It yields to the event loop once before it looks, so that other tasks run even if a source is
    always ready. If cancelled: as if interrupted.

    Example:
        >>> import asyncio
        >>> from backoff_ticker import Channel, select_async
        >>> jobs = Channel(1)
        >>> jobs.send("job")
        >>> asyncio.run(select_async(Channel(), jobs, timeout=5)) == (jobs, "job")
        True
    """
    seconds = NO_DEADLINE if timeout is None else as_seconds("timeout", timeout)
    wait = Selection("select_async()", sources, seconds)
    await checkpoint()
    try:
        while True:
            if wait.is_over():
                return wait.chosen, wait.value
            await park_coroutine(wait.clock, wait.wait_sets(), wait.recheck, wait.deadline)
    except BaseException:
        wait.give_back()
        raise

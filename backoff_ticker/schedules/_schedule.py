"""``Schedule``: what users call, and how workers wait for a job."""

from __future__ import annotations

from functools import partial
from math import ulp
from sys import modules
from types import GenericAlias

from .._errors import ScheduleClosed, WouldBlock
from .._operation import called
from .._process import ProcessBound
from .._sentinels import EMPTY
from .._validation import as_count, as_seconds, counted, safe_repr
from ..clock import later, resolve_clock
from ..waiting import (
    CHECKPOINT_EVERY,
    NO_DEADLINE,
    checkpoint,
    park_coroutine,
    park_thread,
    trio_runs,
)
from ._core import ScheduleCore
from ._keys import Entry, Keys
from ._rules import Rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Hashable, Iterable
    from datetime import timedelta
    from types import UnionType
    from typing import Any, Generic, Self, TypeVar

    from _typeshed import SupportsItems

    from .._sentinels import Closed
    from ..cancellation import CancellationToken
    from ..clock import Clock
    from ..policies import BackOff
    from ..waiting import Waiter
    from ._job import Job

    K = TypeVar("K", bound=Hashable)
    Seconds = float | timedelta
    ErrorRule = (
        type[Exception]
        | tuple[type[Exception], ...]
        | UnionType
        | SupportsItems[type[Exception], bool | Seconds | BackOff]
        | Callable[[Exception], bool | Seconds]
    )
else:
    K, Generic = None, {None: object}  # typing is not imported at run time

_BATCH = 1024
"""How many keys are added in one change: others may come between."""


class Schedule(ScheduleCore, ProcessBound, Generic[K]):
    """Keys that fall due at times of their own, each given to one worker at a time.

    With ``every`` it is a fleet to poll; without, a work queue with back-off. Any number of threads
    take jobs by ``for job in schedule:``, coroutines of any loops by ``async for``; each does its
    work in ``with job:``. ``len(schedule)`` is the number of keys, ``key in schedule`` tells
    whether it has one. It has no thread of its own, and is a source for ``select()``.

    After a success a key is due at the next time of its own grid, the time at which it was due
    first plus multiples of ``every``; without ``every`` it leaves, or rests as the ``success()`` of
    a feedback policy says. After a failure it rests as ``backoff`` says. If a policy fails, its
    error is raised at the end of the block, and the key is due at the next time of its grid, else
    in a minute.

    Wakes when: a key falls due, the schedule is closed, or its token is cancelled.
    If cancelled or interrupted: a key that was just taken is due again at once.
    In a forked child: it has the keys that wait; those that workers have are its parent's.
    Thread safety: all methods in any thread. Those that do not wait never block, and may be called
    in signal handlers, finalizers and callbacks, save ``receive_nowait()``.

    Args:
        every: Seconds > 0 or a timedelta between two times of a key's grid, or a function of the
            key that returns them, which is called when the key is added. None: no grid.
        backoff: The policy after failures. Each key counts its own failures, and has its own copy
            of a feedback policy. ``STOP``: the key leaves. None means the grid, or without
            ``every`` ``ExponentialBackOff()``, which gives up after 15 minutes.
        on: Which errors are failures that a job swallows, as in ``retry``: a type, tuple, union,
            mapping or function. None: all but those that mean a wrong program. Whatever it says, a
            ``RetryAfter`` sets the rest, and a ``Permanent`` gives the key up. ``backoff`` is asked
            even if the error, or ``on``, sets the rest, 6 hours at most: ``STOP`` counts.
        token: A ``CancellationToken`` that ends the iterations.
        clock: Measures all times. None means the current clock.
        group: A function of the key, called when it is added: what it returns names its group.
        limit: The number of jobs of one group that workers may have at once, an int >= 1.
        notify: Called with the job, its error (None after ``fail()``) and the seconds that the key
            rests, if nobody removes or adds it, after a failure that was swallowed. None: the log
            ``backoff_ticker.schedule`` has a warning of the first failure in a row, and of the
            last one if the key is given up; those between are of level DEBUG.
        on_give_up: Called with the job and its error when the policy gives up. The key leaves,
            unless it was added while the worker had it.

    Raises:
        TypeError, ValueError: An argument has the wrong type or value; ``group`` without ``limit``;
            a token has its deadline on another clock.

    Example:
        >>> from backoff_ticker import ConstantBackOff, Schedule
        >>> devices = Schedule(every=5, backoff=ConstantBackOff(0.01), on=OSError)
        >>> devices.add("lamp")
        True
        >>> for job in devices:
        ...     with job:
        ...         print(job.key, job.failures)
        ...         if job.failures == 0:
        ...             raise OSError("the lamp does not answer")
        ...         devices.close()
        lamp 0
        lamp 1
    """

    __slots__ = ("_every", "_group", "_takes_left", "_traits")

    _selected: tuple[Self, Job[K] | Closed]  # for type checkers: what select() returns

    _kind = "a Schedule"
    __class_getitem__: classmethod[Any, ..., GenericAlias] = classmethod(GenericAlias)

    def __init__(
        self,
        *,
        every: Seconds | Callable[[K], Seconds] | None = None,
        backoff: BackOff | None = None,
        on: ErrorRule | None = None,
        token: CancellationToken | None = None,
        clock: Clock | None = None,
        group: Callable[[K], Hashable] | None = None,
        limit: int | None = None,
        notify: Callable[[Job[K], Any, float], object] | None = None,
        on_give_up: Callable[[Job[K], Any], object] | None = None,
    ) -> None:
        clock = resolve_clock(clock)
        self._traits: tuple[float, None] | None = None  # of all keys, if they are the same
        if not callable(every):
            every = 0.0 if every is None else _as_interval("every", every)
            self._traits = (every, None) if group is None else None
        self._every: Any = every  # 0.0: none
        for name, value in (("group", group), ("notify", notify), ("on_give_up", on_give_up)):
            if value is not None and not callable(value):
                raise TypeError(f"{name} must be callable or None, not {safe_repr(value)}")
        if (group is None) != (limit is None):
            raise TypeError(
                "group and limit go together: a function that names the group of a key, and how "
                f"many jobs of one group run at once, not group={safe_repr(group)}, limit={limit!r}"
            )
        self._group: Any = group
        self._takes_left = CHECKPOINT_EVERY
        rules = Rules(clock, backoff, on, notify, on_give_up)
        keys = Keys(0 if limit is None else as_count("limit", limit, 1))
        super().__init__(clock, rules.token(token), keys, rules)

    def add(self, key: K, delay: Seconds = 0) -> bool:
        """Add a key that is due after ``delay`` seconds; True if it is new.

        One that waits falls due at the earlier of the two times. One that a worker has comes once
        more afterwards, ``delay`` from now at the earliest. To move a key to a later time, call
        ``remove()`` first.

        Raises:
            ScheduleClosed: The schedule was closed, or its token is cancelled.
            TypeError, ValueError: ``key`` cannot be hashed, ``delay`` is not a finite duration >=
                0, or what ``every`` returns is none > 0.
        """
        hash(key)
        due = later(self._monotonic(), as_seconds("delay", delay))
        if self._token.cancelled:
            raise ScheduleClosed
        entry = Entry(key, due, *(self._traits or self._traits_of(key)))
        return not self._ask(Keys.add, [entry], partial(self._keys.__contains__, key))

    def add_all(self, keys: Iterable[K], over: Seconds | None = None) -> None:
        """Add many keys, spread evenly: the i-th of n is due i/n of ``over`` seconds from now.

        ``over`` None means ``every``, each key its own; without it all are due now. Keys that the
        schedule has are treated as by ``add()``.

        Raises:
            ScheduleClosed, TypeError, ValueError: As for ``add()``. The keys before are added.
        """
        found = list(keys)
        count = len(found)
        span = None if over is None else as_seconds("over", over)
        now, traits = self._monotonic(), self._traits
        for start in range(0, count or 1, _BATCH):
            if self._token.cancelled:
                raise ScheduleClosed
            batch: list[Entry] = []
            try:
                for number, key in enumerate(found[start : start + _BATCH], start):
                    every, group = traits or self._traits_of(key)
                    due = later(now, (every if span is None else span) * number / count)
                    batch.append(Entry(key, due, every, group))
            finally:
                self._ask(Keys.add, batch, bool)

    def _traits_of(self, key: K) -> tuple[float, Any]:
        """Return the interval of a key, 0.0 for none, and its group."""
        every = self._every
        if callable(every):
            every = _as_interval("what every returns", called("every", every, key))
        group = None if self._group is None else called("group", self._group, key)
        try:
            hash(group)
        except TypeError:
            text = f"what group returns must be hashable, not {safe_repr(group)}"
            raise TypeError(text) from None
        return every, group

    def remove(self, key: K) -> bool:
        """Remove a key; False if it is not there. A worker that has it ends its work.

        It does not come again, unless it is added again; then its count of failures begins anew.
        """
        return self._ask(Keys.remove, key, partial(self._keys.__contains__, key))

    def close(self) -> None:
        """End all iterations; jobs under way go on. May be repeated."""
        self._token.cancel()

    @property
    def closed(self) -> bool:
        """Whether the schedule was closed, or its token is cancelled."""
        return self._token.cancelled

    @property
    def in_flight(self) -> int:
        """The number of keys that workers have."""
        self._settle_now()
        return max(0, len(self._keys.holds) - len(self._keys.dropped))

    @property
    def failing(self) -> int:
        """The number of keys whose last work failed."""
        self._settle_now()
        return len(self._keys.failing)

    def receive(self, timeout: Seconds | None = None) -> Job[K]:
        """Take the job that is due first; block this thread until one is due.

        Args:
            timeout: Seconds >= 0 or a timedelta. 0 does not wait; None means no limit.

        Raises:
            ScheduleClosed: The schedule was closed, or its token is cancelled.
            TimeoutError: No key was due in time.
            TypeError, ValueError: ``timeout`` is not a finite duration >= 0.
            RuntimeError: It has to wait where an event loop runs, without a timeout, and no key
                falls due (else a ``RuntimeWarning``), or in a signal handler that has interrupted a
                call of the schedule.
        """
        limit = self._limit_of(timeout)
        names = "Schedule.receive()", "await schedule.receive_async()"
        while True:
            is_late = limit != NO_DEADLINE and self._monotonic() >= limit
            job: Job[K] = self._poll(waits=not is_late)
            if job is not EMPTY:  # ATOMIC: no call between taking a job and its return
                return job
            if is_late:
                raise _nothing_due(timeout)
            line, ends = self._wait_sets(), self._ends_by_itself
            park_thread(self._clock, *names, line, self._recheck, limit, ends=ends)

    def receive_nowait(self) -> Job[K]:
        """Take a job as ``receive()`` does, or raise ``WouldBlock`` if that had to wait."""
        job: Job[K] = self._poll()
        if job is EMPTY:
            raise WouldBlock("no key is due")
        return job

    async def receive_async(
        self, timeout: Seconds | None = None, *, _end: type[Exception] = ScheduleClosed
    ) -> Job[K]:
        """Take a job in a coroutine, as ``receive()`` does in a thread.

        One that never has to wait yields to its loop at every 64th call.
        """
        limit = self._limit_of(timeout)
        if self._takes_left <= 0 or ("trio" in modules and trio_runs()):
            self._takes_left = CHECKPOINT_EVERY
            await checkpoint()
        self._takes_left -= 1
        try:
            while True:
                is_late = limit != NO_DEADLINE and self._monotonic() >= limit
                job: Job[K] = self._poll(waits=not is_late)
                if job is not EMPTY:
                    return job
                if is_late:
                    raise _nothing_due(timeout)
                await park_coroutine(self._clock, self._wait_sets(), self._recheck, limit)
        except ScheduleClosed:
            raise _end from None

    def _limit_of(self, timeout: Seconds | None) -> float:
        """Return when a wait that begins now is over."""
        if timeout is None:
            return NO_DEADLINE
        return later(self._monotonic(), as_seconds("timeout", timeout))

    def __iter__(self) -> Self:
        return self

    __aiter__ = __iter__

    def __next__(self) -> Job[K]:
        try:
            return self.receive()
        except ScheduleClosed:
            raise StopIteration from None

    def __anext__(self) -> Coroutine[Any, Any, Job[K]]:
        return self.receive_async(_end=StopAsyncIteration)

    def drain(self, timeout: Seconds | None = None) -> bool:
        """Block this thread until no worker has a job; False if ``timeout`` ran out before.

        Close the schedule before, or other jobs may be taken meanwhile.

        Raises:
            TypeError, ValueError, RuntimeError: As for ``receive()``.
        """
        limit = self._begin_drain(timeout)
        names = "Schedule.drain()", "await schedule.drain_async()"
        while self.in_flight:
            if self._monotonic() >= limit:
                return False
            park_thread(self._clock, *names, (self._drains,), self._recheck_drain, limit)
        return True

    async def drain_async(self, timeout: Seconds | None = None) -> bool:
        """Wait in a coroutine until no worker has a job, as ``drain()`` does in a thread."""
        limit = self._begin_drain(timeout)
        if trio_runs():
            await checkpoint()
        while self.in_flight:
            if self._monotonic() >= limit:
                return False
            await park_coroutine(self._clock, (self._drains,), self._recheck_drain, limit)
        return True

    def _begin_drain(self, timeout: Seconds | None) -> float:
        """Return when a drain is over; no job is taken any more, if the schedule has ended."""
        if self._token.cancelled:  # its readers may not know yet; of a deadline nobody tells them
            self._token.cancel()
        return self._limit_of(timeout)

    def _recheck_drain(self, waiter: Waiter) -> float | None:
        if not self.in_flight:
            return None
        self._is_owned()  # or it raises
        return waiter.limit

    def __len__(self) -> int:
        return self._ask(Keys.count, None, self._keys.count)

    def __contains__(self, key: object) -> bool:
        self._settle_now()
        return key in self._keys

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        self._settle()
        state = "closed" if self._token.cancelled else "open"
        return f"<Schedule {state}, {counted(self._keys.count(), 'key')}>"


def _nothing_due(timeout: Any) -> TimeoutError:
    return TimeoutError(f"no key was due within {as_seconds('timeout', timeout)} s")


def _as_interval(name: str, value: Any) -> float:
    return as_seconds(name, value, "a finite number of seconds > 0 or a timedelta", ulp(0.0))

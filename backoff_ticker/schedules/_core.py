"""Who may change the keys of a schedule, how a job is taken, and what its readers wait for.

One thread at a time is the *owner* of the keys. To be hashed and compared, keys run code of the
user, and so no claim can protect them. What anybody tells the schedule is a ``Change``: it is
appended to ``_told``, and then the owner makes it. Who tells becomes the owner, if there is none.
So nothing waits for a thread that a signal handler has interrupted.

Invariants:
    * Only the owner touches ``_keys``, save to read a number.
    * An owner ends only when nothing is told. Who tells appends first, and looks for an owner then:
      so one of the two makes the change.
    * ``_head`` is when the next key falls due, as of the last owner. An owner that makes it earlier
      wakes those who watch the time, and so it does if somebody has found the keys owned meanwhile.
    * From the change that takes a job to its return to the user there is no call, unless others
      have to be told; if that is interrupted, the key is given back.
"""

from __future__ import annotations

from _thread import get_ident
from collections import deque

from .. import _process
from .._errors import ScheduleClosed
from .._sentinels import EMPTY, ENDED
from .._unraisable import report
from ..clock import let_other_threads_run
from ..waiting import FREE, NO_DEADLINE, Source, WaitLine, acquire, complete, failure_of
from ._job import Job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..cancellation import CancellationToken
    from ..clock import Clock
    from ..waiting import Waiter, WaitSet
    from ._keys import Hold, Keys
    from ._rules import Rules

    Owner = tuple[int, int]  # generation, thread

_PATIENCE = 1000
"""How often who wants an answer lets other threads run until their owner has made a change."""


class Change:
    """A change of the keys, which the owner makes; it may be made twice.

    Attributes:
        knew: Whether the schedule had the key before; None: the change was not made yet.
        error: What the code of the user's key has raised.
    """

    __slots__ = ("args", "error", "key", "knew", "make")

    def __init__(self, make: Callable[..., None], key: Any, *args: Any) -> None:  # noqa: ANN401
        self.make = make
        self.key = key
        self.args = args
        self.knew: bool | None = None
        self.error: Exception | None = None

    def apply(self, keys: Keys) -> None:
        if self.knew is None:
            self.knew = self.key in keys.entries
        self.make(*self.args)


class ScheduleCore(Source):
    """A schedule without its public methods.

    Attributes:
        _readers: The line of readers, with the claim for what follows.
        _owner: Who owns the keys; None: nobody.
        _told: The changes that were not made yet, in their order.
        _head: When the next key falls due.
        _was_refused: Whether a reader has found the keys owned, and waits for the owner.
        _dropped: Holds whose jobs were dropped without an end.
        _drains: Those who wait until no worker has a job.
    """

    __slots__ = (
        *("__weakref__", "_clock", "_closed", "_drains", "_dropped", "_head", "_keys"),
        *("_monotonic", "_owner", "_readers", "_rules", "_told", "_token", "_was_refused"),
    )

    def _begin(
        self, clock: Clock, token: CancellationToken | None, keys: Keys, rules: Rules
    ) -> None:
        self._clock = clock
        self._monotonic = clock.monotonic
        self._token = token
        self._keys = keys
        self._rules = rules
        self._readers = WaitLine()
        self._drains = WaitLine()
        self._owner: Owner | None = None
        self._told: deque[Change] = deque()
        self._dropped: deque[Hold] = deque()
        self._head = NO_DEADLINE
        self._was_refused = self._closed = False

    def _has_ended(self) -> bool:
        return self._closed or (self._token is not None and self._token.cancelled)

    def _tell(self, change: Change) -> None:
        """Have a change made, now or by the thread that owns the keys."""
        self._told.append(change)
        complete(self._settle)

    def _ask(self, change: Change) -> bool:
        """Have a change made; return whether the schedule knew the key before.

        If the owner cannot go on, as this is a signal handler that has interrupted it, or it waits
        for one, this is the answer of the moment.
        """
        self._tell(change)
        patience = _PATIENCE
        while change.knew is None and patience and not self._is_mine():
            patience -= 1
            let_other_threads_run()
            complete(self._settle)
        if change.error is not None:
            raise change.error
        return change.key in self._keys.entries if change.knew is None else change.knew

    def _is_mine(self) -> bool:
        return self._owner == (_process.generation, get_ident())

    def _own(self) -> Owner | None:
        """Become the owner; None: another thread is, or this one in what was interrupted."""
        mark = _process.generation, get_ident()
        claim = self._readers.claim
        acquire(claim)
        try:
            if self._owner is None or self._owner[0] != mark[0]:
                self._owner = mark
                return mark
        finally:
            claim[FREE] = True
        return None

    def _make_changes(self) -> None:
        """Make all that was told; the owner calls it."""
        keys, told = self._keys, self._told
        keys.begin()
        while told:
            change = told[0]
            change.error = failure_of(change.apply, keys)
            told.popleft()

    def _settle(self) -> None:
        """Make what was told, unless there is an owner, who does it. May be repeated."""
        mark = self._own()
        if mark is None:
            return
        try:
            while True:
                self._make_changes()
                if self._disown(self._keys.next_due()):
                    break
        except BaseException:
            self._abandon(mark)
            raise

    def _disown(self, head: float) -> bool:
        """End as the owner and wake who must know; False if something was told meanwhile."""
        claim = self._readers.claim
        acquire(claim)
        try:
            if self._told:
                return False
            must_wake = self._was_refused or head < self._head
            self._was_refused = False
            self._head = head
            self._owner = None
        finally:
            claim[FREE] = True
        if must_wake:
            self._readers.wake_firsts()
        if not self._keys.holds:
            self._drains.wake_firsts()
        return True

    def _abandon(self, mark: Owner) -> None:
        """End as the owner after an interrupt; whoever is next goes on."""
        if self._owner is mark:
            self._owner = None
        self._readers.wake_firsts()
        self._drains.wake_firsts()

    def _poll(self) -> Any:  # noqa: ANN401 - a job or EMPTY
        """Take the job that is due first, else return ``EMPTY``; raises as ``receive()`` does."""
        while True:
            if self._has_ended():
                raise ScheduleClosed
            mark = self._own()
            if mark is None:
                return EMPTY
            job = self._take(mark)
            if job is not None:
                return job

    def _take(self, mark: Owner) -> Any:  # noqa: ANN401 - a job, EMPTY or None
        """Take a job, as the owner, and be the owner no longer; None: it was dropped before."""
        keys = self._keys
        job: Any = EMPTY
        try:
            self._make_changes()
            now = self._monotonic()
            was_dropped = bool(self._dropped)
            if was_dropped:  # a finalizer ends no job: that may ask a policy
                hold: Hold | None = self._dropped[0]
                keys.picked = hold
                self._dropped.popleft()
            else:
                hold = keys.pick(now)
            if hold is not None:
                job = Job(self, hold, now)
            head = keys.next_due()
            claim = self._readers.claim
            # ATOMIC: as in TickerCore._take(): no call between taking a job and its return.
            acquire(claim)
            try:
                keys.picked = None
                must_wake = self._was_refused or head < self._head
                self._was_refused = False
                self._head = head
                self._owner = None
                if not (must_wake or self._told or was_dropped):
                    return job
            finally:
                claim[FREE] = True
            self._readers.wake_firsts()
            self._settle()
            if was_dropped:
                error = failure_of(job.fail)
                if error is not None:
                    report(error, "Exception at the end of a job that was dropped", job)
        except BaseException:
            complete(self._undo_take, mark, job)
            raise
        else:
            return None if was_dropped else job

    def _undo_take(self, mark: Owner, job: Any) -> None:  # noqa: ANN401
        """Give back what an interrupted reader has taken. May be repeated."""
        self._abandon(mark)
        if job is EMPTY:
            self._settle()
        else:
            job._give_back()

    def _end_job(self, job: Job[Any], error: BaseException | None) -> bool:
        """End a job; return whether the error that has left its block goes no further."""
        now = self._monotonic()
        plan = self._rules.plan(job, error, now)
        hold, key = job._hold, job._hold.entry.key
        if plan.what == "give back":
            job._give_back()
            return False
        if plan.what == "leave":
            self._tell(Change(self._keys.leave, key, hold, now))
        else:
            self._told.append(Change(self._keys.end, key, hold, plan.due, plan.failures, now))
            # Nobody waits for a key that is due later than the next one: who polls, settles.
            if plan.due < self._head or self._keys.limit or self._drains.first is not None:
                complete(self._settle)
        job._over = True
        if plan.broken is not None:
            raise plan.broken
        if plan.what == "fail":
            self._rules.tell(job, plan)
        return plan.swallows

    def _give_back(self, hold: Hold) -> None:
        self._tell(Change(self._keys.give_back, hold.entry.key, hold))

    def _drop(self, hold: Hold) -> None:
        """Leave the end of a hold to the readers; a finalizer calls this."""
        self._dropped.append(hold)
        self._readers.wake_firsts()

    @property
    def _timing_clock(self) -> Clock:
        return self._clock

    def _wait_sets(self) -> tuple[WaitSet, ...]:
        token = self._token
        return (self._readers,) if token is None else (self._readers, token._wait_set())

    def _recheck(self, waiter: Waiter) -> float | None:
        """Return until when a registered waiter waits, its ``limit`` at most; None: poll now."""
        until = waiter.limit
        token = self._token
        if self._closed or (token is not None and token.cancelled):
            return None
        if token is not None and token.deadline is not None:
            until = min(until, token.deadline)
        if self._is_owned():
            return until
        head = self._head
        if self._told or self._dropped or head <= self._monotonic():
            return None
        return head if head < until and self._readers.leads(waiter) else until

    def _is_owned(self) -> bool:
        """Whether another thread owns the keys, and will wake readers.

        Raises:
            RuntimeError: This thread does, in what a signal handler has interrupted.
        """
        if self._is_mine():
            raise RuntimeError(
                "a job cannot be awaited in a signal handler or finalizer that has interrupted "
                "a call of the same schedule"
            )
        generation = _process.generation
        claim = self._readers.claim
        acquire(claim)
        try:
            owner = self._owner
            if owner is None or owner[0] != generation:
                return False
            self._was_refused = True
            return True
        finally:
            claim[FREE] = True

    def _take_nowait(self, *, fresh: bool) -> object:  # noqa: ARG002 - for tickers
        try:
            return self._poll()
        except ScheduleClosed:
            return ENDED

    def _put_back(self, value: Any) -> None:  # noqa: ANN401 - a job
        value._give_back()

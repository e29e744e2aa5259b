"""Who may change the keys of a schedule, how a job is taken, and what its readers wait for.

One thread at a time is the *owner* of the keys: to be hashed and compared, keys run code of the
user, which no change under a claim may do. What anybody tells the schedule is a ``Change``, or a
``Hold`` that has ended: it is appended to ``_told``, and the owner makes it. Who tells becomes the
owner, if there is none. So nothing waits for a thread that a signal handler has interrupted.

Invariants:
    * Only the owner changes ``_keys``, save ``dropped``; others look at it, and may be late.
    * An owner ends only when nothing is told. Who tells appends first, and looks for an owner then:
      so one of the two makes the change. The end of a job that nobody waits for is left to the next
      owner.
    * ``_head`` is when the next key falls due, as of the last owner. An owner that makes it earlier
      wakes those who watch the time, and so it does if a reader has found the keys owned meanwhile.
    * From the change that takes a job to its return to the user there is no call, unless others
      have to be woken; if that is interrupted, the key is given back.
"""

from __future__ import annotations

from _thread import get_ident
from collections import deque
from functools import partial
from warnings import warn
from weakref import ref

from .. import _process
from .._errors import ScheduleClosed
from .._sentinels import EMPTY, ENDED
from .._unraisable import report
from ..cancellation import CancellationToken
from ..clock import let_other_threads_run
from ..waiting import (
    FREED,
    NO_DEADLINE,
    Source,
    WaitLine,
    acquire,
    carry_out,
    check_stack,
    complete,
)
from ._job import FAILS, RETRIES, SUCCEEDS, Job
from ._keys import Hold, error_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..clock import Clock
    from ..waiting import Waiter, WaitSet
    from ._keys import Keys
    from ._rules import Rules, Verdict

    Owner = tuple[int, int]  # generation, thread

_PATIENCE = 1000
"""How often who wants an answer lets other threads run, until none of them owns the keys."""


class Change:
    """A change of the keys, or a look at them, ``call(keys, what)``; it may be made twice."""

    __slots__ = ("answer", "call", "error", "generation", "what")

    def __init__(self, call: Callable[[Keys, Any], int], what: object) -> None:
        self.call = call
        self.what = what
        self.generation = _process.generation  # a child first makes what its parent has left
        self.answer: int | None = None  # nothing yet
        self.error: Exception | None = None  # that the code of the user's key has raised

    def make(self, keys: Keys) -> None:
        if self.answer is None:
            self.answer = self.call(keys, self.what)


class ScheduleCore(Source):
    """A schedule without its public methods."""

    __slots__ = (
        *("__weakref__", "_clock", "_drains", "_head", "_keys", "_monotonic"),
        *("_owner", "_readers", "_rules", "_told", "_token", "_was_refused"),
    )

    def __init__(
        self, clock: Clock, token: CancellationToken | None, keys: Keys, rules: Rules
    ) -> None:
        self._clock = clock
        self._monotonic = clock.monotonic
        self._token = CancellationToken(clock=clock) if token is None else token.child()
        self._readers = WaitLine()  # which has the claim for all that follows
        self._token._have_waiters(self._readers)
        self._keys = keys
        self._rules = rules
        self._drains = WaitLine()  # those who wait until no worker has a job
        self._owner: Owner | None = None
        self._told: deque[Change | Hold] = deque()  # what was not made yet, in its order
        self._head = NO_DEADLINE  # when the next key falls due
        self._was_refused = False  # a reader has found the keys owned, and waits for the owner

    # Owning the keys

    def _settle(self, *, takes: bool = False) -> Any:
        """Own the keys, if nobody does: make what was told, and take the job that is due first.

        ``EMPTY``: none was to be taken, or is due. None: there is an owner. May be repeated.
        """
        mark = _process.generation, get_ident()
        claim = self._readers.claim
        job: Any = EMPTY
        watch: ref[Job[Any]] | None = None
        acquire(claim)
        try:
            owner = self._owner
            if owner is not None and owner[0] == mark[0]:
                return None
            self._owner = mark
        finally:
            claim += FREED
        keys = self._keys
        try:
            if keys.picked is not None:  # by an owner who was interrupted: as if it had not been
                keys.end(keys.picked)
                keys.picked = None
            self._make_changes()
            while True:  # it ends with a call: see waiting/_parking.py
                if takes and job is EMPTY:
                    now = self._monotonic()
                    hold = keys.take(now)
                    if hold is not None:
                        job = Job(self, hold, now)
                        watch = ref(job, partial(self._drop, hold))
                if self._disown(watch):
                    return job
                if self._readers.closed and keys.picked is not None:  # meanwhile: it is not taken
                    keys.end(keys.picked)
                    keys.picked = watch = None
                    job, takes = EMPTY, False
                self._make_changes()
        except BaseException:
            if self._owner is mark:  # before any call, in which another interrupt may come
                self._head = -NO_DEADLINE  # unknown: whoever polls next finds out
                self._owner = None
            complete(self._wake, job)
            raise

    def _settle_now(self, *, takes: bool = False) -> Any:
        """Do what ``_settle()`` does once there is no owner; None: that one takes too long."""
        patience = _PATIENCE
        while True:
            job = self._settle(takes=takes)
            if job is not None or not patience or self._is_mine():
                return job
            patience -= 1
            let_other_threads_run()

    def _make_changes(self) -> None:
        keys, told = self._keys, self._told
        while told:
            change = told[0]
            if change.generation != keys.generation:
                keys.begin(change.generation)
            if isinstance(change, Hold):
                keys.end(change)
            else:
                change.error = error_of(change.make, keys)
            told.popleft()
        if keys.generation != _process.generation:
            keys.begin(_process.generation)

    def _disown(self, watch: ref[Job[Any]] | None) -> bool:
        """End as the owner, hand over the job that was taken, and wake who must know.

        False: something was told meanwhile, or the schedule was closed: whoever drains it after
        that may already have found that no worker has a job.
        """
        keys = self._keys
        first = keys.first()
        head = NO_DEADLINE if first is None else first[0]
        is_drained = len(keys.holds) <= len(keys.dropped) and self._is_awaited()
        if watch is not None and (is_drained or self._was_refused or self._head > head):
            check_stack()  # now: ``picked`` gives the job back
        claim = self._readers.claim
        # ATOMIC: as in TickerCore._take(): no call between taking a job and its return.
        acquire(claim)
        try:
            if self._told or (watch is not None and self._readers.closed):
                return False
            must_wake = self._was_refused or head < self._head
            self._was_refused = False
            self._head = head
            self._owner = None
            hold = keys.picked
            keys.picked = None
            if hold is not None:
                hold.watch = watch
            if not must_wake and not is_drained:
                return True
        finally:
            claim += FREED
        self._wake()
        return True

    def _is_awaited(self) -> bool:
        """Whether somebody waits until no worker has a job."""
        return self._drains.first is not None or bool(self._drains.others)

    def _wake(self, taken: Any = EMPTY) -> None:
        """Wake the first of each domain, and give back a job that was taken. May be repeated."""
        self._readers.wake_firsts()
        self._drains.wake_firsts()
        if taken is not EMPTY:
            taken._give_back()

    def _tell(self, change: Change) -> None:
        """Have a change made, now or by the owner. May be repeated."""
        self._told.append(change)
        self._settle()

    def _ask(self, call: Callable[[Keys, Any], int], what: object, look: Callable[[], int]) -> Any:
        """Have a change made; return its answer.

        If the owner cannot go on, as this is a signal handler that has interrupted it, or it waits
        for one, it is what ``look()`` says at the moment.
        """
        change = Change(call, what)
        carry_out(self._tell, change)  # those who wait must know of it, if it was told
        patience = _PATIENCE
        while change.answer is None and change.error is None and patience and not self._is_mine():
            patience -= 1
            let_other_threads_run()
            complete(self._settle)
        if change.error is not None:
            raise change.error
        return look() if change.answer is None else change.answer

    def _is_mine(self) -> bool:
        """Whether this thread owns the keys, in what it has interrupted."""
        return self._owner == (_process.generation, get_ident())

    # The ends of jobs

    def _end(self, job: Job[Any], error: BaseException | None) -> bool:
        """End a job after its block; return whether the error that has left it goes no further."""
        rules, hold, now = self._rules, job._hold, self._monotonic()
        end, said = job._said
        failures = job.failures + 1
        verdict: Verdict = True
        delay = 0.0
        due: float | None = None  # it leaves
        try:
            if error is not None:
                end, said = FAILS, error
                verdict = rules.verdict_on(error)
                if verdict is None:
                    job._give_back()
                    return False
            if end == SUCCEEDS:
                failures = 0
                due = rules.due_after_success(hold, now)
            elif end == FAILS:
                due, delay = rules.due_after_failure(hold, now, failures, verdict)
            elif end == RETRIES:
                failures = job.failures
                due = rules.due_after_rest(hold, now, said)
        except Exception:
            self._finish(hold, rules.due_after_broken_policy(hold, now), failures, now)
            raise
        self._finish(hold, due, failures, now)
        if end == FAILS:
            rules.tell(job, said, failures, delay, is_raised=verdict is False)
        return error is not None and verdict is not False

    def _finish(self, hold: Hold, due: float | None, failures: int, now: float) -> None:
        """Have a hold ended, by the next owner unless somebody may wait for that."""
        if self._is_urgent(hold, due):
            check_stack()
        hold.outcome = due, failures, now
        hold.generation = _process.generation
        self._told.append(hold)
        if self._is_urgent(hold, due):  # what comes from now on finds that it was told
            complete(self._settle)
        hold.watch = None

    def _is_urgent(self, hold: Hold, due: float | None) -> bool:
        """Whether somebody may wait for the end of a hold, after which its key is ``due``.

        Nobody waits for a key that is due later than the next one: who takes that one, ends this.
        An owner may make another one the next just now, without having seen what was told.
        """
        if due is None or self._keys.limit or self._owner is not None:
            return True
        return min(due, hold.again) < self._head or self._is_awaited()

    def _drop(self, hold: Hold, watch: ref[Job[Any]]) -> None:
        """Leave the end of a job that was dropped to the readers, who may ask policies.

        The garbage collector calls this.
        """
        if hold.watch is not watch:
            return
        job: Job[Any] = Job(self, hold, hold.due)
        hold.watch = ref(job, partial(self._drop, hold))
        self._keys.dropped.append(job)
        complete(self._wake)
        text = f"{job!r} was dropped before its end: use `with job:`"
        warn(text, ResourceWarning, stacklevel=1, source=hold)

    def _end_dropped(self) -> None:
        """End the jobs that were dropped; one that is interrupted is dropped once more."""
        self._settle()  # in a forked child, those of its parent are no longer there
        while self._keys.dropped:
            try:
                job = self._keys.dropped.popleft()
            except IndexError:
                return  # another reader does it
            try:
                job.fail()
            except Exception as error:  # this reader has nothing to do with it
                report(error, "Exception at the end of a job that was dropped", self)

    # Reading

    def _poll(self, *, waits: bool = False) -> Any:
        """Take the job that is due first, else return ``EMPTY``; raises as ``receive()`` does.

        Whoever ``waits`` is woken if another thread owns the keys now; others look again.
        """
        if self._token.cancelled:
            raise ScheduleClosed
        if self._keys.dropped:
            self._end_dropped()
        # Without an owner: a parent's may have left changes half made. Not first in a forked child:
        # keys that waited for a place of its parent's workers have one now.
        is_known = self._owner is None and self._keys.generation == _process.generation
        if is_known and self._head > self._monotonic():
            return EMPTY
        # No call comes between taking a job and its return.
        job = self._settle(takes=True) if waits else self._settle_now(takes=True)
        if job is not None and job is not EMPTY:
            return job
        if self._readers.closed:
            raise ScheduleClosed
        return EMPTY

    @property
    def _ends_by_itself(self) -> bool:
        return self._head != NO_DEADLINE

    @property
    def _timing_clock(self) -> Clock:
        return self._clock

    def _wait_sets(self) -> tuple[WaitSet, ...]:
        return (self._readers,)

    def _recheck(self, waiter: Waiter) -> float | None:
        """Return until when a registered waiter waits, its ``limit`` at most; None: poll now."""
        until = self._token._recheck(waiter)
        if until is None or (self._owner is not None and self._is_owned()):
            return until
        head = self._head
        if self._keys.dropped or head <= self._monotonic():
            return None
        return head if head < until and self._readers.leads(waiter) else until

    def _is_owned(self) -> bool:
        """Whether another thread owns the keys, and will wake readers.

        Raises:
            RuntimeError: This thread does, in what a signal handler has interrupted.
        """
        if self._is_mine():
            raise RuntimeError(
                "nothing can be awaited in a signal handler or finalizer that has interrupted a "
                "call of the same schedule"
            )
        generation = _process.generation
        claim = self._readers.claim
        acquire(claim)
        try:
            owner = self._owner
            is_owned = owner is not None and owner[0] == generation
            if is_owned:
                self._was_refused = True
            return is_owned
        finally:
            claim += FREED

    def _take_nowait(self, *, fresh: bool) -> object:
        try:
            return self._poll(waits=not fresh)
        except ScheduleClosed:
            return ENDED

    def _put_back(self, value: Any) -> None:
        value._give_back()

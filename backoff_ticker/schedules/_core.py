"""Who may change the keys of a schedule, how a job is taken, and what its readers wait for.

One thread at a time is the *owner* of the keys: to be hashed and compared, keys run code of the
user, which no change under a claim may do. What anybody tells the schedule is a ``Change``: it is
appended to ``_told``, and the owner makes it. Who tells becomes the owner, if there is none. So
nothing waits for a thread that a signal handler has interrupted.

Invariants:
    * Only the owner touches ``_keys``, save to read a number.
    * An owner ends only when nothing is told. Who tells appends first, and looks for an owner then:
      so one of the two makes the change. The end of a job, after which its key is not the next that
      falls due, may wait for the next owner.
    * ``_head`` is when the next key falls due, as of the last owner. An owner that makes it earlier
      wakes those who watch the time, and so it does if a reader has found the keys owned meanwhile.
    * From the change that takes a job to its return to the user there is no call, unless others
      have to be woken; if that is interrupted, the key is given back.
"""

from __future__ import annotations

from _thread import get_ident
from collections import deque

from .. import _process
from .._errors import ScheduleClosed
from .._sentinels import EMPTY, ENDED
from .._unraisable import report
from ..clock import later, let_other_threads_run
from ..waiting import (
    FREED,
    NO_DEADLINE,
    Source,
    WaitLine,
    acquire,
    check_stack,
    complete,
    failure_of,
)
from ._job import Job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..cancellation import CancellationToken
    from ..clock import Clock
    from ..waiting import Waiter, WaitSet
    from ._keys import Hold, Keys
    from ._rules import Rules, Verdict

    Owner = tuple[int, int]  # generation, thread

_PATIENCE = 1000
"""How often who wants an answer lets other threads run until their owner has made a change."""


class Change:
    """A change of the keys, ``make(*args)``, which the owner makes; it may be made twice.

    Attributes:
        generation: The process that was told; a forked child first makes what its parent left.
        knew: Whether the schedule had the key before; None: the change was not begun yet.
        is_made: Whether all can see it.
        error: What the code of the user's key has raised.
    """

    __slots__ = ("args", "error", "generation", "is_made", "key", "knew", "make")

    def __init__(self, key: Any, make: Callable[..., None], *args: Any) -> None:  # noqa: ANN401
        self.key = key
        self.make = make
        self.args = args
        self.generation = _process.generation
        self.knew: bool | None = None
        self.is_made = False
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
        _picked: A hold that was taken, and that nobody has got yet.
        _told: The changes that were not made yet, in their order.
        _head: When the next key falls due.
        _was_refused: Whether a reader has found the keys owned, and waits for the owner.
        _drains: Those who wait until no worker has a job.
    """

    __slots__ = (
        *("__weakref__", "_clock", "_closed", "_drains", "_head", "_keys", "_monotonic"),
        *("_owner", "_picked", "_readers", "_rules", "_told", "_token", "_was_refused"),
    )

    def __init__(
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
        self._head = NO_DEADLINE
        self._picked: Hold | None = None
        self._was_refused = self._closed = False

    def _has_ended(self) -> bool:
        return self._closed or (self._token is not None and self._token.cancelled)

    # Owning the keys

    def _settle(self) -> None:
        """Make what was told, unless there is an owner, who does it. May be repeated."""
        self._own(takes=False)

    def _own(self, *, takes: bool) -> Any:  # noqa: ANN401 - a job or EMPTY
        """Own the keys, if nobody does: make what was told, and take the job that is due first.

        ``EMPTY``: none is due, or there is another owner.
        """
        mark = _process.generation, get_ident()
        claim = self._readers.claim
        job: Any = EMPTY
        acquire(claim)
        try:
            owner = self._owner
            if owner is not None and owner[0] == mark[0]:
                return EMPTY
            self._owner = mark
        finally:
            claim += FREED
        keys = self._keys
        try:
            if self._picked is not None:  # by an owner who was interrupted
                failure_of(self._return, self._picked)
                self._picked = None
            self._make_changes()
            if takes:
                now = self._monotonic()
                self._picked = keys.pick(now)
                if self._picked is not None:
                    keys.take(self._picked)
                    job = Job(self, self._picked, now)
            while True:  # it ends with a call: see waiting/_parking.py
                if self._disown(job):
                    return job
                self._make_changes()
        except BaseException:
            if self._owner is mark:  # before any call, in which another interrupt may come
                self._head = -NO_DEADLINE  # unknown: whoever polls next finds out
                self._owner = None
            complete(self._undo, job)
            raise

    def _make_changes(self) -> None:
        keys, told = self._keys, self._told
        while told:
            change = told[0]
            keys.begin(change.generation)
            change.error = failure_of(change.apply, keys)
            change.is_made = True
            told.popleft()
        keys.begin(_process.generation)

    def _disown(self, job: Any) -> bool:  # noqa: ANN401 - a job or EMPTY
        """End as the owner, hand over the job that was taken, and wake who must know.

        False: something was told meanwhile.
        """
        keys, drains = self._keys, self._drains
        head = keys.next_due()
        is_drained = len(keys.holds) <= len(keys.dropped) and self._is_awaited()
        if job is not EMPTY and (self._was_refused or head < self._head or is_drained):
            check_stack()
        claim = self._readers.claim
        # ATOMIC: as in TickerCore._take(): no call between taking a job and its return.
        acquire(claim)
        try:
            if self._told:
                return False
            must_wake = self._was_refused or head < self._head
            self._was_refused = False
            self._head = head
            self._owner = None
            self._picked = None
            if job is not EMPTY:
                job._over = False
            if not must_wake and not is_drained:
                return True
        finally:
            claim += FREED
        self._readers.wake_firsts()
        drains.wake_firsts()
        return True

    def _undo(self, job: Any) -> None:  # noqa: ANN401
        """Undo what an interrupted owner has done. May be repeated."""
        self._readers.wake_firsts()
        self._drains.wake_firsts()
        if job is not EMPTY:
            job._give_back()

    # Telling

    def _tell(self, key: Any, make: Callable[..., None], *args: Any) -> None:  # noqa: ANN401
        """Have a change made, now or by the thread that owns the keys."""
        self._post(Change(key, make, *args))

    def _post(self, change: Change) -> None:
        self._check_stack()
        try:
            self._told.append(change)
            self._settle()
        except BaseException:
            complete(self._settle)  # those who wait must know of it, if it was told
            raise

    def _ask(self, key: Any, make: Callable[..., None], *args: Any) -> bool:  # noqa: ANN401
        """Have a change made; return whether the schedule knew the key before.

        If the owner cannot go on, as this is a signal handler that has interrupted it, or it waits
        for one, this is the answer of the moment.
        """
        change = Change(key, make, *args)
        self._post(change)
        patience = _PATIENCE
        while not change.is_made and patience and not self._is_mine():
            patience -= 1
            let_other_threads_run()
            complete(self._settle)
        if change.error is not None:
            raise change.error
        return key in self._keys.entries if change.knew is None else change.knew

    def _is_mine(self) -> bool:
        """Whether this thread owns the keys, in what it has interrupted."""
        return self._owner == (_process.generation, get_ident())

    def _check_stack(self) -> None:
        """Look at the stack if somebody waits; what nobody waits for may be made later."""
        readers, drains = self._readers, self._drains
        if readers.first is not None or readers.others or drains.first is not None or drains.others:
            check_stack()

    # The ends of jobs

    def _end(self, job: Job[Any], error: BaseException | None) -> bool:
        """End a job after its block; return whether the error that has left it goes no further."""
        if error is None:
            end, *said = job._said
            end(job, *said)
            return False
        try:
            verdict = self._rules.verdict_on(error)
        except Exception:
            self._finish_broken(job, job.failures + 1, self._monotonic())
            raise
        if verdict is None:
            job._give_back()
            return False
        self._fail(job, error, verdict)
        return verdict is not False

    def _succeed(self, job: Job[Any]) -> None:
        now = self._monotonic()
        try:
            due = self._rules.due_after_success(job._hold, now)
        except Exception:
            self._finish_broken(job, 0, now)
            raise
        self._finish(job, due, 0, now)

    def _fail(self, job: Job[Any], error: Any, verdict: Verdict = True) -> None:  # noqa: ANN401, FBT002
        now = self._monotonic()
        failures = job.failures + 1
        try:
            due, delay = self._rules.due_after_failure(job._hold, now, failures, verdict)
        except Exception:
            self._finish_broken(job, failures, now)
            raise
        self._finish(job, due, failures, now)
        self._rules.tell(job, error, failures, delay, is_raised=verdict is False)

    def _retry_in(self, job: Job[Any], seconds: float) -> None:
        now = self._monotonic()
        job._hold.entry.advance(job.due, now)
        self._finish(job, later(now, seconds), job.failures, now)

    def _leave(self, job: Job[Any]) -> None:
        self._finish(job, None, 0, self._monotonic())

    def _finish_broken(self, job: Job[Any], failures: int, now: float) -> None:
        """End a job where a policy, or ``on``, has failed."""
        self._finish(job, self._rules.due_after_broken_policy(job._hold, now), failures, now)

    def _finish(self, job: Job[Any], due: float | None, failures: int, now: float) -> None:
        hold, keys = job._hold, self._keys
        # Nobody waits for a key that is due later than the next one: who takes that one, ends this.
        is_next = due is None or min(due, hold.again) < self._head
        settles = is_next or keys.limit or self._is_awaited()
        if settles:
            self._check_stack()
        self._told.append(Change(hold.entry.key, keys.end, hold, due, failures, now))
        if settles:
            complete(self._settle)
        job._over = True

    def _is_awaited(self) -> bool:
        """Whether somebody waits until no worker has a job."""
        return self._drains.first is not None or bool(self._drains.others)

    def _give_back(self, hold: Hold) -> None:
        self._tell(hold.entry.key, self._return, hold)

    def _return(self, hold: Hold) -> None:
        """End a hold as if there had been none."""
        self._keys.end(hold, hold.due, hold.entry.failures, hold.due)

    def _drop(self, hold: Hold) -> None:
        """Leave the end of a hold to the readers, who may ask policies: a finalizer calls this."""
        self._keys.dropped.append(hold)
        self._readers.wake_firsts()
        self._drains.wake_firsts()

    # Reading

    def _poll(self) -> Any:  # noqa: ANN401 - a job or EMPTY
        """Take the job that is due first, else return ``EMPTY``; raises as ``receive()`` does."""
        while True:
            if self._has_ended():
                raise ScheduleClosed
            is_early = self._head > self._monotonic() and not self._keys.dropped
            if is_early and self._owner is None:  # a parent's owner may have left changes half made
                return EMPTY
            job = self._own(takes=True)
            if job is EMPTY or not job._hold.is_dropped:
                return job
            try:
                job.fail()
            except Exception as error:  # noqa: BLE001 - this reader has nothing to do with it
                report(error, "Exception at the end of a job that was dropped", job)

    @property
    def _ends_by_itself(self) -> bool:
        return self._head != NO_DEADLINE

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
        if self._has_ended():
            return None
        if token is not None and token.deadline is not None:
            until = min(until, token.deadline)
        if self._is_owned():
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
            claim += FREED

    def _take_nowait(self, *, fresh: bool) -> object:  # noqa: ARG002 - for tickers
        try:
            return self._poll()
        except ScheduleClosed:
            return ENDED

    def _put_back(self, value: Any) -> None:  # noqa: ANN401 - a job
        value._give_back()

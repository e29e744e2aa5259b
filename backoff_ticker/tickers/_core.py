"""How a tick is taken: the state of a ticker, its endings, and the thread that asks the policy.

Every reader takes its ticks by ``_poll()``, which never waits. A policy is code of the user and may
take any time, so a tick is taken in three steps: a change under the claim makes the thread the
*asker*; it asks the policy, without the claim; another change takes the tick. Readers that find an
asker wait until it wakes them. A call such as ``reset()`` meanwhile is deferred, as a rule
``rule(pending) -> pending`` that the asker applies.

Invariants:
    * Only the asker replaces ``_pending``.
    * No tick is taken while a rule is deferred. So ``reset()`` and ``success()`` hold for each tick
      taken after they have returned, even if another thread has yet to apply them.
    * From the change that takes a tick to its return to the user there is no call, unless readers
      have to be woken; if that is interrupted, the tick is given back. So no tick is lost.
    * The first ending stays. If the policy ends, that is stored together with its last tick.
"""

from __future__ import annotations

from _thread import get_ident
from collections import deque

from .. import _process
from .._errors import CloseReason, TickerClosed
from .._sentinels import EMPTY
from .._validation import LARGEST, as_seconds, safe_repr
from ..clock import resolve_clock
from ..policies import End, PolicyRun, start_policy
from ..waiting import FREE, FREED, Source, WaitLine, acquire, carry_out, check_stack, complete
from ._tick import Pace, PendingTick, first_tick, unchanged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Any

    from ..cancellation import CancellationToken
    from ..channels import TimerLike
    from ..clock import Clock
    from ..policies import BackOff
    from ._tick import Rule, Tick
    from ._timer import TickerTimer

    Asker = tuple[int, int, bool]  # generation, thread, whether it takes a tick

# These are read at each tick, and access to an enum member is slow.
_CANCELLED = CloseReason.CANCELLED
_SKIP = Pace.SKIP


class _Rules(deque):  # type: ignore[type-arg]  # deque[Rule] would be made at run time
    """Rules in their order; a change may use its property."""

    __slots__ = ()

    last_in = property(None, deque.append)


class TickerCore(Source):
    """A ticker without its public methods.

    Attributes:
        _readers: The line of readers, with the claim for all that follows.
        _asker: Who asks the policy, or applies rules.
        _deferred: The rules that are to be applied, in their order.
        _resets: The number of calls of ``reset()``; one drops the tick that is just being taken.
        _raised_error: Whether a reader was given the error of the policy.
        _run: The policy; replaced by the asker only.
    """

    __slots__ = (
        *("__weakref__", "_asker", "_clock", "_deferred", "_ending", "_ends", "_is_stopped"),
        *("_monotonic", "_pace", "_pending", "_raised_error", "_readers", "_resets", "_run"),
        *("_timer", "_token"),
    )

    def __init__(
        self,
        backoff: BackOff,
        *,
        token: CancellationToken | None = None,
        pace: Pace = Pace.RECEIPT,
        first: float | timedelta = 0,
        clock: Clock | None = None,
        timer: TimerLike | None = None,
    ) -> None:
        if not isinstance(pace, Pace):
            raise TypeError(f"pace must be a Pace, not {safe_repr(pace)}")
        self._clock = resolve_clock(clock)
        self._monotonic = self._clock.monotonic
        self._pace = pace
        self._readers = WaitLine()
        self._asker: Asker | None = None
        self._deferred: _Rules | None = None
        self._resets = 0
        self._ending: CloseReason | None = None
        self._is_stopped = self._raised_error = False
        self._token = token
        delay = as_seconds("first", first)
        self._pending = first_tick(self._monotonic() if pace is Pace.RECEIPT else None, delay)
        self._timer: TickerTimer | None = None
        if timer is not None:
            from ._timer import TickerTimer

            self._timer = TickerTimer(timer, pace)
            if delay:
                self._deferred = _Rules((unchanged,))  # each rule has the timer started
        self._use(self._start_run(backoff))

    __init__.__qualname__ = "Ticker.__init__"  # errors of wrong calls name what was called

    def _start_run(self, backoff: BackOff) -> PolicyRun:
        return PolicyRun(start_policy("backoff", backoff, self._clock), self._clock, self._token)

    def _use(self, run: PolicyRun) -> None:
        self._run = run
        self._ends = self._readers if run.token is None else run.token._wait_set()

    @property
    def close_reason(self) -> CloseReason | None:
        """Why the ticker has ended; None while it is open. The first ending stays."""
        if self._ending is None and self._is_cancelled():
            complete(self._end, _CANCELLED)
        return self._ending

    def _is_cancelled(self) -> bool:
        token = self._run.token
        return token is not None and token.cancelled and not self._spares_first()

    def _spares_first(self) -> bool:
        """Whether the first tick is still to come, without a delay: then no cancel prevents it."""
        asker = self._asker
        if asker is not None and asker[0] == _process.generation and asker[2]:
            return False  # it is just being taken
        return self._pending.is_first

    def _has_ended(self) -> bool:
        """Whether no tick comes any more, not even one that was given back."""
        reason = self.close_reason
        if reason is None or self._is_stopped:
            return reason is not None
        if reason is _CANCELLED or self._is_cancelled():
            return not self._spares_first()
        # The policy has ended: its last tick may have been given back, or is just given back.
        return not (self._is_asked() or self._deferred or self._pending.returned)

    def _end(self, reason: CloseReason) -> None:
        """End the ticker, wake all readers, and stop the timer. May be repeated."""
        if reason is CloseReason.STOPPED:
            self._is_stopped = True  # so that a tick that is given back stays unread
        if self._is_cancelled():
            reason = _CANCELLED
        claim = self._readers.claim
        acquire(claim)
        try:
            if self._ending is None:
                self._ending = reason
        finally:
            claim += FREED
        self._readers.close()
        if self._timer is not None:
            self._timer.stop()

    def stop(self) -> None:
        """End the ticker, and wake its readers. May be repeated.

        A ``receive()`` that begins after this has returned gets no tick; one that had taken its
        tick by then still returns it. The policy, too, may call it.
        """
        carry_out(self._end, CloseReason.STOPPED)

    def _raise_closed(self) -> None:
        """Raise why there is no tick: a failing policy's error once, else ``TickerClosed``."""
        self._pass_on_wakeup()
        reason = self._ending
        end = self._pending.end
        error = end.error if end is not None and reason is CloseReason.FAILED else None
        claim = self._readers.claim
        acquire(claim)
        try:
            was_raised = self._raised_error
            self._raised_error = True
        finally:
            claim += FREED
        if error is not None and not was_raised:
            raise error
        raise TickerClosed(reason) from error  # type: ignore[arg-type]  # it has ended

    def _poll(self, *, first_poll: bool = True) -> Any:  # noqa: C901 - one loop
        """Take the next tick if it is due, else return ``EMPTY``; raises as ``receive()`` does."""
        while True:
            if self._deferred:
                self._settle()
            pending = self._pending
            due = pending.due
            token = self._run.token
            tick: Tick | None = None
            if (
                self._ending is not None or (token is not None and token.cancelled)
            ) and self._has_ended():
                self._raise_closed()
            elif self._asker is not None and self._is_asked():
                return EMPTY
            elif pending.returned:
                tick = self._take(pending, 0.0, 0.0)
            elif due is None:
                self._fix_due(pending)
            else:
                now = self._monotonic()
                if due > now:
                    if self._timer is None or not self._timer.may_change():
                        return EMPTY
                    self._defer(unchanged)
                    continue
                if due < now and first_poll and self._pace is _SKIP:
                    self._fix_due(pending)
                else:
                    tick = self._take(pending, due, now)
            if tick is not None:
                return tick
            first_poll = False  # or the reader has waited for this tick: it is not dropped

    def _take(self, pending: PendingTick, due: float, now: float) -> Tick | None:  # noqa: C901, PLR0912, PLR0915 - a call would cost the hot path
        """Take the next tick; None: another was faster, or the ticker has ended or was reset."""
        readers = self._readers
        if readers.first is not None or readers.others:
            check_stack()
        claim = readers.claim
        mark = _process.generation, get_ident(), True
        is_taken = False
        try:
            try:
                del claim[FREE]
            except IndexError:
                acquire(claim)
            try:  # the first change: this reader becomes the one that asks
                asker = self._asker
                if asker is not None and asker[0] == mark[0]:
                    return None
                if self._pending is not pending or self._deferred:
                    return None
                self._asker = mark
                resets = self._resets
            finally:
                claim += FREED

            run = self._run
            token = run.token
            rules: _Rules | None = None
            if pending.returned:
                tick, *rest = pending.returned
                after = pending.replace(returned=tuple(rest))
                spared = _CANCELLED if pending.is_first else None
            else:
                if token is not None and token.cancelled:
                    wait: Any = End(_CANCELLED)
                elif not run.feedback:
                    try:
                        wait = run.backoff.next_backoff()
                    except Exception as error:  # raised to the next reader
                        wait = run.failed(error)
                    if wait.__class__ is not float or not 0.0 <= wait <= LARGEST:
                        wait = run.parse_answer(wait)
                else:
                    wait = None  # until it is told how the work went

                tick, after = pending.taken(self._pace, now, self._clock.time(), wait)
                if self._timer is not None:
                    tick = self._timer.with_time_sent(tick)
                    rules = _Rules((unchanged,))
                spared = _CANCELLED if pending.number == 1 and pending.is_immediate else None
            reason = None
            if after.end is not None:
                check_stack()
                reason = after.end.reason
            is_cancelled = token is not None and spared is None and token.cancelled
            # ATOMIC: a call between the change that takes the tick and its return could be
            # interrupted, and the tick would be lost. CPython runs no signal handler when a
            # function returns, so _poll() and its callers are safe, too.
            try:
                del claim[FREE]
            except IndexError:
                acquire(claim)
            try:  # the second change: the tick is taken
                if self._asker is mark:
                    self._asker = None
                    ending = self._ending
                    if (
                        self._resets == resets
                        and not is_cancelled
                        and (ending is None or ending is reason or ending is spared)
                    ):
                        is_taken = True
                        self._pending = after
                        if ending is None:
                            self._ending = reason
                        if self._deferred is None:
                            self._deferred = rules  # else the timer is started by those
                        if (
                            reason is None
                            and readers.first is None
                            and not readers.others
                            and not self._deferred
                        ):
                            return tick
            finally:
                claim += FREED
            self._settle()
        except BaseException:
            if self._asker is mark:
                self._asker = None
            if is_taken:
                self._put_back(tick)
            else:
                self._wake()
            raise
        else:
            return tick if is_taken else None

    def _change(self, rule: Rule, *, resets: bool = False) -> None:
        """Have a rule applied: now, or by the asker."""
        check_stack()
        self._is_asked()
        self._defer(rule, resets=resets)
        self._settle()

    def _defer(self, rule: Rule, *, resets: bool = False) -> None:
        """Leave a rule to the next asker."""
        deferred = _Rules()
        claim = self._readers.claim
        acquire(claim)
        try:
            count = self._resets
            if resets:
                count += 1
            if self._deferred is None:
                self._deferred = deferred
            else:
                deferred = self._deferred
            deferred.last_in = rule
            self._resets = count
        finally:
            claim += FREED

    def _settle(self) -> None:
        """Apply the deferred rules and wake the readers, unless an asker will do so."""
        if self._is_asked():
            return
        mark = _process.generation, get_ident(), False
        try:
            rule = self._next_rule(mark, None)
            while True:  # as in waiting/_parking.py
                if rule is None:
                    break
                pending = self._pending  # kept until it is replaced
                after = rule(pending)
                if self._timer is not None:
                    after = self._timer.follow(after, self._monotonic())
                rule = self._next_rule(mark, after)
            self._wake()
        except BaseException:
            if self._asker is mark:
                self._asker = None
            self._wake()
            raise

    def _next_rule(self, mark: Asker, after: PendingTick | None) -> Rule | None:
        """Become the asker, or store what the first rule returned; return the next rule, if any."""
        reason = None if after is None or after.end is None else after.end.reason
        claim = self._readers.claim
        acquire(claim)
        try:
            deferred, asker = self._deferred, self._asker
            if asker is mark and after is not None and deferred:
                self._pending = after
                if self._ending is None:
                    self._ending = reason
                del deferred[0]
            elif asker is not None and asker[0] == mark[0]:
                return None
            if not deferred:
                self._deferred = self._asker = None
                return None
            self._asker = mark
            return deferred[0]
        finally:
            claim += FREED

    def _is_asked(self) -> bool:
        """Whether another thread is the asker; RuntimeError if this thread is."""
        asker = self._asker
        if asker is None or asker[0] != _process.generation:
            return False
        if asker[1] == get_ident():
            raise RuntimeError(
                f"{self!r} is used by its own policy, or by a signal handler or finalizer that "
                "interrupted it"
            )
        return True

    def _wake(self) -> None:
        """Wake the readers that watch the time, or all of them if the ticker has ended."""
        if self._ending is not None:
            self._end(self._ending)
        else:
            self._readers.wake_firsts()

    def _fix_due(self, asked: PendingTick) -> None:
        """Fix when the tick falls due, for a reader that asks for it now."""
        now = self._monotonic()

        def fix(pending: PendingTick) -> PendingTick:
            if pending is not asked:
                return pending  # another reader was faster
            if pending.awaits_feedback:
                resets = self._resets
                delay = self._run.ask()
                if self._resets != resets:
                    return pending  # reset meanwhile, by a rule that is applied next
                pending = pending.with_delay(delay)
            return pending.with_due(self._pace, now)

        self._change(fix)

    def _put_back(self, value: Any) -> None:
        self._defer(lambda pending: pending.given_back(value))
        self._wake()

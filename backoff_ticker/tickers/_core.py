"""How a tick is taken: the state of a ticker, its endings, and what its readers wait for.

Readers in threads, readers in event loops and forwardings all go through ``_poll()``, which never
waits. The state is a ``PendingTick`` in an ``AtomicState``; only the thread that has claimed it
asks the policy.

Invariants:
    * Between the last check of the endings and the return of a tick there is no call, so neither an
      interrupt nor (with an interpreter lock) another thread comes between: a tick is either
      delivered, or stays for the next reader. The check, the store of the next state and the
      return are three instructions in three functions, ``_advance()``, ``AtomicState.replace()``
      and ``_poll()``: CPython runs no handler at the return of a function written in Python.
    * A thread that releases a claim wakes the readers that lead their wake-up domains: they may
      have found the state claimed.
    * The first ending stays. An ending that every thread can see already (the policy has ended, the
      token is cancelled) takes precedence over one that is being announced.
"""

from __future__ import annotations

from _thread import get_ident

from .._errors import CloseReason, TickerClosed
from .._sentinels import EMPTY, ENDED
from .._validation import safe_repr
from ..clock import resolve_clock
from ..policies import End, PolicyRun, start_policy
from ..waiting import CLAIMED, NO_DEADLINE, AtomicState, Source, WaitLine, complete
from ._pending_tick import Kind, PendingTick, first_tick
from ._tick import Pace, Tick

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn, Self

    from .._sentinels import Closed
    from ..cancellation import CancellationToken
    from ..channels import TimerLike
    from ..clock import Clock
    from ..policies import BackOff
    from ..waiting import Waiter, WaitSet
    from ._timer import TickerTimer


_new_tuple = tuple.__new__

# These are read at each tick, and access to an enum member is slow.
_STOPPED = CloseReason.STOPPED
_CANCELLED = CloseReason.CANCELLED
_IMMEDIATE = Kind.IMMEDIATE
_SCHEDULED = Kind.SCHEDULED
_AWAITING_FEEDBACK = Kind.AWAITING_FEEDBACK
_ENDED = Kind.ENDED
_RECEIPT = Pace.RECEIPT
_SKIP = Pace.SKIP


class TickerCore(Source):
    """A ticker without its public methods.

    Attributes:
        _state: Holds the ``PendingTick``.
        _token: The token that was given.
        _ending: Why the ticker has ended; the first reason stays.
        _raised_error: Whether a reader was given the error of the policy.
        _readers: The line of readers, once there is one.
        _epoch: Replaced by each ``reset()``: see ``_defer_reset()``.
        _first_ignores_cancel: Whether the first tick was delivered regardless of the token.
    """

    if TYPE_CHECKING:

        def _selected(self) -> tuple[Self, Tick | Closed]: ...

    __slots__ = (
        "__weakref__",
        "_clock",
        "_ending",
        "_epoch",
        "_first_ignores_cancel",
        "_monotonic",
        "_pace",
        "_raised_error",
        "_readers",
        "_run",
        "_state",
        "_timer",
        "_token",
    )

    def _begin(
        self,
        backoff: BackOff,
        token: CancellationToken | None,
        pace: Pace,
        clock: Clock | None,
        timer: TimerLike | None,
    ) -> None:
        """Do what the constructors of the public classes have to do."""
        if not isinstance(pace, Pace):
            raise TypeError(f"pace must be a Pace, not {safe_repr(pace)}")
        self._clock = resolve_clock(clock)
        self._monotonic = self._clock.monotonic
        self._pace = pace
        self._epoch: object = None
        self._ending: CloseReason | None = None
        self._first_ignores_cancel = True
        self._token = token
        self._raised_error = False
        self._readers: WaitLine | None = None
        self._state = AtomicState(first_tick(pace, self._monotonic()))
        self._timer: TickerTimer | None = None
        if timer is not None:
            from ._timer import TickerTimer

            self._timer = TickerTimer(timer, pace, self._wake)
        self._run = self._start_run(backoff)

    def _start_run(self, backoff: BackOff) -> PolicyRun:
        token = self._token
        policy = start_policy("backoff", backoff, self._clock)
        return PolicyRun(policy, self._clock, () if token is None else (token,))

    # Endings

    @property
    def close_reason(self) -> CloseReason | None:
        """Why the ticker has ended; None while it is open. The first ending stays."""
        if self._ending is None:
            reason = self._unannounced_ending()
            if reason is not None:
                self._end(reason)
        return self._ending

    def _unannounced_ending(self) -> CloseReason | None:
        """Return why the ticker has ended though no thread has announced it yet."""
        pending: PendingTick = self._state.current
        if pending.end is not None:
            return pending.end.reason
        token = self._run.token
        if token is not None and not pending.ignores_cancel and token.cancelled:
            return CloseReason.CANCELLED
        return None

    def _end(self, reason: CloseReason) -> None:
        """Announce the end: wake all readers, stop the timer."""
        complete(self._announce, reason)

    def _announce(self, reason: CloseReason) -> None:
        if self._ending is None:
            reason = self._unannounced_ending() or reason
            # ATOMIC: no call between the look and the store: the first ending stays.
            self._ending = self._ending or reason  # type: ignore[redundant-expr]
        readers = self._readers
        if readers is not None:
            readers.close()
        if self._timer is not None:
            self._timer.stop()

    def stop(self) -> None:
        """End the ticker: its readers wake, and no tick is received after this returns.

        May be called from any thread, event loop, signal handler, finalizer or callback, by the
        policy too, and more than once.
        """
        self._end(CloseReason.STOPPED)

    def _raise_closed(self) -> NoReturn:
        """Raise why there is no tick: a failing policy's error once, else ``TickerClosed``."""
        reason = self.close_reason
        end = self._state.current.end
        if reason is CloseReason.FAILED and end is not None and end.error is not None:
            # ATOMIC: no call between the look and the store: one reader gets the error.
            was_raised, self._raised_error = self._raised_error, True
            if not was_raised:
                raise end.error
            raise TickerClosed(reason) from end.error
        raise TickerClosed(reason)  # type: ignore[arg-type]

    # Taking a tick

    def _poll(self, *, first_poll: bool = True) -> Any:  # noqa: ANN401, C901, PLR0912, PLR0915 - one loop
        """Take the next tick if it is due; never waits.

        Args:
            first_poll: Whether this is the reader's first poll, before it waits.

        Returns:
            The tick, or ``EMPTY``.

        Raises:
            TickerClosed: The ticker has ended.
            RuntimeError: The policy polls its own ticker.
            Exception: The policy failed; once, to one reader.
        """
        state = self._state
        while True:
            if state.deferred:
                self._release()
            pending: PendingTick = state.current
            epoch = self._epoch  # after the state: that of a reset is older than its state
            due = pending.due
            token = self._run.token
            rule: Callable[..., tuple[PendingTick, Tick | None]]
            argument: object
            if pending.returned:
                if self._is_withdrawn(pending.returned[0], self.close_reason):
                    self._raise_closed()
                rule, argument = TickerCore._take_returned, None
            elif self._ending is not None or (
                token is not None
                and token.cancelled
                and not (pending.number == 1 and pending.kind is _IMMEDIATE)  # not ignores_cancel
            ):
                self._raise_closed()
            elif due is None:
                if pending.kind is _ENDED:
                    self._raise_closed()
                if self._timer is not None and self._timer.awaits(pending):
                    return EMPTY
                # After a wait for a timer no tick is skipped: the timer fires just after its slot.
                pace = self._pace if first_poll or self._timer is None else Pace.BURST
                rule, argument = TickerCore._fix_due, (pace, self._monotonic())
            else:
                now = self._monotonic()
                if due > now:
                    return EMPTY
                if self._pace is _SKIP and first_poll and due < now:
                    rule, argument = TickerCore._fix_due, (_SKIP, now)
                else:
                    rule, argument = TickerCore._advance, now
            try:
                tick = state.replace(pending, rule, self, argument)
            except BaseException:
                # Not in a helper: an interrupt can hit its entry, and no reader would be woken.
                try:
                    self._wake()
                except BaseException:
                    self._wake()
                    raise
                raise
            if tick.__class__ is Tick:
                readers = self._readers
                # ATOMIC: no call before the return, unless another thread has to be woken.
                if (
                    self._ending is None
                    and self._epoch is epoch
                    and not state.deferred
                    and (readers is None or (readers.first is None and not readers.others))
                ):
                    return tick
                try:
                    if self._deliver(tick, epoch):
                        return tick
                except BaseException:
                    self._give_back(tick, epoch)
                    raise
                if self._epoch is not epoch:
                    self._give_back(tick, epoch)
            elif tick is CLAIMED:
                if self._must_wait_for_holder(pending):
                    return EMPTY
            else:
                self._release()
            first_poll = False

    def _advance(  # noqa: C901, PLR0912, PLR0915 - each call would cost the hot path
        self, pending: PendingTick, now: float
    ) -> tuple[PendingTick, Tick | None]:
        """Rule: take the tick and ask the policy for the next delay.

        The result is None if the ticker has ended or was reset meanwhile, or other rules have to be
        applied first.
        """
        if self._state.deferred:  # by a reset(), maybe, which has returned already
            return pending, None
        epoch = self._epoch
        due: Any = pending.due  # _poll() has compared it with now
        number = pending.number
        ignores_cancel = False
        if number == 1:
            self._first_ignores_cancel = ignores_cancel = pending.kind is _IMMEDIATE
        run = self._run
        token = run.token
        if token is not None and token.cancelled:
            wait: Any = End(CloseReason.CANCELLED)
        elif run.fast_path:
            try:
                wait = run.backoff.next_backoff()
            except Exception as error:  # noqa: BLE001 - raised to the next reader
                wait = run.failed(error)
            if wait.__class__ is not float or not 0.0 <= wait < NO_DEADLINE:
                wait = run.parse_answer(wait)
        else:
            wait = None if run.feedback else run.ask()
        # Field by field: PendingTick.replace() would take a fifth of the time of a tick.
        after = PendingTick()
        after.claim = {}
        after.number = number + 1
        after.missed = 0
        after.failures = (failures := pending.failures) + 1
        after.returned = ()
        after.end = None
        if wait.__class__ is float:
            after.kind = _SCHEDULED
            after.delay = wait
            if self._pace is _RECEIPT:  # its rule, without the call
                after.due, after.origin = now + wait, now
            else:
                after.due, after.origin, after.missed = self._pace.due_after(due, now, wait)
        else:
            after.delay, after.due, after.origin = 0.0, None, None
            if wait is None:
                after.kind = _AWAITING_FEEDBACK
                _, after.origin, _ = self._pace.due_after(due, now, 0.0)
            else:
                after.kind = _ENDED
                after.end = wait
        lateness = now - due
        wall = self._clock.time() - lateness
        fields = (number, wall, due, pending.delay, lateness, pending.missed, failures)
        tick = _new_tuple(Tick, fields)
        timer = self._timer
        if timer is not None:
            tick = timer.with_time_sent(tick)
            after.due, after.missed = None, 0
            self._state.defer(self._start_timer)
        step = after, tick
        cancelled = token is not None and not ignores_cancel and token.cancelled
        # ATOMIC: no call from this check of the endings to the return of ``_poll``.
        if cancelled or self._ending is not None or self._epoch is not epoch:
            return pending, None
        return step

    def _take_returned(
        self, pending: PendingTick, _: None
    ) -> tuple[PendingTick, Tick] | tuple[PendingTick, None]:
        """Rule: take a tick that was given back.

        The result is None if the ticker has ended, or other rules have to be applied first.
        """
        if self._state.deferred:
            return pending, None
        tick, *rest = pending.returned
        step = pending.replace(returned=tuple(rest)), tick
        ignores_cancel = tick.number == 1 and self._first_ignores_cancel
        ending = self.close_reason
        # ATOMIC: as in _advance(). The test is that of _is_withdrawn().
        if ending is _STOPPED or (ending is _CANCELLED and not ignores_cancel):
            return pending, None
        return step

    def _fix_due(self, pending: PendingTick, poll: tuple[Pace, float]) -> tuple[PendingTick, None]:
        """Rule: fix when the tick falls due, for a reader that polled at a time."""
        if pending.kind is _AWAITING_FEEDBACK:
            epoch = self._epoch
            delay = self._run.ask()
            if self._epoch is not epoch:
                return pending, None  # reset meanwhile, by a rule that is applied next
            pending = pending.with_delay(delay)
        return self._followed_by_timer(pending.with_due(*poll)), None

    def _deliver(self, tick: Tick, epoch: object) -> bool:
        """Wake the readers that found the state claimed; then say whether the tick still counts."""
        self._release()
        return self._still_counts(tick, epoch)

    def _still_counts(self, value: Tick, epoch: object) -> bool:
        ignores_cancel = value.number == 1 and self._first_ignores_cancel
        token = self._run.token
        if token is not None and token.cancelled and not ignores_cancel:
            return False
        # ATOMIC: no call from here to the return of the tick.
        ending = self._ending
        return (
            self._epoch is epoch
            and ending is not _STOPPED
            and (ending is not _CANCELLED or ignores_cancel)
        )

    def _is_withdrawn(self, tick: Tick, ending: CloseReason | None) -> bool:
        """Whether a tick that was taken is not delivered because the ticker has ended."""
        ignores_cancel = tick.number == 1 and self._first_ignores_cancel
        return ending is _STOPPED or (ending is _CANCELLED and not ignores_cancel)

    def _must_wait_for_holder(self, pending: PendingTick) -> bool:
        """Whether ``pending`` is still claimed by a thread that will wake the readers."""
        if not self._state.is_claimed(pending):
            return False
        if self._is_claimed_here(pending):
            raise RuntimeError(f"{self!r} is read by its own policy")
        token = self._run.token
        if token is not None and token.cancelled:
            raise TickerClosed(CloseReason.CANCELLED)  # the tick being taken goes to its holder
        return True

    def _give_back(self, tick: Tick, epoch: object) -> None:
        """Keep a tick whose reader was interrupted, or left, for the next reader.

        One that was taken before a ``reset()`` is dropped; its number is used again where possible.
        """

        def put(pending: PendingTick) -> PendingTick:
            if self._epoch is not epoch:
                return pending.rolled_back(tick.number)
            return pending.replace(returned=(*pending.returned, tick))

        self._state.defer(put)
        if self._readers is not None:
            self._readers.wake_firsts()

    # Rules that ask the policy, and how they are applied

    def _defer(self, rule: Callable[[PendingTick], PendingTick]) -> None:
        """Have a rule applied: now, or by the thread that has claimed the state."""
        self._state.defer(lambda pending: self._followed_by_timer(rule(pending)))
        self._release()

    def _defer_reset(self, rule: Callable[[PendingTick], PendingTick]) -> None:
        """Defer the rule of a ``reset()``, and have ticks dropped that were taken before.

        Its rule is deferred and an epoch begins in one step, whoever applies the rule, and when. A
        tick counts while the epoch lasts in which it was taken; while the rule waits to be applied,
        no tick is taken.
        """

        def restart(pending: PendingTick) -> PendingTick:
            return self._followed_by_timer(rule(pending))

        made: list[Any] = []
        epoch = object()
        state = self._state
        # ATOMIC: as in AtomicState.defer(), and no call between the two stores and the append.
        state.deferred = deferred = state.deferred or made
        self._epoch = epoch
        deferred.append(restart)
        self._release()

    def _release(self) -> None:
        """After a claim was released: apply the deferred rules, and wake the leading readers."""
        try:
            self._state.run_deferred()
            self._wake()
        except BaseException:
            self._wake()
            raise

    def _wake(self) -> None:
        end = self._state.current.end
        if end is not None:
            self._end(end.reason)
        elif self._readers is not None:
            self._readers.wake_firsts()

    def _is_claimed_here(self, pending: PendingTick) -> bool:
        """Whether this thread has claimed ``pending``."""
        return self._state.holder(pending) == get_ident()

    def _followed_by_timer(self, pending: PendingTick) -> PendingTick:
        """Return ``pending`` once the timer, if there is one, measures its delay."""
        timer = self._timer
        return pending if timer is None else timer.follow(pending, self._monotonic())

    def _start_timer(self, pending: PendingTick) -> PendingTick:
        """Rule: start the timer for a state that ``_advance`` has stored."""
        if self._pace is Pace.SKIP:
            pending = pending.with_due(Pace.SKIP, self._monotonic())
        return self._followed_by_timer(pending)

    def _after_ask(self, pending: PendingTick, poll: tuple[Pace, float]) -> PendingTick:
        if pending.returned or pending.due is not None:
            return pending
        if self._timer is not None and self._timer.awaits(pending):
            return pending
        return self._fix_due(pending, poll)[0]

    def _after_success(self, pending: PendingTick) -> PendingTick:
        if pending.kind is _ENDED:
            return pending
        if pending.kind is _IMMEDIATE:
            failed = None if self._run.feedback else self._run.reset()
            return pending if failed is None else pending.with_delay(failed)
        return pending.recovered().with_delay(self._run.success())

    def _after_failure(self, pending: PendingTick) -> PendingTick:
        if pending.kind is not _AWAITING_FEEDBACK:
            return pending
        return pending.with_delay(self._run.failure())

    def _after_reset(
        self,
        pending: PendingTick,
        run: PolicyRun | None,
        now: float,
        immediately: bool,  # noqa: FBT001
    ) -> PendingTick:
        if pending.kind is _ENDED:
            return pending
        if run is not None:
            self._run = run
        if self._timer is not None:
            self._timer.restart_next()
        return pending.restarted(now, self._run.reset() if immediately else self._run.begin())

    # Waiting for a tick

    def _line(self) -> WaitLine:
        """Return the line of readers; made with the first of them."""
        line = self._readers
        if line is None:
            line = WaitLine()
            # ATOMIC: no call between the look and the store: there is one line.
            self._readers = line = line if self._readers is None else self._readers
        return line

    @property
    def _timing_clock(self) -> Clock:
        return self._clock

    def _wait_sets(self) -> tuple[WaitSet, ...]:
        token = self._run.token
        line = self._line() if self._readers is None else self._readers
        return (line,) if token is None else (line, token._wait_set())

    def _recheck(self, waiter: Waiter) -> float | None:
        """Return until when a registered waiter waits, its ``limit`` at most; None: poll now.

        A waiter that is not registered with the current token (after a ``reset()``) polls again.
        """
        pending: PendingTick = self._state.current
        until = waiter.limit
        token = self._run.token
        if self._ending is not None or (
            token is not None and token._wait_set() not in waiter.sources
        ):
            return None
        if token is not None and (pending.claim or not pending.ignores_cancel):
            if token.cancelled:
                return None
            if token.deadline is not None:
                until = min(until, token.deadline)
        if pending.claim and self._state.is_claimed(pending):
            return until  # its holder wakes the leading readers
        due = pending.due
        if due is None and self._timer is not None and self._timer.awaits(pending):
            due = NO_DEADLINE
        if self._state.deferred or pending.returned or due is None or due <= self._monotonic():
            return None
        if due >= until:
            return until
        line = self._line() if self._readers is None else self._readers
        return due if line.leads(waiter) else until

    # For select()

    def _begin_receive(self) -> None:
        if self._state.current.due is None and self.close_reason is None:
            poll = self._pace, self._monotonic()
            self._defer(lambda pending: self._after_ask(pending, poll))

    def _take_nowait(self, *, fresh: bool) -> object:
        try:
            return self._poll(first_poll=fresh)
        except TickerClosed:
            return ENDED

    def _put_back(self, value: object, epoch: object) -> None:
        if isinstance(value, Tick):
            self._give_back(value, epoch)

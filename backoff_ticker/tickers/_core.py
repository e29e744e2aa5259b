"""How a ticker is asked for a tick, and what its readers wait for.

Thread readers, loop readers and pushes all go through ``_poll``, which never waits. The state is
a ``Turn`` that one of them at a time may claim; only with the claim is the policy asked.

Invariants:
    * Between the last look at the endings and the return of a tick stands no call, so neither an
      interrupt nor (with an interpreter lock) another thread comes between: a tick is either
      delivered or still there.
    * Whoever let a claim go wakes those who lead the line of readers, who may have found it held.
"""

from __future__ import annotations

from _thread import get_ident

from .. import _process
from .._errors import CloseReason, TickerClosed
from ..policies import End
from ..waiting import NO_DEADLINE, Source, WaitLine
from ._pending_tick import ignores_cancel, rolled_back
from ._state import TickerState
from ._tick import Pace, Tick

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..clock import Clock
    from ..waiting import LoopWaiter, ThreadWaiter, WaitSet
    from ._pending_tick import Turn

POLL_AGAIN = -NO_DEADLINE
"""What a poll answers when it has changed something, or somebody else has: poll again."""

_new_tick = tuple.__new__

# Looked up at each tick, and an enum is slow to search.
_STOPPED = CloseReason.STOPPED
_CANCELLED = CloseReason.CANCELLED


class TickerCore(TickerState, Source):
    """The one way to take a tick."""

    __slots__ = ()

    def _ask(self) -> None:
        turn = self._turn
        if turn[2] is None and not self._returned and self._ending() is None:
            try:
                self._fix(turn, fresh=True)
            except TickerClosed:
                pass  # it ended meanwhile, as _try will say

    def _poll(self, *, fresh: bool = True) -> Tick | float:
        """Take the tick if it is due.

        Args:
            fresh: Whether the reader asks only now, rather than having waited.

        Returns:
            The tick; or until when to wait: a deadline, ``NO_DEADLINE`` for a wake-up, or
            ``POLL_AGAIN``.

        Raises:
            TickerClosed: No tick comes any more.
            RuntimeError: The policy asks for a tick of its own ticker.
            Exception: The policy failed; once, to one reader.
        """
        era = self._reset_epoch
        if self._notes:
            self._release()
        turn = self._turn
        _, number, due, _, origin, _ = turn
        token = self._run.token
        exempt = number == 1 and origin is None  # as in is_exempt, without a call
        if self._returned:
            return self._take_returned(turn)
        if self._ended or (token is not None and not exempt and token.cancelled):
            self._raise_closed()
        if due is None:
            return self._fix(turn, fresh=fresh)
        now = self._monotonic()
        if due > now:
            return due
        if fresh and due < now and self._pace.skips:
            return self._fix(turn, fresh=fresh)
        return self._take(turn, due, now, era)

    def _take(  # noqa: C901, PLR0912, PLR0915 - one step, from the claim to the store
        self, turn: Turn, due: float, now: float, era: object
    ) -> Tick | float:
        """Claim the turn, ask the policy, and replace the turn by the next one."""
        claim, number, _, delay, origin, missed = turn
        exempt = number == 1 and origin is None  # as above
        if number == 1:
            self._facts["exempt"] = exempt
        run = self._run
        token = run.token
        mark = (get_ident(), _process.generation)
        try:
            if claim.setdefault(0, mark) is not mark:
                return self._on_claim_conflict(turn)
            if token is not None and token.cancelled:
                wait: float | End | None = End(CloseReason.CANCELLED)
            elif run.fast_path:
                try:
                    wait = run.backoff.next_backoff()  # type: ignore[assignment]
                except Exception as error:  # noqa: BLE001 - raised to the next reader
                    wait = run.failed(error)
                if wait.__class__ is not float or not 0.0 <= wait < NO_DEADLINE:
                    wait = run.parse_answer(wait)
            else:
                wait = None if run.feedback else run.ask()
            if wait.__class__ is float:
                next_due, start, skipped = self._pace.due_after(due, now, wait)
            else:
                _, start, skipped = self._pace.due_after(due, now, 0.0)
                next_due = None
            lateness = now - due
            wall = self._clock.time() - lateness
            tick = _new_tick(Tick, (number, wall, due, delay, lateness, missed))
            if self._pace.__class__ is not Pace:
                tick = self._pace.stamped(tick)  # type: ignore[union-attr]
            after: Turn = ({}, number + 1, next_due, wait, start, skipped)
            token = run.token
            withdrawn = token is not None and not exempt and token.cancelled
            # From here to the return stands no call, unless somebody has to be woken.
            if withdrawn or self._ended or self._reset_epoch is not era:
                withdrawn = True
                after = ({}, *turn[1:])
            self._turn = after
        except BaseException:
            if claim and claim[0] is mark and self._turn is turn:
                self._turn = ({}, *turn[1:])
                try:
                    self._wake()
                except BaseException:
                    self._wake()
                    raise
            raise
        readers = self._readers
        if withdrawn or self._notes or (readers is not None and readers.waiters):
            try:
                return self._deliver(None if withdrawn else tick, era)
            except BaseException:
                if not withdrawn:
                    self._give_back(tick, era)
                raise
        return tick

    def _deliver(self, tick: Tick | None, era: object) -> Tick | float:
        """Wake who may wait for the claim, then return the tick, if it is still to be delivered."""
        self._release()
        if tick is None:
            return POLL_AGAIN
        exempt = tick.number == 1 and self._facts["exempt"]
        token = self._run.token
        if token is not None and not exempt and token.cancelled:
            return POLL_AGAIN
        # As in _take: no call from here on, for a tick that is delivered.
        if self._reset_epoch is not era:
            self._defer(lambda turn: rolled_back(turn, tick.number))
            return POLL_AGAIN
        if self._ended:
            ending = self._facts["ending"]
            if ending is _STOPPED or (ending is _CANCELLED and not exempt):
                return POLL_AGAIN
        return tick

    def _fix(self, turn: Turn, *, fresh: bool) -> float:
        """Fix when the tick falls due, for a reader who asks for it now or has waited for it."""
        if turn[3].__class__ is End:
            self._raise_closed()
        if self._timer is not None and self._timer.awaits(turn):
            return NO_DEADLINE
        now = self._monotonic()
        if not self._apply(turn, lambda turn: self._after_ask(turn, now, fresh=fresh)):
            return self._on_claim_conflict(turn)
        self._release()
        return POLL_AGAIN

    def _on_claim_conflict(self, turn: Turn) -> float:
        """Say what a reader does about a turn that somebody else has claimed."""
        if self._is_stale(turn):
            return POLL_AGAIN
        if self._is_mine(turn):
            raise RuntimeError(f"{self!r} is asked for a tick by its own policy")
        token = self._run.token
        if token is not None and token.cancelled:
            raise TickerClosed(CloseReason.CANCELLED)  # the tick that is being taken is not for us
        return NO_DEADLINE

    def _wake(self) -> None:
        last = self._turn[3]
        if isinstance(last, End):
            self._end(last.reason)
        elif self._readers is not None:
            self._readers.wake_firsts()

    def _give_back(self, tick: Tick, era: object) -> None:
        """Keep a tick whose reader was interrupted, or left, for the next reader."""
        returned = self._facts.setdefault("returned", [])
        returned.append((era, tick))
        self._returned = returned
        if self._readers is not None:
            self._readers.wake_firsts()

    def _take_returned(self, turn: Turn) -> Tick | float:
        """Take a tick that was given back, unless the ticker was reset since.

        It comes in spite of a cancel only if it did so when it was taken.
        """
        ending = self._ending()
        exempt = turn[1] - 1 == 1 and self._facts["exempt"]
        if ending is _STOPPED or (ending is _CANCELLED and not exempt):
            self._raise_closed()
        claim = turn[0]
        mark = (get_ident(), _process.generation)
        era, tick = None, None
        try:
            if claim.setdefault(0, mark) is not mark:
                return self._on_claim_conflict(turn)
            same: Turn = ({}, *turn[1:])
            returned = self._returned
            if returned:
                era, tick = returned[0]
                del returned[0]
            self._turn = same
        except BaseException:
            if claim and claim[0] is mark and self._turn is turn:
                self._turn = ({}, *turn[1:])
                try:
                    self._wake()
                except BaseException:
                    self._wake()
                    raise
            raise
        try:
            return self._deliver(tick, era)
        except BaseException:
            if tick is not None:
                self._give_back(tick, era)
            raise

    # Waiting for it

    def _line(self) -> WaitLine:
        """Return the line of readers; made with the first of them."""
        line = self._readers
        if line is None:
            line = self._readers = self._facts.setdefault("readers", WaitLine())
        return line

    @property
    def _timed_by(self) -> Clock:
        return self._clock

    def _wait_sets(self) -> tuple[WaitSet, ...]:
        token = self._run.token
        return (self._line(),) if token is None else (self._line(), token.wait_set())

    def _recheck(self, waiter: ThreadWaiter | LoopWaiter) -> float | None:
        """Tell a reader that is registered until when to wait; None: not at all.

        A reader that is not registered with a token that was heard since does not wait on.
        """
        turn = self._turn
        claim, _, due, _, _, _ = turn
        until = waiter.limit
        token = self._run.token
        if self._ended or (token is not None and token.wait_set() not in waiter.sources):
            return None
        if token is not None and (claim or not ignores_cancel(turn)):
            if token.cancelled:
                return None
            if token.deadline is not None:
                until = min(until, token.deadline)
        if claim and claim[0][1] == _process.generation:
            return until  # its holder wakes those who lead
        if due is None and self._timer is not None and self._timer.awaits(turn):
            due = NO_DEADLINE
        if self._notes or self._returned or due is None or due <= self._monotonic():
            return None
        return due if due < until and self._line().leads(waiter) else until

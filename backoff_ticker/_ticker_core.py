"""How a ticker is asked for a tick, how it ends, and what its readers wait for.

Thread readers, loop readers and pushes all go through ``_poll``, which never waits. The state is
a ``Turn`` that one of them at a time may claim; only with the claim is the policy asked.

Invariants:
    * Between the last look at the endings and the return of a tick stands no call, so neither an
      interrupt nor (with an interpreter lock) another thread comes between: a tick is either
      delivered or still there.
    * Whoever let a claim go wakes those who lead the line of readers, who may have found it held.
    * Endings go through ``_end``: the first stays. An ending that everybody can see already (a
      last turn, a cancelled token) comes before the one that is being said.
"""

from __future__ import annotations

from _thread import get_ident

from . import _fork
from ._claim import Claimable
from ._clock import resolve_clock
from ._errors import TickerClosed
from ._policy_run import PolicyRun
from ._schedule import CloseReason, Pace, Tick
from ._turn import Last, comes_at_once, delayed, first_turn, fixed, renewed, uncounted
from ._wait_set import WaitLine
from ._waiting import FOREVER
from .policies._running import start_policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from ._protocols import BackOff, Clock
    from ._token import CancellationToken
    from ._turn import Turn
    from ._wait_set import WaitSet
    from ._waiting import LoopWaiter, ThreadWaiter

__all__ = ["AGAIN", "TickerCore"]

AGAIN = -FOREVER
"""What a poll answers when it has changed something, or somebody else has: poll again."""

_new_tick = tuple.__new__

# Looked up at each tick, and an enum is slow to search.
_SKIP = Pace.SKIP
_STOPPED = CloseReason.STOPPED
_CANCELLED = CloseReason.CANCELLED


class TickerCore(Claimable):
    """The state of a ticker, and the one way to take a tick."""

    __slots__ = (
        "__weakref__",
        "_clock",
        "_era",
        "_monotonic",
        "_over",
        "_pace",
        "_readers",
        "_returned",
        "_run",
    )

    _turn: Turn

    def __init__(
        self,
        backoff: BackOff,
        *,
        token: CancellationToken | None = None,
        pace: Pace = Pace.RECEIPT,
        clock: Clock | None = None,
    ) -> None:
        if not isinstance(pace, Pace):
            raise TypeError(f"pace must be a Pace, not {pace!r}")
        self._clock = resolve_clock(clock)
        self._monotonic = self._clock.monotonic
        self._pace = pace
        self._era: object = None
        self._over = False
        self._readers: WaitLine | None = None
        self._returned: list[tuple[object, Tick]] | tuple[()] = ()
        super().__init__(first_turn(pace, self._monotonic()))
        if token is not None:
            self._facts["given"] = (token,)
        self._run = self._start(backoff)

    def _start(self, backoff: BackOff) -> PolicyRun:
        given: tuple[CancellationToken, ...] = self._facts.get("given", ())
        return PolicyRun(start_policy("backoff", backoff, self._clock), self._clock, given)

    # Endings

    def _seen_ending(self) -> CloseReason | None:
        """Why the ticker has ended without anybody having said so yet."""
        _, number, _, delay, origin, _ = self._turn
        if delay.__class__ is Last:
            return delay.reason
        token = self._run.token
        if token is not None and (number > 1 or origin is not None) and token.cancelled:
            return CloseReason.CANCELLED
        return None

    def _end(self, reason: CloseReason) -> None:
        if not self._over:
            self._facts.setdefault("ending", self._seen_ending() or reason)
            self._over = True
        readers = self._facts.get("readers")
        if readers is not None:
            readers.close()

    def _ending(self) -> CloseReason | None:
        """Why the ticker has ended; None while it is open."""
        if not self._over:
            reason = self._seen_ending()
            if reason is None:
                return None
            self._end(reason)
        ending: CloseReason = self._facts["ending"]
        return ending

    def _refuse(self) -> NoReturn:
        """Raise why there is no tick: a failing policy's error once, else ``TickerClosed``."""
        reason = self._ending()
        last = self._turn[3]
        if reason is CloseReason.FAILED and isinstance(last, Last) and last.error is not None:
            mark = (get_ident(),)
            if self._facts.setdefault("told", mark) is mark:
                raise last.error
            raise TickerClosed(reason) from last.error
        raise TickerClosed(reason)  # type: ignore[arg-type]

    # Rules that ask the policy; applied with the claim

    def _after_success(self, turn: Turn) -> Turn:
        if turn[3].__class__ is Last:
            return turn
        if comes_at_once(turn):
            failed = None if self._run.feedback else self._run.reset()
            return turn if failed is None else delayed(turn, failed)
        return delayed(turn, self._run.success())

    def _after_failure(self, turn: Turn) -> Turn:
        return turn if turn[3] is not None else delayed(turn, self._run.failure())

    def _after_reset(
        self,
        turn: Turn,
        run: PolicyRun | None,
        now: float,
        immediately: bool,  # noqa: FBT001
    ) -> Turn:
        if turn[3].__class__ is Last:
            return turn
        if run is not None:
            self._run = run
        return renewed(turn, now, self._run.reset() if immediately else self._run.begin())

    def _after_ask(self, turn: Turn, now: float) -> Turn:
        if turn[3] is None:
            turn = delayed(turn, self._run.ask())
        return fixed(turn, self._pace, now)

    # Taking a tick

    def _poll(self, *, fresh: bool = True) -> Tick | float:
        """Take the tick if it is due.

        Args:
            fresh: Whether the reader asks only now, rather than having waited.

        Returns:
            The tick; or until when to wait: a deadline, ``FOREVER`` for a wake-up, or ``AGAIN``.

        Raises:
            TickerClosed: No tick comes any more.
            RuntimeError: The policy asks for a tick of its own ticker.
            Exception: The policy failed; once, to one reader.
        """
        era = self._era
        if self._notes:
            self._let_go()
        turn = self._turn
        _, number, due, _, origin, _ = turn
        token = self._run.token
        exempt = number == 1 and origin is None  # the first tick comes in spite of any cancel
        if self._returned:
            return self._take_returned(turn)
        if self._over or (token is not None and not exempt and token.cancelled):
            self._refuse()
        if due is None:
            return self._fix(turn)
        now = self._monotonic()
        if due > now:
            return due
        if fresh and due < now and self._pace is _SKIP:
            return self._fix(turn)
        return self._take(turn, due, now, era)

    def _take(  # noqa: C901, PLR0912 - one step, from the claim to the store
        self, turn: Turn, due: float, now: float, era: object
    ) -> Tick | float:
        """Claim the turn, ask the policy, and replace the turn by the next one."""
        claim, number, _, delay, origin, missed = turn
        exempt = number == 1 and origin is None
        run = self._run
        token = run.token
        mark = (get_ident(), _fork.generation)
        try:
            if claim.setdefault(0, mark) is not mark:
                return self._contend(turn)
            if token is not None and token.cancelled:
                wait: float | Last | None = Last(CloseReason.CANCELLED)
            elif run.straight:
                try:
                    wait = run.backoff.next_backoff()  # type: ignore[assignment]
                except Exception as error:  # noqa: BLE001 - raised to the next reader
                    wait = run.failed(error)
                if wait.__class__ is not float or not 0.0 <= wait < FOREVER:
                    wait = run.judged(wait)
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
            after: Turn = ({}, number + 1, next_due, wait, start, skipped)
            token = run.token
            withdrawn = token is not None and not exempt and token.cancelled
            # From here to the return stands no call, unless somebody has to be woken.
            if withdrawn or self._over or self._era is not era:
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
                return self._hand_over(None if withdrawn else tick, era)
            except BaseException:
                if not withdrawn:
                    self._give_back(tick, era)
                raise
        return tick

    def _hand_over(self, tick: Tick | None, era: object) -> Tick | float:
        """Wake who may wait for the claim, then return the tick, if it is still to be delivered."""
        self._let_go()
        if tick is None:
            return AGAIN
        first = tick.number == 1 and not tick.delay
        token = self._run.token
        if token is not None and not first and token.cancelled:
            return AGAIN
        # As in _take: no call from here on, for a tick that is delivered.
        if self._era is not era:
            self._leave_note(lambda turn: uncounted(turn, tick.number))
            return AGAIN
        if self._over:
            ending = self._facts["ending"]
            if ending is _STOPPED or (ending is _CANCELLED and not first):
                return AGAIN
        return tick

    def _fix(self, turn: Turn) -> float:
        """Fix when the tick falls due, for a reader who asks for it now."""
        if turn[3].__class__ is Last:
            self._refuse()
        now = self._monotonic()
        if not self._apply(turn, lambda turn: self._after_ask(turn, now)):
            return self._contend(turn)
        self._let_go()
        return AGAIN

    def _contend(self, turn: Turn) -> float:
        """Say what a reader does about a turn that somebody else has claimed."""
        if self._freed(turn):
            return AGAIN
        if self._is_mine(turn):
            raise RuntimeError(f"{self!r} is asked for a tick by its own policy")
        token = self._run.token
        if token is not None and token.cancelled:
            raise TickerClosed(CloseReason.CANCELLED)  # the tick that is being taken is not for us
        return FOREVER

    def _wake(self) -> None:
        last = self._turn[3]
        if isinstance(last, Last):
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

        Of those, too, only the first comes in spite of a cancel.
        """
        ending = self._ending()
        is_first = turn[1] - 1 == 1
        if ending is _STOPPED or (ending is _CANCELLED and not is_first):
            self._refuse()
        claim = turn[0]
        mark = (get_ident(), _fork.generation)
        era, tick = None, None
        try:
            if claim.setdefault(0, mark) is not mark:
                return self._contend(turn)
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
            return self._hand_over(tick, era)
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

    def _sources(self) -> tuple[WaitSet, ...]:
        """Return all that can wake a reader."""
        token = self._run.token
        return (self._line(),) if token is None else (self._line(), token.wait_set())

    def _look(self, waiter: ThreadWaiter | LoopWaiter) -> float | None:
        """Tell a reader that is registered until when to wait; None: not at all.

        A reader that is not registered with a token that was heard since does not wait on.
        """
        claim, number, due, _, origin, _ = self._turn
        until = waiter.limit
        token = self._run.token
        if self._over or (token is not None and token.wait_set() not in waiter.sources):
            return None
        if token is not None and (number > 1 or origin is not None or claim):
            if token.cancelled:
                return None
            if token.deadline is not None:
                until = min(until, token.deadline)
        if claim and claim[0][1] == _fork.generation:
            return until  # its holder wakes those who lead
        if self._notes or self._returned or due is None or due <= self._monotonic():
            return None
        return due if due < until and self._line().leads(waiter) else until

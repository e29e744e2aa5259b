"""What a ticker consists of, how it ends, and what its policy is asked.

Endings go through ``_end``: the first stays. An ending that everybody can see already (a last
turn, a cancelled token) comes before the one that is being said.
"""

from __future__ import annotations

from _thread import get_ident

from .._errors import CloseReason, TickerClosed
from .._validation import safe_repr
from ..clock import resolve_clock
from ..policies import End, PolicyRun, start_policy
from ..waiting import Claimable
from ._pending_tick import first_turn, ignores_cancel, is_immediate, restarted, with_delay, with_due
from ._tick import Pace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from ..cancellation import CancellationToken
    from ..channels import TimerLike
    from ..clock import Clock
    from ..policies import BackOff
    from ..waiting import State, WaitLine
    from ._pending_tick import Turn
    from ._tick import Tick
    from ._timer import TimerRun


class TickerState(Claimable):
    """The state of a ticker, its endings, and the rules that ask its policy."""

    __slots__ = (
        "__weakref__",
        "_clock",
        "_ended",
        "_monotonic",
        "_pace",
        "_readers",
        "_reset_epoch",
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
        timer: TimerLike | None = None,
    ) -> None:
        if not isinstance(pace, Pace):
            raise TypeError(f"pace must be a Pace, not {safe_repr(pace)}")
        self._clock = resolve_clock(clock)
        self._monotonic = self._clock.monotonic
        self._pace: Pace | TimerRun = pace
        self._reset_epoch: object = None
        self._ended = False
        self._readers: WaitLine | None = None
        self._returned: list[tuple[object, Tick]] | tuple[()] = ()
        super().__init__(first_turn(pace, self._monotonic()))
        if timer is not None:
            from ._timer import TimerRun

            self._pace = TimerRun(timer, pace, self)
        if token is not None:
            self._facts["given"] = (token,)
        self._run = self._start(backoff)

    def _start(self, backoff: BackOff) -> PolicyRun:
        given: tuple[CancellationToken, ...] = self._facts.get("given", ())
        return PolicyRun(start_policy("backoff", backoff, self._clock), self._clock, given)

    # With a timer

    @property
    def _timer(self) -> TimerRun | None:
        pace = self._pace
        return None if isinstance(pace, Pace) else pace

    @property
    def pace(self) -> Pace:
        """From when delays run, and what becomes of late ticks."""
        pace = self._pace
        return pace if isinstance(pace, Pace) else pace.pace

    def _apply(self, turn: State, rule: Callable[[Any], State]) -> bool:
        timer = self._timer
        if timer is None:
            return super()._apply(turn, rule)
        return super()._apply(turn, lambda turn: timer.after(rule(turn), self._monotonic()))

    # Endings

    def _seen_ending(self) -> CloseReason | None:
        """Why the ticker has ended without anybody having said so yet."""
        turn = self._turn
        last = turn[3]
        if isinstance(last, End):
            return last.reason
        token = self._run.token
        if token is not None and not ignores_cancel(turn) and token.cancelled:
            return CloseReason.CANCELLED
        return None

    def _end(self, reason: CloseReason) -> None:
        if not self._ended:
            self._facts.setdefault("ending", self._seen_ending() or reason)
            self._ended = True
        readers = self._facts.get("readers")
        if readers is not None:
            readers.close()
        timer = self._timer
        if timer is not None:
            timer.stop()

    def _ending(self) -> CloseReason | None:
        """Why the ticker has ended; None while it is open."""
        if not self._ended:
            reason = self._seen_ending()
            if reason is None:
                return None
            self._end(reason)
        ending: CloseReason = self._facts["ending"]
        return ending

    def _raise_closed(self) -> NoReturn:
        """Raise why there is no tick: a failing policy's error once, else ``TickerClosed``."""
        reason = self._ending()
        last = self._turn[3]
        if reason is CloseReason.FAILED and isinstance(last, End) and last.error is not None:
            mark = (get_ident(),)
            if self._facts.setdefault("told", mark) is mark:
                raise last.error
            raise TickerClosed(reason) from last.error
        raise TickerClosed(reason)  # type: ignore[arg-type]

    # Rules that ask the policy; applied with the claim

    def _after_success(self, turn: Turn) -> Turn:
        if turn[3].__class__ is End:
            return turn
        if is_immediate(turn):
            failed = None if self._run.feedback else self._run.reset()
            return turn if failed is None else with_delay(turn, failed)
        return with_delay(turn, self._run.success())

    def _after_failure(self, turn: Turn) -> Turn:
        return turn if turn[3] is not None else with_delay(turn, self._run.failure())

    def _after_reset(
        self,
        turn: Turn,
        run: PolicyRun | None,
        now: float,
        immediately: bool,  # noqa: FBT001
    ) -> Turn:
        if turn[3].__class__ is End:
            return turn
        if run is not None:
            self._run = run
        if self._timer is not None:
            self._timer.renew()
        return restarted(turn, now, self._run.reset() if immediately else self._run.begin())

    def _after_ask(self, turn: Turn, now: float, *, fresh: bool) -> Turn:
        if turn[3] is None:
            turn = with_delay(turn, self._run.ask())
        # Who has waited for a timer passes by no tick: it fires after the slot, if only just.
        is_late = fresh or self._timer is None
        return with_due(turn, self.pace if is_late else Pace.BURST, now)

"""A ticker whose delays are measured by somebody's ``Timer`` instead of its clock.

A turn whose tick the timer is to bring has no due time; once the timer has fired it gets one. It
stands where the pace stands otherwise (``due_after``), so a ticker without a timer pays nothing; a
tick that is taken leaves an empty note, so that ``after`` is applied to the next turn at once.

Invariants:
    * ``after`` is applied with the ticker's claim to each turn that a rule has made, so the timer
      is started, once, for each delay that begins to run.
    * What the timer sent is stored as it is taken, without a call between; so an interrupt loses
      no fire.
    * The ticker itself stands in the line of the timer's channel, and wakes its readers as it is
      woken, so that all of them look.
"""

from __future__ import annotations

import weakref

from .. import _process
from .._sentinels import EMPTY, ENDED
from .._unraisable import report
from .._validation import as_number
from ..channels import require_timer
from ..policies import failed_with
from ..waiting import Waiter
from ._pending_tick import is_immediate, with_delay, with_due
from ._tick import Pace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..channels import Channel, TimerLike
    from ._pending_tick import Turn
    from ._state import TickerState
    from ._tick import Tick

    Delay = tuple[int, float, float, int]


class _Relay(Waiter):
    """Passes a wake-up on to the readers of a ticker."""

    __slots__ = ("_ticker",)

    def __init__(self, ticker: weakref.ref[TickerState]) -> None:
        super().__init__()
        self._ticker = ticker

    def wake(self) -> bool:
        ticker = self._ticker()
        if ticker is not None:
            ticker._wake()
        return ticker is not None


class TimerRun:
    """The timer of one ticker, in place of its pace.

    Attributes:
        pace: From when delays run.
        skips: Whether late ticks are left out.
    """

    __slots__ = (
        "_due",
        "_fired",
        "_has_fired",
        "_is_renewed",
        "_number",
        "_relay",
        "_runs_for",
        "_sent",
        "_slot",
        "_stopped",
        "_stopping",
        "_ticker",
        "_timer",
        "pace",
        "skips",
    )

    def __init__(self, timer: TimerLike, pace: Pace, ticker: TickerState) -> None:
        require_timer("timer", timer)
        self.pace: Pace = pace
        self.skips: bool = pace.skips
        self._timer = timer
        self._ticker = weakref.ref(ticker)
        self._relay = _Relay(self._ticker)
        self._runs_for: Delay | None = None
        self._is_renewed = False
        self._number = 0  # of the tick it was started for last
        self._slot = 0.0  # when the clock would have it due
        self._due = 0.0
        self._sent: object = EMPTY
        self._has_fired = False
        self._fired = (0, 0.0)  # the number of the last tick it brought, and the time it sent
        self._stopping = False  # from the first step of stop() on
        self._stopped = False

    def due_after(self, slot: float, taken: float, delay: float) -> tuple[None, float | None, int]:
        """Fix no due time, and have the timer started once the tick before is taken."""
        _, origin, _ = self.pace.due_after(slot, taken, delay)
        ticker = self._ticker()
        if ticker is not None:
            ticker._write_note(self._caught_up if self.skips else _unchanged)
        return None, origin, 0

    def _caught_up(self, turn: Turn) -> Turn:
        ticker = self._ticker()
        return turn if ticker is None else with_due(turn, Pace.SKIP, ticker._monotonic())

    def awaits(self, turn: Turn) -> bool:
        """Whether only the timer can bring the tick of ``turn``; its news then wake the readers."""
        if self._has_fired or self._is_renewed or self._sent is not EMPTY:
            return False
        if self._runs_for is None or _delay_of(turn) != self._runs_for:
            return False
        channel = self._heard()
        return not channel._is_ready()

    def _heard(self) -> Channel[float]:
        """Return the timer's channel, with the relay in its line; in a forked child, anew."""
        relay = self._relay
        relay.generation = _process.generation
        channel = self._timer.c
        (receivers,) = channel._wait_sets()
        receivers.add(relay)
        if self._stopping:
            receivers.leave(relay)  # stop() may have done so before
        return channel

    def renew(self) -> None:
        """Take the next delay for another than the last, even if it looks the same."""
        self._is_renewed = True

    def after(self, turn: Turn, now: float) -> Turn:
        """Return ``turn`` as the timer leaves it: not due, due, or the last if the timer fails."""
        if self._stopping:
            return turn
        wanted = _delay_of(turn)
        if wanted is None:
            runs = self._runs_for is not None and not self._has_fired
            self._runs_for = None
            if runs:
                self.halt()
            return turn
        _, number, due, delay, origin, missed = turn
        try:
            is_later = due is not None and due > self._slot  # chosen instead by Pace.SKIP
            if self._is_renewed or is_later or wanted != self._runs_for:
                self._start(wanted, due, now)
            if not self._has_fired and not self._stopping:
                self._receive(now)
        except Exception as error:  # noqa: BLE001 - as of a policy: raised to the next reader
            return with_delay(turn, failed_with(error, "the timer", self._timer))
        return {}, number, self._due if self._has_fired else None, delay, origin, missed

    def _start(self, wanted: Delay, due: float | None, now: float) -> None:
        number, origin, delay, _ = wanted
        self._runs_for = None
        self._has_fired = False
        self._sent = EMPTY
        self._timer.c._drop_items()
        if due is None:
            due = origin + delay
        if self.skips or self.pace is Pace.BURST:
            delay = max(0.0, due - now)
        elif number == self._number:
            delay = max(0.0, delay - (now - origin))
        self._slot = due
        self._timer.start(delay)
        if self._stopping:  # by somebody who may have come before the start
            self.halt()
        self._number = number
        self._runs_for = wanted
        self._is_renewed = False

    def _receive(self, now: float) -> None:
        channel = self._heard()
        if self._sent is EMPTY:
            sent = channel._try(fresh=False)
            if sent is ENDED:
                raise RuntimeError(f"the channel of {self._timer!r} is closed")
            self._sent = sent
            if sent is EMPTY:
                return
        time = as_number("what the timer sent", self._sent, "a time in Unix seconds")
        self._due = min(self._slot, now)
        self._fired = (self._number, time)
        self._has_fired = True
        self._sent = EMPTY

    def stamped(self, tick: Tick) -> Tick:
        """Return ``tick`` with the time that the timer sent, if it brought the tick."""
        number, time = self._fired
        return tick if tick.number != number else tick._replace(time=time)

    def stop(self) -> None:
        """Stop the timer for good; what goes wrong is reported."""
        self._stopping = True
        if not self._stopped:
            self.halt()
            (receivers,) = self._timer.c._wait_sets()
            receivers.leave(self._relay)
            self._stopped = True

    def halt(self) -> None:
        """Stop the timer."""
        try:
            self._timer.stop()
        except Exception as error:  # noqa: BLE001 - whoever stops a ticker can do nothing about it
            report(error, "Exception in stop() of a ticker's timer", self._timer)


def _unchanged(turn: Turn) -> Turn:
    return turn


def _delay_of(turn: Turn) -> Delay | None:
    """Return what tells one delay from another; None: none is running.

    A forked child starts its delays again: its timers lost theirs.
    """
    _, number, _, delay, origin, _ = turn
    if not isinstance(delay, float) or origin is None or is_immediate(turn):
        return None
    return number, origin, delay, _process.generation

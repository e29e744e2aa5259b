"""A ticker whose delays are measured by a user's ``Timer`` instead of its clock.

While the timer runs, the pending tick has no due time; it falls due when the timer fires. Only the
asker changes anything here, except for ``stop()``. ``follow()`` is applied to each state that a
rule returns, so the timer is started exactly once for each delay that begins.
"""

from __future__ import annotations

from .. import _process
from .._sentinels import EMPTY, ENDED
from .._unraisable import report
from .._validation import as_number
from ..channels import require_timer
from ..policies import failed_with
from ..waiting import NO_DEADLINE
from ._tick import Pace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..channels import TimerLike
    from ._tick import PendingTick, Tick


class TickerTimer:
    """The timer of one ticker, whose readers wait for its channel, too.

    Attributes:
        _started: In which process, and for which tick; tick 0: it has to be started again.
        _slot: When that tick would be due by the clock.
        _fired: Once it has fired: the tick that this made due, when, and the time that it sent,
            stored without a call after that was taken, so that no interrupt loses it.
    """

    __slots__ = ("_fired", "_pace", "_slot", "_started", "_unstopped", "timer")

    def __init__(self, timer: TimerLike, pace: Pace) -> None:
        require_timer("timer", timer)
        self.timer = timer
        self._pace = pace
        self._started = 0, 0
        self._slot = 0.0
        self._fired: tuple[int, float, object] | None = None
        self._unstopped = {"timer": timer}  # empty from the beginning of stop()

    def may_change(self) -> bool:
        """Whether ``follow()`` has to look at it: it has fired, or the process has forked."""
        return self._started[0] != _process.generation or self.timer.c._buffer.is_ready()

    def drop_delay(self) -> None:
        """Stop the timer, and forget that it has fired: the next delay is a new one."""
        if self._started[1] and self._fired is None:
            self._halt()
        self._started = 0, 0
        self._fired = None

    def follow(self, pending: PendingTick, now: float) -> PendingTick:
        """Start or stop the timer as ``pending`` needs it; return ``pending`` with its due time."""
        if not self._unstopped:
            return pending
        if pending.is_immediate or pending.delay is None or pending.origin is None:
            self.drop_delay()
            return pending
        own_times = NO_DEADLINE, self._slot, None if self._fired is None else self._fired[1]
        started = _process.generation, pending.number
        try:
            if self._started != started or pending.due not in own_times:
                self._start(pending, now)
            if self._fired is None and self._unstopped:
                due = min(self._slot, now)
                sent = self.timer.c._take_nowait(fresh=False)
                if sent is ENDED:
                    raise RuntimeError(f"the channel of {self.timer!r} is closed")  # noqa: TRY301 - as what start() raises
                if sent is not EMPTY:
                    self._fired = pending.number, due, sent
            if self._fired is None:
                return pending.replace(due=NO_DEADLINE)
            as_number("what the timer sent", self._fired[2], "a time in Unix seconds")
        except Exception as error:  # as of a policy: raised to the next reader
            return pending.with_delay(failed_with(error, "the timer", self.timer))
        return pending.replace(due=self._fired[1])

    def _start(self, pending: PendingTick, now: float) -> None:
        delay: Any = pending.delay
        is_new = pending.number != self._started[1]
        self._started = 0, 0
        self._fired = None
        if pending.due is not None and pending.due != NO_DEADLINE:  # else in a forked child
            self._slot = pending.due
        self.timer.c._drop_items()
        if not is_new or self._pace is Pace.SKIP or self._pace is Pace.BURST:
            delay = max(0.0, self._slot - now)
        self.timer.start(delay)
        if not self._unstopped:  # a stop() elsewhere may have come before the start
            self._halt()
        self._started = _process.generation, pending.number

    def with_time_sent(self, tick: Tick) -> Tick:
        """Return ``tick`` with the time that the timer sent, if the timer made it due."""
        if self._fired is None or self._fired[0] != tick.number:
            return tick
        return tick._replace(time=as_number("what the timer sent", self._fired[2]))

    def stop(self) -> None:
        """Stop the timer for good, once; an error is reported, not raised."""
        try:
            del self._unstopped["timer"]
        except KeyError:
            return
        try:  # ATOMIC: no call before this: an interrupt would leave the timer running.
            self._halt()
        except BaseException:
            self._unstopped["timer"] = self.timer
            raise

    def _halt(self) -> None:
        try:
            self.timer.stop()
        except Exception as error:  # the caller of stop() cannot handle it
            report(error, "Exception in stop() of a ticker's timer", self.timer)

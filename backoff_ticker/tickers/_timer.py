"""A ticker whose delays are measured by a user's ``Timer`` instead of its clock.

While the timer measures the delay of a pending tick, that tick has no due time; it gets one when
the timer fires. Only the asker changes anything here, but for ``stop()``. ``follow()`` is applied
to each state that a rule returns, so the timer is started exactly once for each delay that begins.
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
from ._tick import Pace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..channels import TimerLike
    from ._pending_tick import PendingTick
    from ._tick import Tick

    Delay = tuple[int, float, float, int]


class TickerTimer(Waiter):
    """The timer of one ticker: in the line of the timer's channel it stands for all readers.

    Args:
        timer: The user's timer.
        pace: When delays start to run.
        wake_readers: Called when the timer has sent something; held weakly.

    Attributes:
        _measured: The delay for which the timer was started; None: it was not, or must be again.
        _number: The tick for which it was last started.
        _slot: When that tick would be due by the clock.
        _fired: Once it has fired: the tick that this made due, when, and the time that it sent.
            Stored without a call after the time was taken, so no interrupt loses it.
    """

    __slots__ = (
        "_fired",
        "_measured",
        "_must_restart",
        "_number",
        "_pace",
        "_slot",
        "_stopped",
        "_stopping",
        "_timer",
        "_wake_readers",
    )

    def __init__(self, timer: TimerLike, pace: Pace, wake_readers: Callable[[], None]) -> None:
        require_timer("timer", timer)
        super().__init__(sources=timer.c._wait_sets())
        self._timer = timer
        self._pace = pace
        self._wake_readers = weakref.WeakMethod(wake_readers)
        self._measured: Delay | None = None
        self._must_restart = False
        self._number = 0
        self._slot = 0.0
        self._fired: tuple[int, float, object] | None = None
        self._stopping = False  # True from the beginning of stop()
        self._stopped = False

    def wake(self) -> bool:
        """Wake the readers of the ticker."""
        wake_readers = self._wake_readers()
        if wake_readers is not None:
            wake_readers()
        return wake_readers is not None

    def awaits(self, pending: PendingTick) -> bool:
        """Whether readers have to wait for the timer; it wakes them."""
        if self._fired is not None or self._must_restart or self._measured is None:
            return False
        is_in_line = self.place is not None and self.place.line is not None
        is_measured = _delay_of(pending) == self._measured
        return is_in_line and is_measured and not self._timer.c._is_ready()

    def restart_next(self) -> None:
        """Start the timer for the next delay even if that equals the last one."""
        self._must_restart = True
        if self._fired is not None:
            self._fired = 0, 0.0, 0.0  # the number may be used again, for a tick without a delay

    def follow(self, pending: PendingTick, now: float) -> PendingTick:
        """Start or stop the timer as ``pending`` needs it.

        Returns:
            ``pending`` with a due time if the timer has fired for it, else without one; the end
            if the timer fails.
        """
        if self._stopping:
            return pending
        wanted = _delay_of(pending)
        if wanted is None:
            is_running = self._measured is not None and self._fired is None
            self._measured = None
            if is_running:
                self._halt()
            return pending
        is_later = pending.due is not None and pending.due > self._slot  # chosen by Pace.SKIP
        try:
            if self._must_restart or is_later or wanted != self._measured:
                self._start(pending, now)
                self._measured = wanted
                self._must_restart = False
            if self._fired is None and not self._stopping:
                self._receive(min(self._slot, now))
            if self._fired is None:
                return pending.replace(due=None)
            as_number("what the timer sent", self._fired[2], "a time in Unix seconds")
        except Exception as error:  # noqa: BLE001 - as of a policy: raised to the next reader
            return pending.with_delay(failed_with(error, "the timer", self._timer))
        return pending.replace(due=self._fired[1])

    def _start(self, pending: PendingTick, now: float) -> None:
        origin: Any = pending.origin  # a number: _delay_of() has looked
        delay: Any = pending.delay
        self._measured = self._fired = None
        self._timer.c._drop_items()
        self._slot = origin + delay if pending.due is None else pending.due
        if self._pace is Pace.SKIP or self._pace is Pace.BURST:
            delay = max(0.0, self._slot - now)
        elif pending.number == self._number:
            delay = max(0.0, delay - (now - origin))
        self._timer.start(delay)
        if self._stopping:  # a stop() elsewhere may have come before the start
            self._halt()
        self._number = pending.number

    def _receive(self, due: float) -> None:
        """Note what the timer has sent; else stand in line, also in a forked child."""
        self.generation = _process.generation
        self.register()
        if self._stopping:
            self.unregister()  # stop() may have done so before
        sent = self._timer.c._take_nowait(fresh=False)
        if sent is ENDED:
            raise RuntimeError(f"the channel of {self._timer!r} is closed")
        if sent is not EMPTY:
            self._fired = self._number, due, sent

    def with_time_sent(self, tick: Tick) -> Tick:
        """Return ``tick`` with the time that the timer sent, if the timer made it due."""
        fired = self._fired
        if fired is None or fired[0] != tick.number:
            return tick
        return tick._replace(time=as_number("what the timer sent", fired[2]))

    def stop(self) -> None:
        """Stop the timer for good; an error is reported, not raised."""
        self._stopping = True
        if not self._stopped:
            self._halt()
            self.unregister()
            self._stopped = True

    def _halt(self) -> None:
        try:
            self._timer.stop()
        except Exception as error:  # noqa: BLE001 - the caller of stop() cannot handle it
            report(error, "Exception in stop() of a ticker's timer", self._timer)


def _delay_of(pending: PendingTick) -> Delay | None:
    """Return a key that identifies the delay that is running; None: none is running.

    In a forked child the key differs, so the timer is started again: it lost its callback.
    """
    if pending.is_immediate or pending.delay is None or pending.origin is None:
        return None
    return pending.number, pending.origin, pending.delay, _process.generation

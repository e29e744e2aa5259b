"""A ticker whose delays are measured by a user's ``Timer`` instead of its clock.

While the timer measures the delay of a pending tick, that tick has no due time; it gets one when
the timer fires.

Invariants:
    * ``follow()`` is applied with the ticker's claim to each state that a rule returns, so the
      timer is started exactly once for each delay that begins to run.
    * What the timer sent is stored as it is taken, without a call between, so an interrupt loses
      no time it sent.
    * One waiter in the line of the timer's channel represents all readers of the ticker; it wakes
      them when it is woken.
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
from ._pending_tick import Kind
from ._tick import Pace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..channels import Channel, TimerLike
    from ._pending_tick import PendingTick
    from ._tick import Tick

    Delay = tuple[int, float, float, int]


class _ReadersWaiter(Waiter):
    """Wakes the readers of a ticker when the timer's channel wakes it."""

    __slots__ = ("_wake_readers",)

    def __init__(self, wake_readers: weakref.WeakMethod[Callable[[], None]]) -> None:
        super().__init__()
        self._wake_readers = wake_readers

    def wake(self) -> bool:
        wake_readers = self._wake_readers()
        if wake_readers is not None:
            wake_readers()
        return wake_readers is not None


class TickerTimer:
    """The timer of one ticker.

    Args:
        timer: The user's timer.
        pace: When delays start to run.
        wake_readers: Called when the timer has sent something; held weakly.
    """

    __slots__ = (
        "_due",
        "_fired",
        "_has_fired",
        "_measured",
        "_must_restart",
        "_number",
        "_pace",
        "_sent",
        "_slot",
        "_stopped",
        "_stopping",
        "_timer",
        "_waiter",
    )

    def __init__(self, timer: TimerLike, pace: Pace, wake_readers: Callable[[], None]) -> None:
        require_timer("timer", timer)
        self._pace = pace
        self._timer = timer
        self._waiter = _ReadersWaiter(weakref.WeakMethod(wake_readers))
        self._measured: Delay | None = None
        self._must_restart = False
        self._number = 0  # of the tick for which it was last started
        self._slot = 0.0  # when that tick would be due by the clock
        self._due = 0.0
        self._sent: object = EMPTY
        self._has_fired = False
        self._fired = (0, 0.0)  # the last tick that the timer made due, and the time it sent
        self._stopping = False  # True from the beginning of stop()
        self._stopped = False

    def awaits(self, pending: PendingTick) -> bool:
        """Whether readers have to wait for the timer; it wakes them."""
        if self._has_fired or self._must_restart or self._sent is not EMPTY:
            return False
        if self._measured is None or _delay_of(pending) != self._measured:
            return False
        return not self._watched_channel()._is_ready()

    def _watched_channel(self) -> Channel[float]:
        """Return the timer's channel, with the waiter in its line, also in a forked child."""
        waiter = self._waiter
        waiter.generation = _process.generation
        channel = self._timer.c
        if not waiter.sources:
            waiter.sources = channel._wait_sets()
        waiter.register()
        if self._stopping:
            waiter.unregister()  # stop() may have done so before
        return channel

    def restart_next(self) -> None:
        """Start the timer for the next delay even if that equals the last one."""
        self._must_restart = True
        self._fired = (0, 0.0)  # the number may be used again, for a tick without a delay

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
            is_running = self._measured is not None and not self._has_fired
            self._measured = None
            if is_running:
                self._halt()
            return pending
        due = pending.due
        try:
            is_later = due is not None and due > self._slot  # chosen by Pace.SKIP
            if self._must_restart or is_later or wanted != self._measured:
                self._start(pending, now)
                self._measured = wanted
                self._must_restart = False
            if not self._has_fired and not self._stopping:
                self._receive(now)
        except Exception as error:  # noqa: BLE001 - as of a policy: raised to the next reader
            return pending.with_delay(failed_with(error, "the timer", self._timer))
        return pending.replace(due=self._due if self._has_fired else None)

    def _start(self, pending: PendingTick, now: float) -> None:
        delay, due = pending.delay, pending.due
        origin: float = pending.origin  # type: ignore[assignment]  # _delay_of() has looked
        self._measured = None
        self._has_fired = False
        self._sent = EMPTY
        self._timer.c._drop_items()
        if due is None:
            due = origin + delay
        if self._pace is Pace.SKIP or self._pace is Pace.BURST:
            delay = max(0.0, due - now)
        elif pending.number == self._number:
            delay = max(0.0, delay - (now - origin))
        self._slot = due
        self._timer.start(delay)
        if self._stopping:  # a stop() elsewhere may have come before the start
            self._halt()
        self._number = pending.number

    def _receive(self, now: float) -> None:
        channel = self._watched_channel()
        if self._sent is EMPTY:
            sent = channel._take_nowait(fresh=False)
            if sent is ENDED:
                raise RuntimeError(f"the channel of {self._timer!r} is closed")
            self._sent = sent  # ATOMIC: no call between the take and this store
            if sent is EMPTY:
                return
        time = as_number("what the timer sent", self._sent, "a time in Unix seconds")
        self._due = min(self._slot, now)
        self._fired = (self._number, time)
        self._has_fired = True
        self._sent = EMPTY

    def with_time_sent(self, tick: Tick) -> Tick:
        """Return ``tick`` with the time that the timer sent, if the timer made it due."""
        number, time = self._fired
        return tick if tick.number != number else tick._replace(time=time)

    def stop(self) -> None:
        """Stop the timer for good; an error is reported, not raised."""
        self._stopping = True
        if not self._stopped:
            self._halt()
            self._waiter.unregister()
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
    if pending.kind is not Kind.SCHEDULED or pending.origin is None:
        return None
    return pending.number, pending.origin, pending.delay, _process.generation

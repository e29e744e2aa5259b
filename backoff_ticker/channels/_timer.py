"""``Timer``: a callback of a clock that sends the time on a channel."""

from __future__ import annotations

import weakref

from .._errors import ChannelClosed
from .._process import ProcessBound
from .._sentinels import ENDED
from .._validation import as_seconds, safe_repr, whole_repr
from ..clock import later
from ..waiting import FREED, NO_DEADLINE, acquire, carry_out, check_stack
from ._buffer import Unbounded
from ._channel import Channel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Any, Self, TypeGuard

    from .._sentinels import Closed
    from ..clock import Clock, TimerHandle
    from ._protocol import TimerLike


def is_timer(value: object) -> TypeGuard[TimerLike]:
    fits = isinstance(getattr(value, "c", None), Channel) and not isinstance(value, type)
    return fits and all(callable(getattr(value, name, None)) for name in ("start", "stop"))


def require_timer(name: str, value: object) -> None:
    if not is_timer(value):
        wanted = "the methods start(delay) and stop() and a Channel c"
        raise TypeError(f"{name} must have {wanted}, not be {safe_repr(value)}")


class _Start:
    """One call of ``Timer.start()``; once it has fired, it is an item of the timer's channel."""

    __slots__ = ("_channel", "handle", "time")

    def __init__(self, channel: Channel[Any]) -> None:
        self._channel = weakref.ref(channel)  # so that an unused timer is collected at once
        self.handle: TimerHandle | None = None  # until the end of Timer.start()
        self.time: float | None = None  # when it fired: wall clock, in Unix seconds

    def fire(self) -> None:
        channel: Any = self._channel()
        if channel is not None and channel._buffer.replace(self, self, channel.clock.time()):
            try:
                channel.send(self)
            except ChannelClosed:
                pass  # the user has closed it


class _TimerBuffer(Unbounded):
    """Gives the time of the current start only; drops those of starts that are over."""

    __slots__ = ("current",)

    def __init__(self) -> None:
        super().__init__()
        self.quick = ()
        self.current: Any = None  # a start; before the first one None, when stopped ENDED

    @property
    def is_timed(self) -> bool:
        current = self.current
        return current.__class__ is _Start and current.time is None

    def replace(self, before: object, after: Any, time: float | None = None) -> bool:
        """Make ``after`` the current start, which has fired at ``time``, if that is ``before``."""
        claim = self.claim
        acquire(claim)
        try:
            is_current = self.current is before
            if is_current:
                self.current = after
                if time is not None:
                    after.time = time
            return is_current
        finally:
            claim += FREED

    def take(self) -> Any:
        while True:
            item = super().take()
            if item.__class__ is not _Start:
                return item
            if item is self.current:
                return item.time

    def put_back(self, item: object) -> None:
        start = self.current
        if start.__class__ is _Start and start.time is item:
            super().put_back(start)


class Timer(ProcessBound):
    """Sends the time on its channel ``c``, once, when a delay is over; it can be started again.

    ``select`` takes a timer or its ``c``; tickers and retries take it as ``timer=``. Each time can
    be received once, and no more after ``stop()`` or the next ``start()``.

    Args:
        clock: Measures the delays. None means the current clock.

    Thread safety: all methods in any thread; ``stop()`` also in signal handlers and finalizers.

    Example:
        >>> from backoff_ticker import Timer
        >>> timer = Timer()
        >>> timer.start(0.001)
        >>> isinstance(timer.c.receive(), float)
        True
    """

    __slots__ = ("__weakref__", "_buffer", "_c", "_clock")

    _selected: tuple[Self, float | Closed]  # for type checkers: what select() returns

    _kind = "a timer"

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._c: Channel[float] = Channel(NO_DEADLINE, clock=clock)
        self._c._buffer = self._buffer = _TimerBuffer()
        self._c._timing_clock = self._clock = self._c.clock

    @property
    def c(self) -> Channel[float]:
        """The channel on which the timer sends the time when it fires, in Unix seconds."""
        return self._c

    def start(self, delay: float | timedelta) -> None:
        """Fire in ``delay`` seconds, or after a timedelta, instead of as an earlier start says.

        Raises:
            TypeError, ValueError: ``delay`` is not a finite duration >= 0.
            RuntimeError: The scheduler thread cannot be started.
        """
        check_stack()
        seconds = as_seconds("delay", delay)
        start = _Start(self._c)
        while not self._buffer.replace(ENDED, start):
            self.stop()
        try:
            start.handle = self._clock.call_at(later(self._clock.monotonic(), seconds), start.fire)
        except BaseException:
            self._buffer.replace(start, ENDED)  # it will not fire
            raise
        if self._buffer.current is not start:
            start.handle.cancel()  # start() or stop() elsewhere found no handle to cancel

    def stop(self) -> bool:
        """Do not fire; drop a time not received yet. True if it was running. It never blocks."""
        return carry_out(self._stop, self._buffer.current)

    def _stop(self, start: Any) -> bool:
        was_current = self._buffer.replace(start, ENDED)
        if start.__class__ is not _Start:
            return False
        if start.handle is not None:
            start.handle.cancel()
        try:
            self._buffer.items.remove(start)
        except (ValueError, IndexError):  # the latter if another item comes meanwhile
            pass  # it has not fired, or its time was received
        return was_current and start.time is None

    def __repr__(self) -> str:
        start = self._buffer.current
        state = "not started" if start is None else "stopped"
        if start.__class__ is _Start:
            state = "running" if start.time is None else "fired"
        return f"<Timer {state}, clock={whole_repr(self._clock)}>"

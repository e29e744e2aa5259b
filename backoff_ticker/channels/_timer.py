"""``Timer``: a callback of a clock that sends the time on a channel."""

from __future__ import annotations

import weakref

from .._errors import ChannelClosed
from .._process import ProcessBound
from .._validation import as_seconds, safe_repr, whole_repr
from ..clock import resolve_clock
from ..waiting import FREE, acquire, complete
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
    """Whether ``value`` has what a timer needs: ``start``, ``stop`` and a channel ``c``."""
    methods = callable(getattr(value, "start", None)) and callable(getattr(value, "stop", None))
    fits = methods and isinstance(getattr(value, "c", None), Channel)
    return fits and not isinstance(value, type)


def require_timer(name: str, value: object) -> None:
    """Raise a TypeError that names the parameter unless ``value`` is a timer."""
    if not is_timer(value):
        raise TypeError(
            f"{name} must have the methods start(delay) and stop() and a Channel c, "
            f"not be {safe_repr(value)}"
        )


class _Start:
    """One call of ``Timer.start()``; once it has fired, it is an item of the timer's buffer.

    It holds the buffer weakly, so that a timer without references is collected at once.

    Attributes:
        handle: The callback of the clock.
        is_over: Whether it was stopped, so that its time is not received any more.
        time: When it fired: wall clock, in Unix seconds.
    """

    __slots__ = ("_buffer", "_clock", "handle", "is_over", "time")

    def __init__(self, buffer: _TimerBuffer, clock: Clock) -> None:
        self._buffer = weakref.ref(buffer)
        self._clock = clock
        self.handle: TimerHandle | None = None
        self.is_over = False
        self.time: float | None = None

    def fire(self) -> None:
        buffer = self._buffer()
        if buffer is not None and buffer.note_time(self, self._clock.time()):
            try:
                buffer.put(self)
            except ChannelClosed:
                pass  # the user has closed it


class _TimerBuffer(Unbounded):
    """Gives the time of the current start only; drops those of starts that are over."""

    __slots__ = ("__weakref__", "current")

    def __init__(self) -> None:
        super().__init__()
        self.is_plain = False
        self.current: _Start | None = None

    def replace(self, start: _Start) -> _Start | None:
        """Make ``start`` the current one; return the one before."""
        claim = self.claim
        acquire(claim)
        try:
            replaced, self.current = self.current, start
            return replaced
        finally:
            claim[FREE] = True

    def note_time(self, start: _Start, time: float) -> bool:
        """Note that ``start`` fires; False if it must not, as it is over or not the current one."""
        claim = self.claim
        acquire(claim)
        try:
            if self.current is not start or start.is_over:
                return False
            start.time = time
            return True
        finally:
            claim[FREE] = True

    def end(self, start: _Start) -> bool:
        """Note that ``start`` is over; True if this prevents it from firing."""
        claim = self.claim
        acquire(claim)
        try:
            if start.is_over:
                return False
            start.is_over = True
            return start.time is None
        finally:
            claim[FREE] = True

    def take(self) -> Any:  # noqa: ANN401 - as in the buffer
        while True:
            item = super().take()
            if item.__class__ is not _Start:
                return item
            if item is self.current and not item.is_over:
                return item.time

    def put_back(self, item: object) -> None:
        start = self.current
        if start is not None and start.time is item and not start.is_over:
            super().put_back(start)


class Timer(ProcessBound):
    """Sends the time on its channel ``c``, once, when a delay is over; it can be started again.

    ``select`` takes a timer or its ``c``. Each time can be received once, and no more after
    ``stop()`` or the next ``start()``. Tickers and retries take it as ``timer=``.

    Args:
        clock: Measures the delays. None means the current clock.

    Thread safety: every method may be called in any thread; ``stop()`` also in signal handlers,
    finalizers and callbacks.

    Example:
        >>> from backoff_ticker import Timer
        >>> timer = Timer()
        >>> timer.start(0.001)
        >>> isinstance(timer.c.receive(), float)
        True
        >>> timer.start(60)
        >>> timer.stop()
        True
    """

    if TYPE_CHECKING:

        def _selected(self) -> tuple[Self, float | Closed]: ...

    __slots__ = ("__weakref__", "_buffer", "_c", "_clock")

    _kind = "a timer"

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = resolve_clock(clock)
        self._buffer = _TimerBuffer()
        self._c: Channel[float] = Channel._of_timer(self._buffer, self._clock)

    @property
    def c(self) -> Channel[float]:
        """The channel on which the timer sends the time when it fires, in Unix seconds."""
        return self._c

    def start(self, delay: float | timedelta) -> None:
        """Fire in ``delay`` seconds, instead of at the time of an earlier start.

        Args:
            delay: Seconds >= 0 or a timedelta.

        Raises:
            TypeError, ValueError: ``delay`` is not a finite duration >= 0.
            RuntimeError: The scheduler thread cannot be started.
        """
        seconds = as_seconds("delay", delay)
        self.stop()
        buffer = self._buffer
        start = _Start(buffer, self._clock)
        replaced = buffer.replace(start)
        if replaced is not None and replaced.handle is not None:
            replaced.handle.cancel()
        start.handle = self._clock.call_at(self._clock.monotonic() + seconds, start.fire)
        if start.is_over or buffer.current is not start:
            start.handle.cancel()  # start() or stop() elsewhere found no handle to cancel

    def stop(self) -> bool:
        """Do not fire, and drop a time that was not received yet. It never blocks.

        Returns:
            True if this prevented the timer from firing; False if it had fired or was not started.
        """
        return complete(self._stop)

    def _stop(self) -> bool:
        start = self._buffer.current
        if start is None:
            return False
        prevented = self._buffer.end(start)
        if start.handle is not None:
            start.handle.cancel()
        try:
            self._buffer.items.remove(start)
        except (ValueError, IndexError):  # the latter if another item comes meanwhile
            pass  # it has not fired, or its time was received
        return prevented

    def __repr__(self) -> str:
        start = self._buffer.current
        if start is None:
            state = "not started"
        elif start.is_over:
            state = "stopped"
        else:
            state = "running" if start.time is None else "fired"
        return f"<Timer {state}, clock={whole_repr(self._clock)}>"

"""Timers: a callback of the clock that sends the time on a channel."""

from __future__ import annotations

import weakref
from itertools import repeat

from .._errors import ChannelClosed
from .._process import ProcessBound
from .._validation import as_seconds, safe_repr
from ..clock import resolve_clock
from ..waiting import NO_DEADLINE
from ._channel import Channel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Any, TypeGuard

    from ..clock import Clock, TimerHandle
    from ._protocol import TimerLike


def is_timer(value: object) -> TypeGuard[TimerLike]:
    """Whether ``value`` has what is wanted of a timer: ``start``, ``stop`` and a channel ``c``."""
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
    """One start of a timer; its fire counts until the next start or stop.

    It holds the channel weakly: a timer that nobody holds any more is collected at once.
    """

    __slots__ = ("_c", "_clock", "_undecided", "handle")

    def __init__(self, clock: Clock, c: _Fires) -> None:
        self._clock = clock
        self._c = weakref.ref(c)
        self._undecided = repeat(None, 1)
        self.handle: TimerHandle | None = None

    def decide(self) -> bool:
        """Whether this is what decides that it fires, or does not: true once."""
        for _ in self._undecided:
            return True
        return False

    def fire(self) -> None:
        c = self._c()
        if c is not None and c.current is self and self.decide():
            try:
                c.send_nowait((self, self._clock.time()))  # type: ignore[arg-type]
            except ChannelClosed:
                pass  # whoever closed it wants no times


class _Fires(Channel[float]):
    """The channel of a timer: what was sent for another start than the last is dropped unseen.

    It has room for such, so that no fire ever finds it full.
    """

    __slots__ = ("_taken", "current")

    def __init__(self, clock: Clock) -> None:
        super().__init__(NO_DEADLINE, clock=clock)
        self.current: _Start | None = None
        self._taken: tuple[object, object] = (None, None)  # what was received last
        self._taking = iter(())

    @property
    def _timed_by(self) -> Clock:
        return self._clock

    def _take(self) -> Any:  # noqa: ANN401 - as in the buffer
        while True:
            sent: Any = super()._take()
            if sent.__class__ is not tuple:
                return sent
            start, time = sent
            if start is self.current:
                self._taken = sent
                return time

    def _put_back(self, item: object) -> None:
        start, time = self._taken
        if time is item and start is self.current:
            super()._put_back(self._taken)

    def drop(self, start: _Start | None) -> None:
        """Have a start over, unless another has come since, and forget what was sent for it."""
        if self.current is start:
            self.current = None
        self._take()


class Timer(ProcessBound):
    """Sends the time on its channel ``c``, once, some time after it was started.

    A time can be received once, and no stale one: neither after ``stop()`` nor after the next
    ``start()``. ``select`` takes a timer or its ``c``.

    Args:
        clock: Measures the delays; None: the current clock.

    Thread safety: every method, from any thread; ``stop()`` also from signal handlers, finalizers
    and callbacks.
    """

    __slots__ = ("__weakref__", "_c", "_clock")

    _kind = "a timer"

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = resolve_clock(clock)
        self._c = _Fires(self._clock)

    @property
    def c(self) -> Channel[float]:
        """Receives the time it fires: wall clock, in Unix seconds."""
        return self._c

    def start(self, delay: float | timedelta) -> None:
        """Fire in ``delay`` seconds >= 0, or a timedelta; an earlier start is over.

        Raises:
            TypeError, ValueError: ``delay`` is not a finite duration of at least 0.
            RuntimeError: The scheduler thread cannot be started.
        """
        seconds = as_seconds("delay", delay)
        self.stop()
        fires = self._c
        start = _Start(self._clock, fires)
        before, fires.current = fires.current, start  # one step: it has no call
        if before is not None and before.handle is not None:
            before.handle.cancel()  # of another start, that came since the stop
        start.handle = self._clock.call_at(self._clock.monotonic() + seconds, start.fire)
        if fires.current is not start:
            start.handle.cancel()  # by a stop, or another start, that came meanwhile

    def stop(self) -> bool:
        """Do not fire; a time that was not received yet is dropped. Never blocks.

        Returns:
            True if this is what prevented it from firing; False if it had fired, or was not
            started.
        """
        start = self._c.current
        if start is None:
            return False
        # To drop it comes last: interrupted before, it is still there to be dropped.
        prevented = start.decide()
        if start.handle is not None:
            start.handle.cancel()
        self._c.drop(start)
        return prevented

    def __repr__(self) -> str:
        return f"<Timer of {self._clock!r}>"

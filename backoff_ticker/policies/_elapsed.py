"""Which clock a policy reads, the time that has passed on it, and whether that is too much."""

from __future__ import annotations

from .._validation import as_seconds
from ..clock import resolve_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta

    from ..clock import Clock

_HALF_A_NANOSECOND = 5e-10


class OnClock:
    """Reads the clock chosen for it, or that of who runs it, or the current one."""

    if not TYPE_CHECKING:  # the slots are those of the classes that this is mixed into
        __slots__ = ()

    _clock: Clock | None

    def _choose_clock(self, clock: Clock | None) -> None:
        self._clock = None if clock is None else resolve_clock(clock)

    def _bind_clock(self, clock: Clock) -> None:
        """Read ``clock``, that of who runs the policy, if none was chosen."""
        if self._clock is None:
            self._clock = clock


class ElapsedTime(OnClock):
    """Measures the time since construction or ``reset()``, up to a limit."""

    if not TYPE_CHECKING:
        __slots__ = ()

    _start: float
    max_elapsed_time: float | None

    def _set_elapsed_time(self, limit: float | timedelta | None, clock: Clock | None) -> None:
        """Check both, and begin to measure."""
        seconds = as_seconds("max_elapsed_time", 0.0 if limit is None else limit)
        self.max_elapsed_time = seconds or None
        self._choose_clock(clock)
        self._restart()

    def _restart(self) -> None:
        self._start = resolve_clock(self._clock).monotonic()

    @property
    def elapsed_time(self) -> float:
        """Seconds since construction or the last ``reset()``."""
        return resolve_clock(self._clock).monotonic() - self._start


def too_late(elapsed: float, delay: float, limit: float) -> bool:
    """Whether a delay that begins after ``elapsed`` would end after ``limit``; equality is not.

    A sum of floats can miss an equal limit by its rounding, so half a nanosecond is let pass.
    """
    return delay > limit or elapsed + delay > limit + _HALF_A_NANOSECOND

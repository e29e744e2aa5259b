"""The common policies: constant, and exponential as in Go, Google's Java client, Cloud Storage."""

from __future__ import annotations

from math import inf

from .._random import as_rng, draw_from
from .._sentinels import STOP, Stop
from .._validation import LARGEST, as_factor, as_flag, as_fraction, as_seconds
from ._base import (
    Bounds,
    Calls,
    CountsCalls,
    MeasuresTime,
    Policy,
    as_cap,
    capped,
    geometric,
    is_too_late,
    limited,
)
from ._copying import IMMUTABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from random import Random

    from ._protocol import MonotonicTime


class _Stateless(Policy):
    """What policies without state share: each call is like the others."""

    __slots__ = ()

    def reset(self) -> None:
        """Do nothing, because there is no state."""

    def _span(self, first: int, last: int) -> Bounds | None:
        delay = self.next_backoff()
        return None if isinstance(delay, Stop) else (delay, delay)

    def _calls(self) -> Calls:
        return inf, inf

    def _skip(self, calls: int) -> int:
        return calls


class ConstantBackOff(_Stateless):
    """Waits the same time before each attempt, without end.

    It is immutable, so every user shares the one object.

    Source: ``ConstantBackOff`` of cenkalti/backoff v4.

    Args:
        interval: The delay: seconds >= 0 or a timedelta.

    Example:
        >>> from backoff_ticker import ConstantBackOff
        >>> ConstantBackOff(2).next_backoff()
        2.0
    """

    __slots__ = ("_interval",)

    def __init__(self, interval: float | timedelta) -> None:
        self._interval = as_seconds("interval", interval)

    @property
    def interval(self) -> float:
        """The delay, in seconds."""
        return self._interval

    def next_backoff(self) -> float:
        """Return the interval."""
        return self._interval

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._interval!r})"


class ZeroBackOff(_Stateless):
    """Tries again at once, without end.

    Source: ``ZeroBackOff`` of cenkalti/backoff v4, ``ZERO_BACKOFF`` of Google's Java client.

    Example:
        >>> from backoff_ticker import ZeroBackOff
        >>> ZeroBackOff().next_backoff()
        0.0
    """

    __slots__ = ()

    def next_backoff(self) -> float:
        """Return 0.0."""
        return 0.0


class StopBackOff(_Stateless):
    """Never tries again.

    Source: ``StopBackOff`` of cenkalti/backoff v4, ``STOP_BACKOFF`` of Google's Java client.

    Example:
        >>> from backoff_ticker import StopBackOff
        >>> StopBackOff().next_backoff()
        STOP
    """

    __slots__ = ()

    def next_backoff(self) -> Stop:
        """Return ``STOP``."""
        return STOP

    def _calls(self) -> Calls:
        return 0, 0

    def _skip(self, calls: int) -> int:
        return 0


IMMUTABLE.update((ConstantBackOff, ZeroBackOff, StopBackOff))


class ExponentialBackOff(MeasuresTime, Policy):
    """Waits longer each time, up to a maximum, with jitter; gives up after 15 minutes.

    This is the default policy of ``retry``. Call number ``n`` (from 0) draws a delay uniformly from
    ``interval * (1 - randomization_factor)`` to ``interval * (1 + randomization_factor)``, where
    ``interval`` is ``min(initial_interval * multiplier**n, max_interval)``. ``max_interval`` caps
    the interval and not the delay, which can be greater by the ``randomization_factor``.

    Source: ``ExponentialBackOff`` of Google's HTTP Client Library for Java (formula, defaults,
    validation) and of cenkalti/backoff v4 (``look_ahead``).

    Args:
        initial_interval: The first interval: seconds > 0 or a timedelta.
        randomization_factor: The jitter, as a share of the interval: a number >= 0 and < 1. With 0
            nothing is drawn.
        multiplier: The factor by which the interval grows: a number >= 1.
        max_interval: The greatest interval: seconds >= ``initial_interval`` or a timedelta. None or
            ``math.inf`` means no cap.
        max_elapsed_time: The policy gives up after this time since it was made or reset: seconds
            >= 0 or a timedelta. None or 0 means never.
        look_ahead: When ``max_elapsed_time`` ends the run. True, as in Go: before a delay that
            would end after the limit. False, as in Java: once the limit has passed. A time equal
            to the limit is within it. With True the interval grows even when the policy returns
            ``STOP``.
        rng: A ``random.Random`` to draw from; copies of the policy share it. None means a
            generator of the package, which ``random.seed()`` does not affect and which is seeded
            again in a forked child.
        clock: Its ``monotonic()`` measures the elapsed time. None means the clock of the ticker or
            retry that uses the policy, or else the current clock.

    Example:
        >>> from backoff_ticker import ExponentialBackOff
        >>> policy = ExponentialBackOff(randomization_factor=0)
        >>> [policy.next_backoff() for _ in range(4)]
        [0.5, 0.75, 1.125, 1.6875]
    """

    __slots__ = (
        "_clock",
        "_interval",
        "_rng",
        "_start",
        "_step",
        "initial_interval",
        "look_ahead",
        "max_elapsed_time",
        "max_interval",
        "multiplier",
        "randomization_factor",
    )

    def __init__(
        self,
        initial_interval: float | timedelta = 0.5,
        randomization_factor: float = 0.5,
        multiplier: float = 1.5,
        max_interval: float | timedelta | None = 60.0,
        max_elapsed_time: float | timedelta | None = 900.0,
        look_ahead: bool = True,  # noqa: FBT002 - positional in the published signature
        rng: Random | None = None,
        clock: MonotonicTime | None = None,
    ) -> None:
        self.initial_interval: float = as_seconds("initial_interval", initial_interval)
        self.randomization_factor: float = as_fraction("randomization_factor", randomization_factor)
        self.multiplier: float = as_factor("multiplier", multiplier, 1)
        self.max_interval: float | None = as_cap("max_interval", max_interval)
        if self.initial_interval == 0.0:
            raise ValueError(f"initial_interval must be > 0, not {initial_interval!r}")
        if self.max_interval is not None and self.max_interval < self.initial_interval:
            raise ValueError(
                f"max_interval must be >= initial_interval ({initial_interval!r}), "
                f"not {max_interval!r}"
            )
        self.look_ahead: bool = as_flag("look_ahead", look_ahead)
        self._rng = as_rng("rng", rng)
        self._step = 0
        self._interval = self.initial_interval
        self._measure(max_elapsed_time, clock)

    @property
    def current_interval(self) -> float:
        """The interval around which the next delay is drawn, in seconds."""
        return self._interval

    def next_backoff(self) -> float | Stop:
        """Return the next delay in seconds, or ``STOP`` at the limit of elapsed time."""
        interval = self._interval
        limit = self.max_elapsed_time
        elapsed = 0.0 if limit is None else self.elapsed_time
        if limit is not None and not self.look_ahead and is_too_late(elapsed, 0.0, limit):
            return STOP
        spread = interval * self.randomization_factor
        delay = interval
        if spread:
            delay = min(interval + spread * (2.0 * draw_from(self._rng) - 1.0), LARGEST)
        if interval < LARGEST and interval != self.max_interval:
            self._step += 1
            self._interval = self._interval_at(self._step)
        if limit is not None and self.look_ahead and is_too_late(elapsed, delay, limit):
            return STOP
        return delay

    def reset(self) -> None:
        """Start again with the first interval, and measure elapsed time from now."""
        self._step = 0
        self._interval = self.initial_interval
        self._start = self._now()

    def _interval_at(self, step: int) -> float:
        return capped(geometric(self.initial_interval, self.multiplier, step), self.max_interval)

    def _span(self, first: int, last: int) -> Bounds | None:
        shortest, longest = self._interval_at(first - 1), self._interval_at(last - 1)
        least = shortest - shortest * self.randomization_factor
        greatest = min(longest + longest * self.randomization_factor, LARGEST)
        return limited((least, greatest), self.max_elapsed_time if self.look_ahead else None)

    def _calls(self) -> Calls:
        return (inf if self.max_elapsed_time is None else 0), inf

    def _skip(self, calls: int) -> int | None:
        if self.max_elapsed_time is not None:
            return None
        self._step += calls
        self._interval = self._interval_at(self._step)
        return calls


class TruncatedExponentialBackOff(CountsCalls):
    """Waits 1 s, 2 s, 4 s, ... plus a short random time, and at most a maximum; without end.

    Call number ``n`` (from 0) returns ``min(initial_backoff * multiplier**n + random,
    maximum_backoff)``, where ``random`` is drawn uniformly from 0 to ``max_jitter``. The cap
    includes the random part, so delays are exactly ``maximum_backoff`` once the rest has reached
    it. To limit the run, put ``with_max_retries`` or ``with_max_elapsed_time`` around the policy.

    Source: "Exponential backoff" in the documentation of Google Cloud Storage, which names 32 or
    64 s as typical maxima and draws up to 1,000 ms.

    Args:
        maximum_backoff: The greatest delay: seconds >= 0 or a timedelta. None or ``math.inf`` means
            no cap.
        max_jitter: The greatest random part: seconds >= 0 or a timedelta. With 0 nothing is drawn.
        rng: As in ``ExponentialBackOff``.
        initial_backoff: The first delay without its random part: seconds >= 0 or a timedelta.
        multiplier: The factor by which delays grow: a number >= 1.

    Attributes:
        retries: The number of delays returned since ``reset()``.

    Example:
        >>> from backoff_ticker import TruncatedExponentialBackOff
        >>> policy = TruncatedExponentialBackOff(maximum_backoff=10, max_jitter=0)
        >>> [policy.next_backoff() for _ in range(5)]
        [1.0, 2.0, 4.0, 8.0, 10.0]
    """

    __slots__ = ("_rng", "initial_backoff", "max_jitter", "maximum_backoff", "multiplier")

    def __init__(
        self,
        maximum_backoff: float | timedelta | None = 64.0,
        max_jitter: float | timedelta = 1.0,
        rng: Random | None = None,
        *,
        initial_backoff: float | timedelta = 1.0,
        multiplier: float = 2.0,
    ) -> None:
        self.maximum_backoff: float | None = as_cap("maximum_backoff", maximum_backoff)
        self.max_jitter: float = as_seconds("max_jitter", max_jitter)
        self.initial_backoff: float = as_seconds("initial_backoff", initial_backoff)
        self.multiplier: float = as_factor("multiplier", multiplier, 1)
        super().__init__()
        self._rng = as_rng("rng", rng)

    def next_backoff(self) -> float:
        """Return the next delay in seconds."""
        plain = self._plain(self._count())
        random = self.max_jitter * draw_from(self._rng) if self.max_jitter else 0.0
        return capped(plain + random, self.maximum_backoff)

    def _plain(self, retries: int) -> float:
        return geometric(self.initial_backoff, self.multiplier, retries)

    def _span(self, first: int, last: int) -> Bounds:
        most = self.maximum_backoff
        greatest = self._plain(last - 1) + self.max_jitter
        return capped(self._plain(first - 1), most), capped(greatest, most)

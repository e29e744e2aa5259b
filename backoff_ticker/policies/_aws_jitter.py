"""Exponential back-off with the three jitters of the AWS Architecture Blog."""

from __future__ import annotations

from .._random import as_rng, draw_from
from .._validation import LARGEST, as_factor, as_seconds
from ._base import Bounds, CountsCalls, as_cap, capped, geometric

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from random import Random

_REMEMBERED_DELAYS = 1000
"""How many delays before make a difference to one that is drawn up to a multiple of the previous
one. With any cap that is used, the distribution has stopped changing long before."""


class _CappedGrowth(CountsCalls):
    """What the three policies share: a limit that grows from a base to a cap."""

    __slots__ = ("_rng", "base", "cap", "multiplier")

    def __init__(
        self,
        base: float | timedelta,
        cap: float | timedelta | None,
        rng: Random | None = None,
        *,
        multiplier: float = 2.0,
    ) -> None:
        self.base: float = as_seconds("base", base)
        self.cap: float | None = as_cap("cap", cap)
        if self.cap is not None and self.cap < self.base:
            raise ValueError(f"cap must be >= base ({base!r}), not {cap!r}")
        self.multiplier: float = as_factor("multiplier", multiplier, 1)
        super().__init__()
        self._rng = as_rng("rng", rng)

    def _limit(self, steps: int) -> float:
        """Return ``min(cap, base * multiplier**steps)``."""
        return capped(geometric(self.base, self.multiplier, steps), self.cap)


class FullJitterBackOff(_CappedGrowth):
    """Waits a random time from 0 to a limit that doubles each time; without end.

    Use it where many clients may retry at once: it spreads their calls. Call number ``n`` (from 0)
    draws uniformly from 0 to ``min(cap, base * multiplier**n)``.

    Source: "Exponential Backoff And Jitter", AWS Architecture Blog, "Full Jitter"; ``n`` from 0 as
    in its formula. The simulator published with it counts failures from 1: its base 5 is 10 here.

    Args:
        base: The first limit: seconds >= 0 or a timedelta.
        cap: The greatest limit: seconds >= ``base`` or a timedelta. None or ``math.inf`` means no
            cap.
        rng: As in ``ExponentialBackOff``.
        multiplier: The factor by which the limit grows: a number >= 1.

    Attributes:
        retries: The number of delays returned since ``reset()``.

    Example:
        >>> from backoff_ticker import FullJitterBackOff
        >>> FullJitterBackOff(1, 20).bounds(3)
        (0.0, 4.0)
    """

    __slots__ = ()

    def next_backoff(self) -> float:
        """Return the next delay in seconds."""
        return self._limit(self._count()) * draw_from(self._rng)

    def _span(self, first: int, last: int) -> Bounds:
        return 0.0, self._limit(last - 1)


class EqualJitterBackOff(_CappedGrowth):
    """Waits a random time in the upper half of a limit that doubles each time; without end.

    Use it instead of ``FullJitterBackOff`` where very short delays would do harm. Call number ``n``
    (from 0) draws uniformly from ``v / 2`` to ``v``, where ``v = min(cap, base * multiplier**n)``.

    Source: "Exponential Backoff And Jitter", AWS Architecture Blog, "Equal Jitter"; ``n`` from 0.

    Args:
        base: The first limit: seconds >= 0 or a timedelta.
        cap: The greatest limit: seconds >= ``base`` or a timedelta. None or ``math.inf`` means no
            cap.
        rng: As in ``ExponentialBackOff``.
        multiplier: The factor by which the limit grows: a number >= 1.

    Attributes:
        retries: The number of delays returned since ``reset()``.

    Example:
        >>> from backoff_ticker import EqualJitterBackOff
        >>> EqualJitterBackOff(1, 20).bounds(3)
        (2.0, 4.0)
    """

    __slots__ = ()

    def next_backoff(self) -> float:
        """Return the next delay in seconds."""
        half = self._limit(self._count()) / 2.0
        return half + half * draw_from(self._rng)

    def _span(self, first: int, last: int) -> Bounds:
        half = self._limit(last - 1) / 2.0
        return self._limit(first - 1) / 2.0, half + half


class DecorrelatedJitterBackOff(_CappedGrowth):
    """Waits a random time from a base to three times the previous delay; without end.

    Each call draws uniformly from ``base`` to the previous delay (at first: ``base``) times
    ``multiplier``, and returns that, or ``cap`` if it is less.

    Source: "Exponential Backoff And Jitter", AWS Architecture Blog, "Decorrelated Jitter".

    Args:
        base: The least delay: seconds >= 0 or a timedelta.
        cap: The greatest delay: seconds >= ``base`` or a timedelta. None or ``math.inf`` means no
            cap.
        rng: As in ``ExponentialBackOff``.
        multiplier: The factor of the previous delay: a number >= 1.

    Attributes:
        retries: The number of delays returned since ``reset()``.
        last_delay: The previous delay; ``base`` before the first.

    Example:
        >>> from backoff_ticker import DecorrelatedJitterBackOff
        >>> DecorrelatedJitterBackOff(1, 20).bounds(2)
        (1.0, 9.0)
    """

    __slots__ = ("last_delay",)

    def __init__(
        self,
        base: float | timedelta,
        cap: float | timedelta | None,
        rng: Random | None = None,
        *,
        multiplier: float = 3.0,
    ) -> None:
        super().__init__(base, cap, rng, multiplier=multiplier)
        self.last_delay: float = self.base

    def next_backoff(self) -> float:
        """Return the next delay in seconds."""
        steps = self._count() + 1
        spread = min(self.multiplier * self.last_delay, LARGEST) - self.base
        drawn = self.base + spread * draw_from(self._rng)
        # As in bounds(), the limit comes from the formula, without the rounding of each step.
        self.last_delay = min(drawn, self._limit(steps))
        return self.last_delay

    def reset(self) -> None:
        """Start again from the base."""
        super().reset()
        self.last_delay = self.base

    def _span(self, first: int, last: int) -> Bounds:
        return self.base, self._limit(last)

    def _skip(self, calls: int) -> int:
        for _ in range(min(calls, _REMEMBERED_DELAYS)):
            self.next_backoff()
        return calls

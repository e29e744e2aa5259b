"""Jitter: the exponential policies of the AWS Architecture Blog, and wrappers of any policy."""

from __future__ import annotations

from .._random import as_rng, draw_from
from .._validation import LARGEST, as_factor, as_fraction, as_seconds, safe_repr, whole_repr
from ._base import Bounds, CountsCalls, as_cap, capped, geometric
from ._wrapper import BackOffWrapper, overload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from random import Random
    from typing import Literal

    from ._protocol import BackOff, FeedbackBackOff
    from ._wrapper import FeedbackWrapper

    JitterKind = Literal["full", "equal"] | float

_REMEMBERED_DELAYS = 1000
"""How many delays before make a difference to one that is drawn up to a multiple of the previous
one. With any cap that is used, the distribution has stopped changing long before."""

_KINDS = {"full": (0.0, 1.0), "equal": (0.5, 1.0)}
"""By name: the least and the greatest multiple of a delay that can be drawn."""


class _CappedGrowth(CountsCalls):
    """What the policies of the AWS blog share: a limit that grows from a base to a cap."""

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
        cap: The greatest limit: seconds >= ``base`` or a timedelta. None or ``math.inf``: no cap.
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
        cap: The greatest limit: seconds >= ``base`` or a timedelta. None or ``math.inf``: no cap.
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
        cap: The greatest delay: seconds >= ``base`` or a timedelta. None or ``math.inf``: no cap.
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


# Around any policy


class _Jitter(BackOffWrapper):
    __slots__ = ("_greatest", "_least", "_rng", "jitter", "max_jitter")

    def __init__(
        self,
        backoff: BackOff,
        jitter: JitterKind | None,
        max_jitter: float | timedelta,
        rng: Random | None,
    ) -> None:
        super().__init__(backoff)
        self.jitter: JitterKind | None = jitter
        self.max_jitter: float = as_seconds("max_jitter", max_jitter)
        self._rng = as_rng("rng", rng)
        if isinstance(self.jitter, str):
            self._least, self._greatest = _KINDS[self.jitter]
        else:
            fraction = self.jitter or 0.0
            self._least, self._greatest = 1.0 - fraction, 1.0 + fraction

    def _range(self, delay: float) -> Bounds:
        return delay * self._least, min(delay * self._greatest + self.max_jitter, LARGEST)

    def transform(self, delay: float) -> float:
        least, greatest = self._range(delay)
        if least == greatest:
            return least
        return min(least + (greatest - least) * draw_from(self._rng), greatest)

    def __repr__(self) -> str:
        if self.jitter is None:
            return f"with_added_jitter({whole_repr(self.backoff)}, {self.max_jitter!r})"
        return f"with_jitter({whole_repr(self.backoff)}, {self.jitter!r})"


def _as_jitter(jitter: JitterKind | None) -> JitterKind:
    if isinstance(jitter, str) and jitter in _KINDS:
        return jitter
    if jitter is None or isinstance(jitter, str):
        expected = '"full" or "equal", or a fraction'
        kind = TypeError if jitter is None else ValueError
        raise kind(f"jitter must be {expected}, not {safe_repr(jitter)}")
    return as_fraction("jitter", jitter)


@overload
def with_jitter(
    backoff: FeedbackBackOff, jitter: JitterKind = "full", rng: Random | None = None
) -> FeedbackWrapper: ...
@overload
def with_jitter(
    backoff: BackOff, jitter: JitterKind = "full", rng: Random | None = None
) -> BackOffWrapper: ...
def with_jitter(
    backoff: BackOff, jitter: JitterKind = "full", rng: Random | None = None
) -> BackOffWrapper:
    """Return a policy that draws each delay at random, from a range that ``backoff`` sets.

    It is meant for policies without jitter of their own. Put limits such as ``with_max_interval``
    around the result; a limit inside does not see the random part.

    Source: "Exponential Backoff And Jitter", AWS Architecture Blog, for ``"full"`` and
    ``"equal"``; the ``RandomizationFactor`` of cenkalti/backoff v4 for a number.

    Args:
        backoff: The policy.
        jitter: ``"full"`` draws from 0 to the delay, ``"equal"`` from half of the delay to the
            delay. A number f, 0 <= f < 1, draws from ``delay * (1 - f)`` to ``delay * (1 + f)``;
            with 0 nothing is drawn.
        rng: As in ``ExponentialBackOff``.

    Example:
        >>> from backoff_ticker import ConstantBackOff, with_jitter
        >>> with_jitter(ConstantBackOff(8), "equal").bounds(1)
        (4.0, 8.0)
    """
    return _Jitter(backoff, _as_jitter(jitter), 0.0, rng)


@overload
def with_added_jitter(
    backoff: FeedbackBackOff, max_jitter: float | timedelta, rng: Random | None = None
) -> FeedbackWrapper: ...
@overload
def with_added_jitter(
    backoff: BackOff, max_jitter: float | timedelta, rng: Random | None = None
) -> BackOffWrapper: ...
def with_added_jitter(
    backoff: BackOff, max_jitter: float | timedelta, rng: Random | None = None
) -> BackOffWrapper:
    """Return a policy that adds a random time to each delay of ``backoff``.

    No delay becomes shorter, so it suits a wait that a server asked for. To limit the sum, put
    ``with_max_interval`` around the result.

    Source: "Exponential backoff" in the documentation of Google Cloud Storage, for any policy.

    Args:
        backoff: The policy.
        max_jitter: The greatest time to add: seconds >= 0 or a timedelta. With 0 nothing is drawn.
        rng: As in ``ExponentialBackOff``.

    Example:
        >>> from backoff_ticker import ConstantBackOff, with_added_jitter
        >>> with_added_jitter(ConstantBackOff(8), 2).bounds(1)
        (8.0, 10.0)
    """
    return _Jitter(backoff, None, max_jitter, rng)

"""What the seven policies of Perl's Algorithm::Backoff share: options, steps, bounds.

Each of the seven adds its rule, in the form ``delay before * factor + summand``.
"""

from __future__ import annotations

from math import inf

from .._random import as_rng, draw_from
from .._sentinels import STOP, Stop
from .._validation import LARGEST, as_count, as_flag, as_fraction, as_number, as_seconds
from ..clock import resolve_clock
from ._base import Bounds, Calls, Policy, as_cap, capped, require_clock, union

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from random import Random
    from typing import TypedDict

    from ._protocol import WallTime

    Rule = tuple[float | None, float, float]  # first delay, factor, summand

    class AlgorithmOptions(TypedDict, total=False):
        consider_actual_delay: bool
        max_actual_duration: float | timedelta
        max_attempts: int
        jitter_factor: float
        min_delay: float | timedelta
        max_delay: float | timedelta | None
        rng: Random | None
        clock: WallTime | None


_EXACT_CALLS = 100
"""Bounds of later calls follow from those of this one, so that their cost does not grow."""


class AlgorithmBackOff(Policy):
    """The base class, with the options, of the seven policies of Perl's Algorithm::Backoff.

    This class has no rule for a delay itself: use one of the seven. ``FeedbackBackOff`` tells how
    a policy hears of failures and successes.

    ``failure()`` takes these steps, in this order:

    1. Return ``STOP`` if ``max_actual_duration`` has passed since the start.
    2. Count the attempt; return ``STOP`` if it is number ``max_attempts``.
    3. Refuse a timestamp that is before the previous one.
    4. Compute the raw delay by the rule of the class. A rule that uses the previous delay takes the
       delay that was returned, jitter and limits included.
    5. With ``consider_actual_delay``, add the previous delay and subtract the time since the
       previous timestamp.
    6. Apply the jitter, then the cap ``max_delay``, then the lower limits 0 and ``min_delay``,
       which is stronger than the cap.

    ``success()`` sets the count to 0 and takes the steps from 3 on.

    Source: ``Algorithm::Backoff`` of Perl. Its -1 is ``STOP`` here; it does not check values.

    Args:
        consider_actual_delay: Whether time that passed between calls counts as waited.
        max_actual_duration: Failures return ``STOP`` after this time since the policy was made or
            reset: seconds >= 0 or a timedelta. 0 means no limit.
        max_attempts: The number of the failure in a row that returns ``STOP``: an int >= 0. 1 means
            no retry, 0 no limit.
        jitter_factor: A number >= 0 and < 1. A delay is drawn uniformly from ``delay * (1 -
            factor)`` to ``delay * (1 + factor)``. With 0 nothing is drawn.
        min_delay: The least delay: seconds >= 0 or a timedelta.
        max_delay: The greatest delay: seconds >= 0 or a timedelta. None or ``math.inf``: no cap.
        rng: As in ``ExponentialBackOff``.
        clock: Its ``time()`` tells when the policy starts, and when a call without a timestamp is
            made. None means the clock of the ticker or retry that uses the policy, or else the
            current clock.

    Attributes:
        attempts: The number of failures in a row since the last success.
        last_delay: The previous delay; None before the first.

    Example:
        >>> from backoff_ticker import LIMDBackOff
        >>> policy = LIMDBackOff(2, 4, 0.5, max_delay=8)
        >>> [policy.failure(), policy.failure(), policy.failure(), policy.success()]
        [2.0, 6.0, 8.0, 4.0]
    """

    __slots__ = (
        "_clock",
        "_clock_is_bound",
        "_rng",
        "_start",
        "_timestamp",
        "attempts",
        "consider_actual_delay",
        "jitter_factor",
        "last_delay",
        "max_actual_duration",
        "max_attempts",
        "max_delay",
        "min_delay",
    )

    def __init__(
        self,
        *,
        consider_actual_delay: bool = False,
        max_actual_duration: float | timedelta = 0.0,
        max_attempts: int = 0,
        jitter_factor: float = 0.0,
        min_delay: float | timedelta = 0.0,
        max_delay: float | timedelta | None = None,
        rng: Random | None = None,
        clock: WallTime | None = None,
    ) -> None:
        self.consider_actual_delay: bool = as_flag("consider_actual_delay", consider_actual_delay)
        self.max_actual_duration: float = as_seconds("max_actual_duration", max_actual_duration)
        self.max_attempts: int = as_count("max_attempts", max_attempts)
        self.jitter_factor: float = as_fraction("jitter_factor", jitter_factor)
        self.min_delay: float = as_seconds("min_delay", min_delay)
        self.max_delay: float | None = as_cap("max_delay", max_delay)
        self._rng = as_rng("rng", rng)
        require_clock(clock, "time")
        self._clock = clock
        self._clock_is_bound = False
        AlgorithmBackOff.reset(self)  # not that of a subclass, which is not made yet

    def reset(self) -> None:
        """Start again, with the current time as the start."""
        self.attempts: int = 0
        self.last_delay: float | None = None
        self._timestamp: float | None = None
        self._start = self._time()

    def _rule(self, attempts: int) -> Rule:
        """Return how the raw delay is computed after so many failures in a row; 0: after a success.

        It is the first delay, or None if it does not depend on whether there was one before; the
        factor of the previous delay; and what is added to that product.
        """
        raise NotImplementedError

    def failure(self, timestamp: float | None = None) -> float | Stop:
        """Report a failed attempt; return the seconds to wait, or ``STOP``.

        Args:
            timestamp: When it failed, in seconds that never decrease. None means ``clock.time()``.
                If the wall clock of a ticker is set back, no time has passed for the policy.

        Raises:
            TypeError, ValueError: ``timestamp`` is not a finite number, or less than the previous
                one. The policy has not changed then.
        """
        now = self._moment(timestamp)
        if 0.0 < self.max_actual_duration <= now - self._start:
            return STOP
        attempts = self.attempts + 1
        if self.max_attempts and attempts >= self.max_attempts:
            self.attempts = attempts
            return STOP
        return self._next_delay(attempts, now)

    def success(self, timestamp: float | None = None) -> float:
        """Report a successful attempt; return the seconds to wait.

        Takes and raises the same as ``failure()``.
        """
        return self._next_delay(0, self._moment(timestamp))

    def next_backoff(self) -> float | Stop:
        """Report a failed attempt now: the same as ``failure()``."""
        return self.failure()

    def _time(self) -> float:
        return resolve_clock(None).time() if self._clock is None else self._clock.time()

    def _moment(self, timestamp: float | None) -> float:
        if timestamp is not None:
            return as_number("timestamp", timestamp)
        now = self._time()
        if self._clock_is_bound and self._timestamp is not None:
            return max(now, self._timestamp)
        return now

    def _next_delay(self, attempts: int, now: float) -> float:
        """Take the steps from 3 on, after so many failures in a row."""
        before, last = self._timestamp, self.last_delay
        if before is not None and now < before:
            raise ValueError(
                f"timestamp must not be less than the previous one ({before!r}), not {now!r}"
            )
        first, factor, summand = self._rule(attempts)
        if last is None:
            last = first or 0.0  # so with consider_actual_delay the first delay counts twice
            delay = summand if first is None else first
        else:
            delay = last * factor + summand
        if self.consider_actual_delay:
            passed = 0.0 if before is None else now - before
            delay = min(delay + last, LARGEST) - passed
        if self.jitter_factor and delay:
            least, greatest = self._jittered(delay)
            delay = least + (greatest - least) * draw_from(self._rng)
        self.attempts = attempts
        self._timestamp = now
        self.last_delay = delay = self._limited(delay)
        return delay

    def _jittered(self, delay: float) -> Bounds:
        """Return the ends of the range that the jitter draws from."""
        return (
            max(-LARGEST, min(delay * (1.0 - self.jitter_factor), LARGEST)),
            max(-LARGEST, min(delay * (1.0 + self.jitter_factor), LARGEST)),
        )

    def _limited(self, delay: float) -> float:
        return max(capped(delay, self.max_delay), 0.0, self.min_delay)

    def _bind_clock(self, clock: WallTime) -> None:
        if self._clock is None:
            self._clock = clock
            self._clock_is_bound = True

    # Bounds

    def _span(self, first: int, last: int) -> Bounds | None:
        if self.max_attempts:
            last = min(last, self.max_attempts - 1)
        if first > last:
            return None
        # From the second call on both ends only rise or only fall.
        found = union(self._failure_bounds(first), self._failure_bounds(last))
        return union(found, self._failure_bounds(2)) if first == 1 < last else found

    def _calls(self) -> Calls:
        most = self.max_attempts - 1 if self.max_attempts else inf
        return (0 if self.max_actual_duration else most), most

    def _failure_bounds(self, n: int) -> Bounds:
        """Return the bounds of the ``n``-th failure in a row, whatever time has passed."""
        if self._rule(n)[0] is None and not self.consider_actual_delay:
            return self._following_bounds(n, None)
        bounds = self._following_bounds(1, None)
        for attempt in range(2, min(n, _EXACT_CALLS) + 1):
            bounds = self._following_bounds(attempt, bounds)
        return bounds if n <= _EXACT_CALLS else self._later_bounds(bounds)

    def _following_bounds(self, attempt: int, last: Bounds | None) -> Bounds:
        """Return the bounds of a failure from those before; exact, as rounding keeps the order."""
        first, factor, summand = self._rule(attempt)
        if last is None:
            raw = summand if first is None else first
            least = greatest = raw + (first or 0.0) if self.consider_actual_delay else raw
        else:
            least, greatest = last[0] * factor + summand, last[1] * factor + summand
            if self.consider_actual_delay:
                least, greatest = -LARGEST, greatest + last[1]
        least, greatest = min(least, LARGEST), min(greatest, LARGEST)
        if self.jitter_factor:
            least, greatest = min(self._jittered(least)), max(self._jittered(greatest))
        return self._limited(least), self._limited(greatest)

    def _later_bounds(self, last: Bounds) -> Bounds:
        """Return the bounds of all failures after the last exact ones.

        An end that rises once always rises, and one that falls always falls.
        """
        if self._rule(_EXACT_CALLS)[0] is None:
            return self._limited(0.0), self._limited(LARGEST)  # a sum of delays, each by a rule
        following = self._following_bounds(_EXACT_CALLS + 1, last)
        least = last[0] if following[0] >= last[0] else self._limited(0.0)
        return least, (last[1] if following[1] <= last[1] else self._limited(LARGEST))

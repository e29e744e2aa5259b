"""Policies around a policy: limits of retries, of elapsed time, of a delay."""

from __future__ import annotations

from .._sentinels import STOP
from .._validation import as_count, as_seconds, safe_repr
from ._base import ending_after
from ._elapsed import ElapsedTime, too_late
from ._running import is_feedback
from ._wrapper import TakesFeedback, Wrapper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta
    from typing import overload

    from .._sentinels import Stop
    from ..clock import Clock
    from ._base import Bounds, Calls
    from ._protocol import BackOff, FeedbackBackOff

    Limit = float | timedelta | None


class MaxRetriesBackOff(Wrapper):
    """Another policy's delays, a limited number of times. Made by ``with_max_retries``.

    Attributes:
        backoff: The policy inside.
        max_retries: The limit.
        retries: Delays asked for since ``reset()``, or since the last success of a feedback policy.
    """

    __slots__ = ("max_retries", "retries")

    def __init__(self, backoff: BackOff, max_retries: int) -> None:
        super().__init__(backoff)
        self.max_retries: int = as_count("max_retries", max_retries)
        self.retries: int = 0

    def _may_ask(self) -> bool:
        return self.retries < self.max_retries

    def _changed(self, delay: float) -> float:
        self.retries += 1  # once it has answered: what it refuses to hear does not count
        return delay

    def _stopped(self) -> None:
        self.retries += 1

    def _span(self, first: int, last: int) -> Bounds | None:
        most = min(last, self.max_retries)
        return super()._span(first, most) if first <= most else None

    def _each_bounds(self) -> Iterator[Bounds | None]:
        return ending_after(self.max_retries, super()._each_bounds())

    def _calls(self) -> Calls:
        least, most = super()._calls()
        return min(least, self.max_retries), min(most, self.max_retries)

    def reset(self) -> None:
        """Count from 0 again, and begin the policy inside anew."""
        self.retries = 0
        super().reset()

    def _success(self, timestamp: float | None) -> float | Stop:
        delay = super()._success(timestamp)
        self.retries = 0
        return delay

    def __repr__(self) -> str:
        return f"with_max_retries({self.backoff!r}, {safe_repr(self.max_retries)})"


class FeedbackMaxRetriesBackOff(TakesFeedback, MaxRetriesBackOff):
    """The same around a feedback policy."""

    __slots__ = ()


class MaxElapsedTimeBackOff(ElapsedTime, Wrapper):
    """Another policy's delays while time remains. Made by ``with_max_elapsed_time``.

    Attributes:
        backoff: The policy inside.
        max_elapsed_time: The limit in seconds; None: none.
    """

    __slots__ = ("_clock", "_start", "max_elapsed_time")

    def __init__(
        self, backoff: BackOff, max_elapsed_time: Limit, clock: Clock | None = None
    ) -> None:
        super().__init__(backoff)
        self._set_elapsed_time(max_elapsed_time, clock)

    def _changed(self, delay: float) -> float | Stop:
        limit = self.max_elapsed_time
        return STOP if limit is not None and too_late(self.elapsed_time, delay, limit) else delay

    def reset(self) -> None:
        """Begin anew: elapsed time from now, and the policy inside."""
        super().reset()
        self._restart()

    def _within(self, bounds: Bounds) -> Bounds | None:
        limit = self.max_elapsed_time
        if limit is None:
            return bounds
        return None if bounds[0] > limit else (bounds[0], min(bounds[1], limit))

    def _calls(self) -> Calls:
        least, most = super()._calls()
        return (least if self.max_elapsed_time is None else 0), most

    def __repr__(self) -> str:
        return f"with_max_elapsed_time({self.backoff!r}, {self.max_elapsed_time!r})"


class FeedbackMaxElapsedTimeBackOff(TakesFeedback, MaxElapsedTimeBackOff):
    """The same around a feedback policy."""

    __slots__ = ()


class MaxIntervalBackOff(Wrapper):
    """Another policy's delays, none greater than a limit. Made by ``with_max_interval``.

    Attributes:
        backoff: The policy inside.
        max_interval: The limit in seconds.
    """

    __slots__ = ("max_interval",)

    _changes_success = True

    def __init__(self, backoff: BackOff, max_interval: float | timedelta) -> None:
        super().__init__(backoff)
        self.max_interval: float = as_seconds("max_interval", max_interval)

    def _changed(self, delay: float) -> float:
        return min(delay, self.max_interval)

    def _within(self, bounds: Bounds) -> Bounds:
        return min(bounds[0], self.max_interval), min(bounds[1], self.max_interval)

    def __repr__(self) -> str:
        return f"with_max_interval({self.backoff!r}, {self.max_interval!r})"


class FeedbackMaxIntervalBackOff(TakesFeedback, MaxIntervalBackOff):
    """The same around a feedback policy."""

    __slots__ = ()


if TYPE_CHECKING:

    @overload
    def with_max_retries(
        backoff: FeedbackBackOff, max_retries: int
    ) -> FeedbackMaxRetriesBackOff: ...
    @overload
    def with_max_retries(backoff: BackOff, max_retries: int) -> MaxRetriesBackOff: ...


def with_max_retries(backoff: BackOff, max_retries: int) -> MaxRetriesBackOff:
    """Return a policy that gives ``STOP`` after ``max_retries`` delays of ``backoff``.

    So there is one attempt more than retries; 0 means a single attempt. The count also rises
    where ``backoff`` itself returns ``STOP``.

    Source: ``WithMaxRetries`` of cenkalti/backoff v4.

    Raises:
        TypeError: ``backoff`` is no policy, or ``max_retries`` is no int.
        ValueError: ``max_retries`` is negative.
    """
    kind = FeedbackMaxRetriesBackOff if is_feedback(backoff) else MaxRetriesBackOff
    return kind(backoff, max_retries)


if TYPE_CHECKING:

    @overload
    def with_max_elapsed_time(
        backoff: FeedbackBackOff, max_elapsed_time: Limit, clock: Clock | None = None
    ) -> FeedbackMaxElapsedTimeBackOff: ...
    @overload
    def with_max_elapsed_time(
        backoff: BackOff, max_elapsed_time: float | timedelta | None, clock: Clock | None = None
    ) -> MaxElapsedTimeBackOff: ...


def with_max_elapsed_time(
    backoff: BackOff, max_elapsed_time: float | timedelta | None, clock: Clock | None = None
) -> MaxElapsedTimeBackOff:
    """Return a policy that gives ``STOP`` where a delay of ``backoff`` would end too late.

    It looks ahead: ``STOP`` when the time since construction or ``reset()`` plus the delay would
    pass the limit; equality passes. A feedback policy's delay after a success is not limited, and
    a success does not begin the time anew.

    Source: ``MaxElapsedTime`` of cenkalti/backoff v4, for any policy.

    Args:
        backoff: The policy.
        max_elapsed_time: Seconds, or a ``datetime.timedelta``; None or 0: no limit.
        clock: What measures the elapsed time. None: the clock of the ticker that runs the policy;
            where nobody runs it, the current clock.

    Raises:
        TypeError: ``backoff`` is no policy, ``max_elapsed_time`` no duration or ``clock`` no clock.
        ValueError: ``max_elapsed_time`` is NaN, infinite or negative.
    """
    kind = FeedbackMaxElapsedTimeBackOff if is_feedback(backoff) else MaxElapsedTimeBackOff
    return kind(backoff, max_elapsed_time, clock)


if TYPE_CHECKING:

    @overload
    def with_max_interval(
        backoff: FeedbackBackOff, max_interval: float | timedelta
    ) -> FeedbackMaxIntervalBackOff: ...
    @overload
    def with_max_interval(
        backoff: BackOff, max_interval: float | timedelta
    ) -> MaxIntervalBackOff: ...


def with_max_interval(backoff: BackOff, max_interval: float | timedelta) -> MaxIntervalBackOff:
    """Return a policy whose delays are those of ``backoff``, but ``max_interval`` at the most.

    Unlike the ``max_interval`` of an exponential policy this is a hard cap, jitter included.

    Args:
        backoff: The policy.
        max_interval: Seconds >= 0, or a ``datetime.timedelta``.

    Raises:
        TypeError: ``backoff`` is no policy, or ``max_interval`` no duration.
        ValueError: ``max_interval`` is NaN, infinite or negative.
    """
    kind = FeedbackMaxIntervalBackOff if is_feedback(backoff) else MaxIntervalBackOff
    return kind(backoff, max_interval)

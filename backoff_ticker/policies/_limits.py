"""Wrappers that limit a policy: retries, elapsed time, each delay, or until a token's cancel."""

from __future__ import annotations

from .._sentinels import STOP, Stop
from .._validation import as_count, safe_repr, whole_repr
from ..cancellation import CancellationToken, require_token
from ._base import Bounds, Calls, MeasuresTime, as_cap, capped, is_too_late, limited
from ._run import combined, token_of
from ._wrapper import BackOffWrapper, overload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta

    from ._protocol import BackOff, FeedbackBackOff, MonotonicTime
    from ._wrapper import FeedbackWrapper

    Limit = float | timedelta | None


class _MaxRetries(BackOffWrapper):
    __slots__ = ("max_retries", "retries")

    def __init__(self, backoff: BackOff, max_retries: int) -> None:
        super().__init__(backoff)
        self.max_retries: int = as_count("max_retries", max_retries)
        self.retries: int = 0

    def _may_ask(self, outcome: str) -> bool:
        return self.retries < self.max_retries or outcome == "success"

    def transform(self, delay: float) -> float:
        self.retries += 1  # a request that raises is not counted
        return delay

    def transform_success(self, delay: float) -> float:
        return delay

    def _answer(self, answer: float | Stop) -> float | Stop:
        if answer is STOP:
            self.retries += 1
        return super()._answer(answer)

    def reset(self) -> None:
        self.retries = 0
        super().reset()

    def _told(self, outcome: str, timestamp: float | None) -> float | Stop:
        delay = super()._told(outcome, timestamp)
        if outcome == "success":
            self.retries = 0
        return delay

    def _span(self, first: int, last: int) -> Bounds | None:
        last = min(last, self.max_retries)
        return super()._span(first, last) if first <= last else None

    def _calls(self) -> Calls:
        least, most = super()._calls()
        return min(least, self.max_retries), min(most, self.max_retries)

    def _skip(self, calls: int) -> int | None:
        skipped = super()._skip(min(calls, self.max_retries - self.retries))
        self.retries += skipped or 0
        return skipped

    def __repr__(self) -> str:
        return f"with_max_retries({whole_repr(self.backoff)}, {safe_repr(self.max_retries)})"


class _MaxElapsedTime(MeasuresTime, BackOffWrapper):
    __slots__ = ("_clock", "_start", "max_elapsed_time")

    def __init__(self, backoff: BackOff, limit: Limit, clock: MonotonicTime | None) -> None:
        super().__init__(backoff)
        self._measure(limit, clock)

    def transform(self, delay: float) -> float | Stop:
        limit = self.max_elapsed_time
        return STOP if limit is not None and is_too_late(self.elapsed_time, delay, limit) else delay

    def transform_success(self, delay: float) -> float:
        return delay

    def reset(self) -> None:
        super().reset()
        self._start = self._now()

    def _span(self, first: int, last: int) -> Bounds | None:
        return limited(super()._span(first, last), self.max_elapsed_time)

    def _calls(self) -> Calls:
        least, most = super()._calls()
        return (least if self.max_elapsed_time is None else 0), most

    def _skip(self, calls: int) -> int | None:
        return super()._skip(calls) if self.max_elapsed_time is None else None

    def __repr__(self) -> str:
        return f"with_max_elapsed_time({whole_repr(self.backoff)}, {self.max_elapsed_time!r})"


class _MaxInterval(BackOffWrapper):
    __slots__ = ("max_interval",)

    def __init__(self, backoff: BackOff, max_interval: Limit) -> None:
        super().__init__(backoff)
        self.max_interval: float | None = as_cap("max_interval", max_interval)

    def transform(self, delay: float) -> float:
        return capped(delay, self.max_interval)

    def _range(self, delay: float) -> Bounds:
        limited_delay = self.transform(delay)
        return limited_delay, limited_delay

    def __repr__(self) -> str:
        return f"with_max_interval({whole_repr(self.backoff)}, {self.max_interval!r})"


class _Token(BackOffWrapper):
    __slots__ = ("_token",)

    def __init__(self, backoff: BackOff, token: CancellationToken) -> None:
        super().__init__(backoff)
        require_token("token", token)
        self._token = combined((token, token_of(backoff))) or token

    @property
    def token(self) -> CancellationToken:
        return self._token

    def _may_ask(self, outcome: str) -> bool:
        return not self._token.cancelled

    def _span(self, first: int, last: int) -> Bounds | None:
        return None if self._token.cancelled else super()._span(first, last)

    def _calls(self) -> Calls:
        return 0, super()._calls()[1]

    def _skip(self, calls: int) -> int | None:
        return 0 if self._token.cancelled else super()._skip(calls)

    def __repr__(self) -> str:
        return f"with_token({whole_repr(self.backoff)}, {self._token!r})"


@overload
def with_max_retries(backoff: FeedbackBackOff, max_retries: int) -> FeedbackWrapper: ...
@overload
def with_max_retries(backoff: BackOff, max_retries: int) -> BackOffWrapper: ...
def with_max_retries(backoff: BackOff, max_retries: int) -> BackOffWrapper:
    """Return a policy that gives up after ``max_retries`` delays of ``backoff``.

    There is one attempt more than there are retries: 0 means a single attempt. With a
    feedback policy the count starts again after a success.

    Source: ``WithMaxRetries`` of cenkalti/backoff v4.

    Args:
        backoff: The policy.
        max_retries: The number of delays before ``STOP``: an int >= 0. A ``STOP`` of ``backoff``
            counts, too.

    Example:
        >>> from backoff_ticker import ConstantBackOff, delays, with_max_retries
        >>> list(delays(with_max_retries(ConstantBackOff(2), 3)))
        [2.0, 2.0, 2.0]
    """
    return _MaxRetries(backoff, max_retries)


@overload
def with_max_elapsed_time(
    backoff: FeedbackBackOff, max_elapsed_time: Limit, clock: MonotonicTime | None = None
) -> FeedbackWrapper: ...
@overload
def with_max_elapsed_time(
    backoff: BackOff, max_elapsed_time: Limit, clock: MonotonicTime | None = None
) -> BackOffWrapper: ...
def with_max_elapsed_time(
    backoff: BackOff, max_elapsed_time: float | timedelta | None, clock: MonotonicTime | None = None
) -> BackOffWrapper:
    """Return a policy that gives up before a delay of ``backoff`` that would end too late.

    A delay ends too late if the time since the policy was made or reset, plus the delay, is greater
    than the limit; equal is in time. With a feedback policy, the delay after a success is not
    limited, and a success does not restart the time.

    Source: ``MaxElapsedTime`` of cenkalti/backoff v4, for any policy.

    Args:
        backoff: The policy.
        max_elapsed_time: The limit: seconds >= 0 or a timedelta. None or 0 means no limit.
        clock: As in ``ExponentialBackOff``.

    Example:
        >>> from backoff_ticker import ConstantBackOff, delays, with_max_elapsed_time
        >>> list(delays(with_max_elapsed_time(ConstantBackOff(3), 10)))
        [3.0, 3.0, 3.0]
    """
    return _MaxElapsedTime(backoff, max_elapsed_time, clock)


@overload
def with_max_interval(backoff: FeedbackBackOff, max_interval: Limit) -> FeedbackWrapper: ...
@overload
def with_max_interval(backoff: BackOff, max_interval: Limit) -> BackOffWrapper: ...
def with_max_interval(backoff: BackOff, max_interval: float | timedelta | None) -> BackOffWrapper:
    """Return a policy with the delays of ``backoff``, none greater than ``max_interval``.

    Unlike the ``max_interval`` of ``ExponentialBackOff``, this limit includes the jitter.

    Args:
        backoff: The policy.
        max_interval: The greatest delay: seconds >= 0 or a timedelta. None or ``math.inf`` means no
            limit.

    Example:
        >>> from backoff_ticker import FibonacciBackOff, with_max_interval
        >>> policy = with_max_interval(FibonacciBackOff(1, 1), 4)
        >>> [policy.next_backoff() for _ in range(6)]
        [1.0, 1.0, 2.0, 3.0, 4.0, 4.0]
    """
    return _MaxInterval(backoff, max_interval)


@overload
def with_token(backoff: FeedbackBackOff, token: CancellationToken) -> FeedbackWrapper: ...
@overload
def with_token(backoff: BackOff, token: CancellationToken) -> BackOffWrapper: ...
def with_token(backoff: BackOff, token: CancellationToken) -> BackOffWrapper:
    """Return a policy that gives up once ``token`` is cancelled.

    A ticker or retry that uses the policy is cancelled as if the token had been given to it: a wait
    ends at once. This also works if the policy is inside a wrapper or chain of this package, or
    inside a class of yours that derives from ``BackOffWrapper`` or has an attribute ``token``.
    After the cancel, ``backoff`` is not asked, and ``bounds()`` returns None.

    Source: ``WithContext`` of cenkalti/backoff v4.

    Args:
        backoff: The policy.
        token: A ``CancellationToken``.

    Raises:
        ValueError: ``token`` and a token inside ``backoff`` have deadlines on different clocks.

    Example:
        >>> from backoff_ticker import CancellationToken, ZeroBackOff, with_token
        >>> token = CancellationToken()
        >>> policy = with_token(ZeroBackOff(), token)
        >>> policy.next_backoff(), token.cancel(), policy.next_backoff()
        (0.0, True, STOP)
    """
    return _Token(backoff, token)

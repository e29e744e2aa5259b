"""The protocols of this folder: what a policy is, and how a policy reads the time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from .._sentinels import Stop


@runtime_checkable
class BackOff(Protocol):
    """A policy: says how long to wait before the next attempt, or to give up.

    Tickers, retries and ``delays`` run a copy of a policy, after a ``reset()``, so one object may
    serve any number of them in any threads and event loops. The copy is what ``__copy__``
    returns, if the class defines it; a class that returns itself there is shared on purpose.
    Otherwise it is what ``copy.copy`` returns, and the policies in its attributes are copied as
    well, and those in a list, tuple or dict there. A container of more than 100 items is searched
    only if its first item is a policy.

    A policy may have an attribute ``token``, a ``CancellationToken``, that cancels whatever runs
    the policy. It is read once, when the run starts.

    Example:
        >>> from backoff_ticker import STOP, delays
        >>> class Countdown:
        ...     def __init__(self, start):
        ...         self.start = self.left = start
        ...
        ...     def next_backoff(self):
        ...         self.left -= 1
        ...         return float(self.left) if self.left > 0 else STOP
        ...
        ...     def reset(self):
        ...         self.left = self.start
        >>> list(delays(Countdown(4)))
        [3.0, 2.0, 1.0]
    """

    def next_backoff(self) -> float | Stop:
        """Return the seconds to wait (finite, >= 0), or ``STOP``.

        Called by one reader of a ticker at a time; should return at once.
        """
        ...

    def reset(self) -> None:
        """Start over with the first delay."""
        ...


@runtime_checkable
class FeedbackBackOff(BackOff, Protocol):
    """A policy that is told how each attempt went and adapts its delays.

    A ticker passes its own ``success()`` and ``failure()`` on to the policy. A request for the
    next tick without either counts as a failure. Both methods may also take a timestamp.

    ``isinstance(policy, FeedbackBackOff)`` tells these policies from others. What
    ``with_max_retries`` and the other wrappers return is such a policy if, and only if, the policy
    inside is; type checkers see that. A class whose ``__getattr__`` provides these methods works in
    tickers and wrappers, but ``isinstance()`` from Python 3.12 on and type checkers do not
    recognize it.

    Example:
        >>> from backoff_ticker import ConstantBackOff, FeedbackBackOff, LIMDBackOff
        >>> from backoff_ticker import with_max_retries
        >>> isinstance(with_max_retries(LIMDBackOff(2, 4, 0.5), 3), FeedbackBackOff)
        True
        >>> isinstance(with_max_retries(ConstantBackOff(1), 3), FeedbackBackOff)
        False
    """

    def failure(self) -> float | Stop:
        """Report a failed attempt; return the seconds until the next, or ``STOP``."""
        ...

    def success(self) -> float | Stop:
        """Report a successful attempt; return the seconds until the next, or ``STOP``."""
        ...


class MonotonicTime(Protocol):
    """Anything that measures elapsed time.

    Example:
        >>> import time
        >>> from backoff_ticker import ExponentialBackOff, MonotonicTime
        >>> source: MonotonicTime = time
        >>> policy = ExponentialBackOff(clock=source)
    """

    def monotonic(self) -> float:
        """Return the seconds since some fixed moment; never goes back."""
        ...


class WallTime(Protocol):
    """Anything that tells the wall-clock time.

    Example:
        >>> import time
        >>> from backoff_ticker import FibonacciBackOff, WallTime
        >>> source: WallTime = time
        >>> policy = FibonacciBackOff(1, 1, clock=source)
    """

    def time(self) -> float:
        """Return the seconds since the epoch."""
        ...


class TimeSource(MonotonicTime, WallTime, Protocol):
    """Both kinds of time: what ``start_policy()`` needs of a clock."""

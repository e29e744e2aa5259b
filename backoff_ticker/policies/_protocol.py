"""The protocols of this folder: what a policy is, and how a policy reads the time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from .._sentinels import Stop


@runtime_checkable
class BackOff(Protocol):
    """The protocol of a policy: it says how long to wait before the next attempt, or to give up.

    Any object with these two methods is a policy. To change the delays of another policy, derive
    from ``BackOffWrapper`` instead.

    Tickers, retries and ``delays`` use a copy of a policy, after a ``reset()``. So one policy
    object may be given to any number of them, in any threads and event loops. The copy is what
    ``__copy__`` returns, if the class defines it; a class that returns ``self`` there is shared on
    purpose. Otherwise it is made by ``copy.copy``, with copies of the policies that are attributes,
    or stand in an attribute that is a list, tuple or dict.

    Thread safety: each copy is called in one thread at a time; it has no lock.

    If a policy has an attribute ``token``, a ``CancellationToken``, that token cancels the ticker
    or retry that uses the policy. It is read once, at the start.

    Example:
        >>> from backoff_ticker import STOP, delays
        >>> class Countdown:
        ...     def __init__(self):
        ...         self.reset()
        ...
        ...     def next_backoff(self):
        ...         self.left -= 1
        ...         return float(self.left) if self.left else STOP
        ...
        ...     def reset(self):
        ...         self.left = 4
        >>> list(delays(Countdown()))
        [3.0, 2.0, 1.0]
    """

    def next_backoff(self) -> float | Stop:
        """Return the seconds to wait (finite, >= 0), or ``STOP`` to give up.

        It is called in one thread at a time, and should return at once.
        """

    def reset(self) -> None:
        """Start again with the first delay."""


@runtime_checkable
class FeedbackBackOff(BackOff, Protocol):
    """The protocol of a *feedback policy*: it is told how each attempt went, and adapts its delays.

    ``success()`` and ``failure()`` of a ticker are passed on to it; a request for the next tick
    without either counts as a failure. Retries tell it of each failure. Both methods may also take
    a timestamp.

    ``isinstance(policy, FeedbackBackOff)`` tells whether a policy is one. A wrapper such as
    ``with_max_retries`` returns a feedback policy if the policy inside is one, and type checkers
    see that. A class whose ``__getattr__`` provides the methods works in tickers and wrappers, but
    type checkers, and ``isinstance()`` from Python 3.12 on, do not recognise it.

    Example:
        >>> from backoff_ticker import FeedbackBackOff, LIMDBackOff, with_max_retries
        >>> isinstance(with_max_retries(LIMDBackOff(2, 4, 0.5), 3), FeedbackBackOff)
        True
    """

    def failure(self) -> float | Stop:
        """Report a failed attempt; return the seconds to wait, or ``STOP``."""

    def success(self) -> float | Stop:
        """Report a successful attempt; return the seconds to wait, or ``STOP``."""


class MonotonicTime(Protocol):
    """The protocol of objects that measure elapsed time, such as the module ``time``."""

    def monotonic(self) -> float:
        """Return the seconds since some fixed moment; the number never decreases."""


class WallTime(Protocol):
    """The protocol of objects that tell the wall-clock time, such as the module ``time``."""

    def time(self) -> float:
        """Return the time in Unix seconds."""


class TimeSource(MonotonicTime, WallTime, Protocol):
    """Both kinds of time: what ``start_policy()`` needs of a clock."""

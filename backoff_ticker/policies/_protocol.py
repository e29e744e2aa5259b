"""What this package asks of a back-off policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from .._sentinels import Stop


@runtime_checkable
class BackOff(Protocol):
    """A policy: says how long to wait before the next attempt, or to give up.

    Whoever runs a policy runs a copy of its own (``copy.copy``, then ``reset()``), together with
    the policies it holds, so one object may be shared by any number of threads and loops. A class
    that wants to be shared on purpose returns itself from ``__copy__``.
    """

    def next_backoff(self) -> float | Stop:
        """Return the seconds to wait (finite, >= 0), or ``STOP``.

        Called by one reader of a ticker at a time and expected to return at once.
        """
        ...

    def reset(self) -> None:
        """Begin anew."""
        ...


@runtime_checkable
class FeedbackBackOff(BackOff, Protocol):
    """A policy that hears how each attempt went, and goes by it.

    A ticker that runs one passes on what its own ``success()`` and ``failure()`` are told; an ask
    for the next tick without a word counts as a failure. Either may take a timestamp, too.

    ``isinstance(policy, FeedbackBackOff)`` tells one from another policy. What ``with_max_retries``
    and the like return is one exactly if the policy inside is, and type checkers see that. A class
    whose ``__getattr__`` makes these methods up is taken for one by tickers and wrappers, but not
    by ``isinstance()`` from Python 3.12 on, nor by a type checker: define them.
    """

    def failure(self) -> float | Stop:
        """Tell that an attempt failed; return the seconds until the next, or ``STOP``."""
        ...

    def success(self) -> float | Stop:
        """Tell that an attempt succeeded; return the seconds until the next, or ``STOP``."""
        ...

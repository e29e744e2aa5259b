"""What a retry needs of a budget."""

from __future__ import annotations

from typing import Protocol


class BudgetLike(Protocol):
    """What ``budget=`` of a retry has to have: a ``RetryBudget``, or an object like one.

    If it also has a coroutine function ``try_acquire_async()``, retries of coroutines await that
    instead of calling ``try_acquire()``, which may then wait, as for the answer of a server. If
    ``try_acquire_async()`` raises or is cancelled, it must have taken nothing. Each attempt of a
    hedged call asks such a budget in its own thread or task, so that no answer delays the result of
    another attempt.

    An error that a method raises ends the retry and is raised, with the last error as its cause.

    Example:
        >>> from backoff_ticker import BudgetLike, ZeroBackOff, retry_call
        >>> class AtNight:
        ...     hour = 3
        ...     def try_acquire(self):
        ...         return not 8 <= self.hour < 20
        ...     def release(self): ...
        ...     def success(self): ...
        >>> budget: BudgetLike = AtNight()
        >>> ask = iter(["busy", "done"]).__next__
        >>> retry_call(ask, ZeroBackOff(), retry_if="busy".__eq__, budget=budget)
        'done'
    """

    def try_acquire(self) -> bool:
        """Return whether a retry may be made; it is then paid."""

    def release(self) -> object:
        """Take back the payment for a retry that was not made. It must not wait."""

    def success(self) -> object:
        """Count a success of the operation. It must not wait."""

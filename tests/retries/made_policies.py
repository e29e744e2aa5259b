"""Policies, tokens and budgets that the retry tests share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backoff_ticker import CancellationToken, RetryBudget
from tests.retries.scripts import START

if TYPE_CHECKING:
    from collections.abc import Callable

    from backoff_ticker.testing import VirtualClock


class Wrapper:
    """A policy of a user's own around another one, whose token it hands on."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    @property
    def token(self) -> Any:
        return getattr(self.inner, "token", None)

    def next_backoff(self) -> Any:
        return self.inner.next_backoff()

    def reset(self) -> None:
        self.inner.reset()


def cancelled_token(cause: Any = None) -> CancellationToken:
    token = CancellationToken()
    token.cancel(cause)
    return token


def spent_budget() -> RetryBudget:
    """Return a budget that refuses until it hears of a success."""
    budget = RetryBudget(1)
    assert budget.try_acquire()
    return budget


def at(clock: VirtualClock, when: float, callback: Callable[[], object]) -> None:
    """Have ``callback()`` called so many seconds after the test began."""
    clock.call_at(START + when, callback)

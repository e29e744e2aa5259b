"""Tokens and budgets that the retry tests share."""

from backoff_ticker import CancellationToken, RetryBudget
from tests.retries.scripts import START


def cancelled_token(cause=None):
    token = CancellationToken()
    token.cancel(cause)
    return token


def spent_budget():
    """Return a budget that refuses until it hears of a success."""
    budget = RetryBudget(1)
    assert budget.try_acquire()
    return budget


def at(clock, when, callback):
    """Have ``callback()`` called so many seconds after the test began."""
    clock.call_at(START + when, callback)

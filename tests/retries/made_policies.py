"""Policies, tokens and budgets that the retry tests share."""

from backoff_ticker import CancellationToken, RetryBudget
from tests.retries.scripts import START


class Wrapper:
    """A user's policy around another one, whose token it hands on."""

    def __init__(self, inner):
        self.inner = inner

    @property
    def token(self):
        return getattr(self.inner, "token", None)

    def next_backoff(self):
        return self.inner.next_backoff()

    def reset(self):
        self.inner.reset()


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

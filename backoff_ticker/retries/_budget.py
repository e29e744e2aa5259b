"""A budget of retries that any number of callers share."""

from __future__ import annotations

from .._process import ProcessBound
from .._validation import as_factor, as_number, safe_repr
from ..waiting import FREED, acquire, claim_of

_UNITS = 10**9
"""How many units make one token: counts are integers, so that ten tenths are exactly one."""


class RetryBudget(ProcessBound):
    """Limits the retries of many callers together, so that they do not overload a failing service.

    A budget is a bucket of tokens, full at first. Each retry takes ``retry_cost`` tokens, and each
    success puts ``token_ratio`` back. While there are too few for a retry, the last error is raised
    without a wait. So over the whole life of a budget, however many callers share it::

        retries * retry_cost <= max_tokens + token_ratio * successes

    Example:
        >>> from backoff_ticker import RetryBudget
        >>> budget = RetryBudget(max_tokens=1)
        >>> budget.try_acquire(), budget.try_acquire()
        (True, False)
        >>> budget.success()
        >>> budget.tokens
        0.1

    Tokens are counted to a billionth. The arguments are attributes, too.

    Source: filled by successes as in Marc Brooker's "Fixing retries with token buckets and circuit
    breakers" and gRPC's retry throttling (gRFC A6); sizes and costs as in botocore's retry quota.

    Thread safety: every method may be called in any thread, signal handler or finalizer.

    Args:
        max_tokens: The size of the bucket: a number > 0.
        token_ratio: The tokens that a success puts back: a number >= 0.
        retry_cost: The tokens that a retry takes: a number > 0 and <= ``max_tokens``.

    Raises:
        TypeError, ValueError: An argument is not a finite number in its range.
    """

    __slots__ = (
        *("_claim", "_cost", "_gain", "_most", "_units"),
        *("max_tokens", "retry_cost", "token_ratio"),
    )

    _kind = "a RetryBudget"

    def __init__(
        self, max_tokens: float = 500, token_ratio: float = 0.1, retry_cost: float = 1
    ) -> None:
        self.max_tokens: float = _above_zero("max_tokens", max_tokens)
        self.token_ratio: float = as_factor("token_ratio", token_ratio, 0)
        self.retry_cost: float = _above_zero("retry_cost", retry_cost)
        if self.retry_cost > self.max_tokens:
            expected = f"<= max_tokens ({self.max_tokens!r})"
            raise ValueError(f"retry_cost must be {expected}, not {safe_repr(retry_cost)}")
        self._most = _units(self.max_tokens)
        self._gain = _units(self.token_ratio)
        self._cost = max(1, _units(self.retry_cost))
        self._claim = claim_of(self)
        self._units = self._most  # in the bucket now; changed by the holder of the claim

    @property
    def tokens(self) -> float:
        """The number of tokens in the bucket now."""
        return self._units / _UNITS

    def try_acquire(self, cost: float | None = None) -> bool:
        """Take ``cost`` tokens if there are enough; None means ``retry_cost``.

        ``cost`` is a number >= 0. Return whether they were taken.
        """
        wanted = self._units_of(cost)
        claim = self._claim
        acquire(claim)
        try:
            left = self._units - wanted
            if left >= 0:
                self._units = left
        finally:
            claim += FREED
        return left >= 0

    def release(self, cost: float | None = None) -> None:
        """Put back the tokens of ``try_acquire(cost)``, for a retry that was not made.

        Retries of this package do so themselves. The bucket never holds more than ``max_tokens``.
        """
        self._put_back(self._units_of(cost))

    def success(self) -> None:
        """Put ``token_ratio`` back after a success, up to ``max_tokens``."""
        self._put_back(self._gain)

    def _units_of(self, cost: float | None) -> int:
        return self._cost if cost is None else _units(as_factor("cost", cost, 0))

    def _put_back(self, units: int) -> None:
        most = self._most
        if self._units >= most:
            return
        claim = self._claim
        acquire(claim)
        try:
            units += self._units
            self._units = units if units < most else most  # noqa: FURB136 - min() is a call
        finally:
            claim += FREED

    def __repr__(self) -> str:
        return (
            f"<RetryBudget {self.tokens!r} of {self.max_tokens!r} tokens, "
            f"token_ratio={self.token_ratio!r}, retry_cost={self.retry_cost!r}>"
        )


def _units(tokens: float) -> int:
    whole = int(tokens)
    return whole * _UNITS + round((tokens - whole) * _UNITS)


def _above_zero(name: str, value: float) -> float:
    expected = "a finite number > 0"
    number = as_number(name, value, expected)
    if number <= 0.0:
        raise ValueError(f"{name} must be {expected}, not {safe_repr(value)}")
    return number

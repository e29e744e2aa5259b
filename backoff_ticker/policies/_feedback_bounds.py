"""Between what the n-th failure in a row lets a feedback policy answer."""

from __future__ import annotations

from math import inf, isfinite

from .._numbers import LARGEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._base import Bounds
    from ._feedback import FeedbackBackOff

__all__ = ["failure_bounds"]

_EXACT_STEPS = 1000
_ROUNDING = 2.0**-52
_WHOLE = 2.0**53


def failure_bounds(policy: FeedbackBackOff, n: int) -> Bounds:
    """Return the bounds of the ``n``-th failure in a row since ``reset()``.

    The first steps are those of the policy, taken with bounds instead of delays, so they are
    exact. From there on a sum or a power stands for the steps, a little wider for their rounding.
    """
    growth = policy._growth()
    if growth is None and not policy.consider_actual_delay:
        return _settled(policy, policy._raw_bounds(n, None), None)
    last: Bounds | None = None
    for attempt in range(1, min(n, _EXACT_STEPS) + 1):
        bounds = _settled(policy, policy._raw_bounds(attempt, last), last)
        if growth is not None and bounds == last:
            return bounds
        last = bounds
    assert last is not None  # noqa: S101 - n >= 1
    return last if n <= _EXACT_STEPS else _later(policy, last, growth, n - _EXACT_STEPS)


def _settled(policy: FeedbackBackOff, raw: Bounds, last: Bounds | None) -> Bounds:
    """Return the bounds of what a policy makes of a raw delay, whatever time has passed."""
    least, greatest = raw
    if policy.consider_actual_delay:
        if last is None:
            least += policy._before_first()
            greatest += policy._before_first()
        else:
            least, greatest = -LARGEST, greatest + last[1]
    greatest = min(greatest, LARGEST)
    if policy.jitter_factor:
        least, greatest = min(policy._jittered(least)), max(policy._jittered(greatest))
    return policy._limited(least), policy._limited(greatest)


def _later(policy: FeedbackBackOff, last: Bounds, growth: Bounds | None, steps: int) -> Bounds:
    """Return the bounds ``steps`` steps after ``last``."""
    if growth is None:
        return last[0], policy._limited(LARGEST)
    factor, summand = growth
    less, more = 1.0 - policy.jitter_factor, 1.0 + policy.jitter_factor
    least = last[0]
    if not policy.consider_actual_delay:
        least = _repeated(least, factor * less, summand * less, steps)
    else:
        factor += 1.0
    greatest = _repeated(last[1], factor * more, summand * more, steps)
    width = steps * _ROUNDING
    if (
        factor * more == 1.0
        and summand.is_integer()
        and greatest.is_integer()
        and greatest < _WHOLE
    ):
        width = 0.0  # sums of whole numbers are not rounded
    if (
        factor * more == 1.0
        and summand.is_integer()
        and greatest.is_integer()
        and greatest < _WHOLE
    ):
        width = 0.0  # sums of whole numbers are not rounded
    return policy._limited(least * (1.0 - width)), policy._limited(greatest * (1.0 + width))


def _repeated(value: float, factor: float, summand: float, steps: int) -> float:
    """Return ``value`` after so many times ``value = value * factor + summand``."""
    if factor == 1.0:
        return value + summand * steps
    rest = summand / (1.0 - factor)
    try:
        growth = factor**steps
    except OverflowError:
        growth = inf
    away = value - rest
    result = rest + away * growth if away else rest
    return result if isfinite(result) else (LARGEST if away > 0.0 else 0.0)

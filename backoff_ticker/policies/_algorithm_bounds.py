"""Between what the n-th failure in a row lets a feedback policy answer."""

from __future__ import annotations

from math import expm1, inf, isfinite, log1p

from .._numbers import LARGEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._algorithm import AlgorithmBackOff
    from ._base import Bounds

__all__ = ["failure_bounds"]

_EXACT_STEPS = 1000
_ROUNDING = 2.0**-52
_WHOLE = 2.0**53
_CLOSE = 0.5


def failure_bounds(policy: AlgorithmBackOff, n: int) -> Bounds:
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


def _settled(policy: AlgorithmBackOff, raw: Bounds, last: Bounds | None) -> Bounds:
    """Return the bounds of what a policy makes of a raw delay, whatever time has passed."""
    least, greatest = raw
    if policy.consider_actual_delay:
        if last is None:
            least += policy._before_first()
            greatest += policy._before_first()
        else:
            least, greatest = -LARGEST, greatest + last[1]
    least, greatest = min(least, LARGEST), min(greatest, LARGEST)
    if policy.jitter_factor:
        least, greatest = min(policy._jittered(least)), max(policy._jittered(greatest))
    return policy._limited(least), policy._limited(greatest)


def _later(policy: AlgorithmBackOff, last: Bounds, growth: Bounds | None, steps: int) -> Bounds:
    """Return the bounds ``steps`` steps after ``last``."""
    if growth is None:
        return last[0], policy._limited(LARGEST)
    factor, summand = growth
    less, more = 1.0 - policy.jitter_factor, 1.0 + policy.jitter_factor
    least = last[0]
    if not policy.consider_actual_delay:
        least = _repeated(least, factor * less, summand * less, steps)[0]
    else:
        factor += 1.0
    greatest = _repeated(last[1], factor * more, summand * more, steps)[1]
    return policy._limited(least), policy._limited(greatest)


def _repeated(value: float, factor: float, summand: float, steps: int) -> Bounds:
    """Return between what ``value`` is after so many times ``value = value * factor + summand``."""
    if summand.is_integer() and factor == 1.0 and value.is_integer():
        result = value + summand * steps
        if abs(result) < _WHOLE:
            return result, result  # sums of whole numbers are not rounded
    try:
        growth = factor**steps
        times = _sum_of_powers(factor, growth, steps)
    except OverflowError:
        growth = times = inf
    grown, added = value * growth if value else 0.0, summand * times if summand else 0.0
    margin = (abs(grown) + abs(added)) * steps * _ROUNDING
    if isfinite(margin):
        return grown + added - margin, grown + added + margin
    rest = value * (factor - 1.0)  # what one step adds, beside the summand
    margin = (abs(rest) + abs(summand)) * _ROUNDING
    rising, falling = rest + summand > margin, rest + summand < -margin
    return (LARGEST if rising else 0.0), (0.0 if falling else LARGEST)


def _sum_of_powers(factor: float, growth: float, steps: int) -> float:
    """Return ``1 + factor + ... + factor**(steps - 1)``."""
    if factor == 1.0:
        return float(steps)
    if abs(factor - 1.0) < _CLOSE:  # where the plain quotient would lose its digits
        return expm1(steps * log1p(factor - 1.0)) / (factor - 1.0)
    return (growth - 1.0) / (factor - 1.0)

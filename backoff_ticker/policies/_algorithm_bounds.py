"""Between what the n-th failure since ``reset()`` lets a feedback policy answer."""

from __future__ import annotations

from itertools import count, islice
from math import expm1, inf, isfinite, log1p

from .._validation import LARGEST
from ._base import ending_after, geometric

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._algorithm import AlgorithmBackOff
    from ._base import Bounds

_EXACT_STEPS = 1000
"""So many steps are taken one by one, in one to three milliseconds. More would make the bounds
of a single late call dearer; fewer would begin earlier to widen them by ``_STEP_ERROR``."""

_STEP_ERROR = 2.0**-50
"""How far a step and what the formula makes of it are apart at most, relative: 8 roundings.

A rounding is off by at most 2**-53. A step rounds at most four times: the product, the sum, the
delay before that is added to it, the jitter. The formula rounds its factor at most twice, which a
power repeats for each step, and the logarithm of it, which is less than 0.41, at most three times.
An error grows as the delay does, so so many ``steps`` end within ``expm1(steps * _STEP_ERROR)``
times the sum of the absolute values of the formula's terms.
"""

_FORMULA_STEPS = 1000
"""So many steps more stand for what the formula rounds once, at worst the logarithm of a number of
a thousand binary digits before it is raised again."""

_MOST_STEPS = 10**12
"""Beyond, the error has more than a thousandth of the result, and only its direction is used."""

_LEAST = 5e-324
"""A rounding near zero is off by half of this at most, however little the number is."""

_WHOLE = 2.0**53
_CLOSE = 0.5


def failure_bounds(policy: AlgorithmBackOff, n: int) -> Bounds | None:
    """Return the bounds of the ``n``-th failure since ``reset()``; None: it can only be ``STOP``.

    The first steps are those of the policy, taken with bounds instead of delays: rounding keeps
    the order of numbers, so they are exact. From there on a sum or a power stands for the steps, a
    little wider for their rounding.
    """
    if policy.max_attempts and n >= policy.max_attempts:
        return None
    if _is_separate(policy):
        return _settled(policy, policy._raw_bounds(n, None), None)
    exact = list(islice(_exact(policy), min(n, _EXACT_STEPS)))
    return exact[-1] if len(exact) == n else _later(policy, exact[-1], len(exact), n)


def each_failure_bounds(policy: AlgorithmBackOff) -> Iterator[Bounds | None]:
    """Yield ``failure_bounds(policy, n)`` for n from 1 on, each at the cost of one step."""
    each = _each(policy)
    return ending_after(policy.max_attempts - 1, each) if policy.max_attempts else each


def _each(policy: AlgorithmBackOff) -> Iterator[Bounds]:
    if _is_separate(policy):
        for n in count(1):
            yield _settled(policy, policy._raw_bounds(n, None), None)
    taken, last = 0, (0.0, 0.0)
    for last in _exact(policy):
        taken += 1
        yield last
    for n in count(taken + 1):
        yield _later(policy, last, taken, n)


def _is_separate(policy: AlgorithmBackOff) -> bool:
    """Whether no delay depends on the one before."""
    return policy._growth() is None and not policy.consider_actual_delay


def _exact(policy: AlgorithmBackOff) -> Iterator[Bounds]:
    """Yield the bounds of the first calls, of fewer where they change no more."""
    grows = policy._growth() is not None
    last: Bounds | None = None
    for attempt in range(1, _EXACT_STEPS + 1):
        bounds = _settled(policy, policy._raw_bounds(attempt, last), last)
        if grows and bounds == last:
            return
        yield bounds
        last = bounds


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


def _later(policy: AlgorithmBackOff, last: Bounds, taken: int, n: int) -> Bounds:
    """Return the bounds of call ``n``, where ``last`` are those of the last exact one, ``taken``.

    Each end goes on as ``x -> factor * x + summand``. That keeps the order of numbers, so an end
    that rises once always rises and one that falls always falls; therefore the limits, which the
    policy applies at each step, can be applied once, at the end.
    """
    if taken < _EXACT_STEPS:
        return last
    growth = policy._growth()
    if growth is None:
        return last[0], policy._limited(LARGEST)
    factor, summand = growth
    less, more = 1.0 - policy.jitter_factor, 1.0 + policy.jitter_factor
    least = last[0]
    if not policy.consider_actual_delay:
        least = _repeated(least, factor * less, summand * less, n - taken)[0]
    else:
        factor += 1.0
    greatest = _repeated(last[1], factor * more, summand * more, n - taken)[1]
    return policy._limited(least), policy._limited(greatest)


def _repeated(value: float, factor: float, summand: float, steps: int) -> Bounds:
    """Return between what ``value`` is after so many times ``value = value * factor + summand``."""
    if summand.is_integer() and factor == 1.0 and value.is_integer():
        result = int(value) + int(summand) * steps
        if abs(result) < _WHOLE:
            return float(result), float(result)  # sums of whole numbers are not rounded
    if steps > _MOST_STEPS:
        least, greatest = _repeated(value, factor, summand, _MOST_STEPS)
        rises = value * (factor - 1.0) + summand
        return (least if rises >= 0.0 else 0.0), (greatest if rises <= 0.0 else LARGEST)
    error = expm1((steps + _FORMULA_STEPS) * _STEP_ERROR)
    try:
        growth = factor**steps
        times = _sum_of_powers(factor, growth, steps)
    except OverflowError:
        return _exploded(value, factor, summand, steps, error)
    grown, added = value * growth, summand * times
    margin = (abs(grown) + abs(added)) * error + steps * _LEAST * max(growth, 1.0)
    if isfinite(margin):
        return grown + added - margin, grown + added + margin
    return _exploded(value, factor, summand, steps, error)


def _sum_of_powers(factor: float, growth: float, steps: int) -> float:
    """Return ``1 + factor + ... + factor**(steps - 1)``."""
    if factor == 1.0:
        return float(steps)
    if abs(factor - 1.0) < _CLOSE:  # where the plain quotient would lose its digits
        return expm1(steps * log1p(factor - 1.0)) / (factor - 1.0)
    return (growth - 1.0) / (factor - 1.0)


def _exploded(value: float, factor: float, summand: float, steps: int, error: float) -> Bounds:
    """Return what ``_repeated`` does, where a part of it is too big for a float.

    With a factor above 1 it is the distance from the one value that stays, that is multiplied.
    """
    fixed = -summand / (factor - 1.0) if factor > 1.0 else inf
    doubt = (abs(value) + abs(fixed)) * error + steps * _LEAST
    if not isfinite(doubt):
        return 0.0, LARGEST
    nearest, farthest = value - fixed - doubt, value - fixed + doubt
    least = fixed + geometric(nearest, factor, steps) if nearest > 0.0 else 0.0
    size = geometric(farthest, factor, steps) if farthest > 0.0 else 0.0
    return least, (LARGEST if size == LARGEST else fixed + size)

"""The random generator that unseeded policies share.

It is not the global generator of ``random``: drawing from that would disturb a program that seeds
it. All policies share one generator, so copies never draw the same numbers, and copying a policy
costs nothing.
"""

from __future__ import annotations

import random

from ._process import after_fork
from ._validation import safe_repr

_shared = random.Random()  # noqa: S311 - jitter is no secret
after_fork(_shared.seed)

shared_random = _shared.random
"""Return the next number from [0, 1). Thread-safe; seeded again in a forked child."""


def as_rng(name: str, value: object) -> random.Random | None:
    """Return ``value`` if it is a ``random.Random`` or None."""
    if value is None or isinstance(value, random.Random):
        return value
    raise TypeError(f"{name} must be a random.Random or None, not {safe_repr(value)}")


def draw_from(rng: random.Random | None) -> float:
    """Return a number from [0, 1), drawn from ``rng``, or from the shared generator for None."""
    return shared_random() if rng is None else rng.random()

"""Where unseeded policies draw from: one generator of the package's own.

It is not the global generator of ``random``, so that a program that seeds that one is not
disturbed; and it is one, not one a policy, so that copies never draw in step and cost nothing.
"""

from __future__ import annotations

import random

from ._process import after_fork
from ._validation import safe_repr

_shared = random.Random()  # noqa: S311 - jitter is no secret
after_fork(_shared.seed)

shared_random = _shared.random
"""Return the next number from [0, 1); atomic, from any thread, seeded anew in a forked child."""


def as_rng(name: str, value: object) -> random.Random | None:
    """Return ``value`` if it is a ``random.Random`` or None.

    Raises:
        TypeError: It is something else.
    """
    if value is None or isinstance(value, random.Random):
        return value
    raise TypeError(f"{name} must be a random.Random or None, not {safe_repr(value)}")


def draw_from(rng: random.Random | None) -> float:
    """Return a number from [0, 1): of ``rng``, or of the generator of the package for None."""
    return shared_random() if rng is None else rng.random()

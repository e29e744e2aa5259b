"""Seconds as floats outside, whole nanoseconds inside: sums of those are exact."""

from __future__ import annotations

import sys
from math import floor

_A_SECOND = 1_000_000_000


def in_nanoseconds(seconds: float) -> int:
    """Return a finite number of seconds, rounded to nanoseconds once."""
    whole = floor(seconds)
    return whole * _A_SECOND + round((seconds - whole) * _A_SECOND)


def in_seconds(nanoseconds: int) -> float:
    """Return the nearest float."""
    return nanoseconds / _A_SECOND


LATEST = in_nanoseconds(sys.float_info.max)
"""The last time that there is a number of seconds for."""

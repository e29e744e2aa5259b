"""The check of durations that users give."""

from __future__ import annotations

from datetime import timedelta
from math import isfinite


def as_seconds(name: str, value: object, *, zero: bool = False) -> float:
    """Return a duration, seconds or a timedelta, as finite seconds > 0, or >= 0 with ``zero``.

    Raises:
        TypeError, ValueError: It is something else; the error names parameter and value.
    """
    least = ">= 0" if zero else "> 0"
    error = f"{name} must be a finite number of seconds {least} or a timedelta, not {value!r}"
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(error)
    try:
        seconds = float(seconds)
    except OverflowError:
        raise ValueError(error) from None
    if not isfinite(seconds) or seconds < 0.0 or (seconds == 0.0 and not zero):
        raise ValueError(error)
    return seconds

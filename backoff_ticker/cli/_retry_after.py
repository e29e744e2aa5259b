"""``backoff-ticker retry-after``: how long the value of a Retry-After field asks to wait."""

from __future__ import annotations

from math import ceil

from .._retry_after import parse_retry_after
from ._text import exact

__all__ = ["seconds_of"]

_EXACT_BELOW = 1e12


def seconds_of(value: str, now: float) -> str | None:
    """Return the seconds from ``now`` as text, None where ``value`` is no value of Retry-After.

    They are rounded up to a millisecond, so that who waits so long does not come too early. The
    end of a line, as a field cut out of a response has it, is not counted.
    """
    seconds = parse_retry_after(value.rstrip("\r\n"), now)
    if seconds is None:
        return None
    return exact(ceil(seconds * 1000.0) / 1000.0 if seconds < _EXACT_BELOW else seconds)

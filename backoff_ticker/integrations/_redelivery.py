"""The delay of a message that has failed, computed from its number of retries."""

from __future__ import annotations

from itertools import islice

from .._errors import Permanent
from ..policies import delays
from ._checks import as_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta

    from ..policies import BackOff


def delay_after(policy: BackOff, retries: int) -> float | None:
    """Return the delay that follows after ``retries`` retries, in seconds; None for ``STOP``.

    A copy of the policy is asked ``retries + 1`` times, so that nothing needs to be kept of it
    between two attempts, which may be made by different processes. For limits of elapsed time each
    delay counts as waited, and no time counts for the attempts.
    """
    return next(islice(delays(policy), retries, None), None)


def is_permanent(error: BaseException) -> bool:
    """Whether there is a ``Permanent`` among ``error`` and its causes."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        if isinstance(link, Permanent):
            return True
        seen.add(id(link))
        link = link.__cause__
    return False


def bounded(seconds: float, most: float | timedelta | None) -> float:
    """Return the seconds that a ``RetryAfter`` asks for, but at most ``max_retry_after``."""
    return seconds if most is None else min(seconds, as_seconds("max_retry_after", most, zero=True))

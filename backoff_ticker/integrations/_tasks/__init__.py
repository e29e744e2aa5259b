"""What the adapters of task queues share: what errors mean to those that make the attempts."""

from __future__ import annotations

from ... import Permanent
from .._shared import as_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta


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

"""Skipped waits, for tests: see ``backoff_ticker.testing.no_wait``."""

from __future__ import annotations

from ..clock import later

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..clock import Clock, Parker, TimerHandle

active_no_wait: dict[object, int | None] = {}
"""The ``no_wait()`` blocks that are open, each with its ``max_attempts``.

While there is one, retries that begin skip waits.
"""


def fewest_attempts(own: int | None) -> int | None:
    """Return the smallest ``max_attempts`` of a retry and of the open blocks."""
    limits = [limit for limit in (own, *active_no_wait.copy().values()) if limit is not None]
    return min(limits, default=None)


class SkippingClock:
    """The clock of one run whose waits are skipped: skipped time counts as passed.

    So time limits end a run after as many attempts as if it really waited.
    """

    __slots__ = ("clock", "skipped")

    def __init__(self, clock: Clock) -> None:
        self.clock: Clock = clock
        self.skipped: float = 0.0  # seconds by which it is ahead of that clock

    def monotonic(self) -> float:
        return later(self.clock.monotonic(), self.skipped)

    def time(self) -> float:
        return self.clock.time() + self.skipped

    def call_at(self, when: float, callback: Any, *, loop: Any = None) -> TimerHandle:
        return self.clock.call_at(later(when, -self.skipped), callback, loop=loop)

    def parker(self, what: str = "") -> Parker:
        return self.clock.parker(what)

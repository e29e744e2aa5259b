"""Skipped waits, for tests: see ``backoff_ticker.testing.no_wait``."""

from __future__ import annotations

from ..clock import later

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..clock import Clock, Parker, TimerHandle


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

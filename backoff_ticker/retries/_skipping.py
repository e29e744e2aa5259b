"""Waits that are skipped, for tests; see ``backoff_ticker.testing.no_wait``."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable

    from ..clock import Clock, Parker, TimerHandle

skippers: dict[object, None] = {}
"""Who has the waits of retries skipped; while there is anybody, all of them are."""


class SkippingClock:
    """The clock of one run whose waits are skipped: what was skipped counts as passed.

    So limits of time end a run after as many attempts as they would if it really waited.

    Attributes:
        clock: The clock that it stands for.
        skipped: Seconds by which it is ahead.
    """

    __slots__ = ("clock", "skipped")

    def __init__(self, clock: Clock) -> None:
        self.clock: Clock = clock
        self.skipped: float = 0.0

    def monotonic(self) -> float:
        """Return the seconds since some moment."""
        return self.clock.monotonic() + self.skipped

    def time(self) -> float:
        """Return the wall clock, in Unix seconds."""
        return self.clock.time() + self.skipped

    def call_at(
        self,
        when: float,
        callback: Callable[[], object],
        *,
        loop: AbstractEventLoop | None = None,
    ) -> TimerHandle:
        """Have ``callback()`` called at ``when``."""
        return self.clock.call_at(when - self.skipped, callback, loop=loop)

    def parker(self, what: str = "") -> Parker:
        """Return a place to wait."""
        return self.clock.parker(what)

"""What ``no_wait()`` of the tests switches on, and the clock of runs whose waits are skipped."""

from __future__ import annotations

from .._validation import LARGEST
from ..clock import later

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..cancellation import CancellationToken
    from ..clock import Clock, Parker, TimerHandle

active_no_wait: dict[object, int | None] = {}
"""The ``no_wait()`` blocks of tests that are open, each with its ``max_attempts``.

While there is one, retries that begin skip waits.
"""


def fewest_attempts(own: int | None) -> int | None:
    """Return the smallest of a retry's own limit of attempts and those of the open blocks."""
    limits = (own, *active_no_wait.copy().values())
    return min((limit for limit in limits if limit is not None), default=None)


class SkippingClock:
    """The clock of one run in ``no_wait()``: the time of the waits that it skips counts as passed.

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

    def skip(self, seconds: float, token: CancellationToken | None) -> float:
        """Count a wait as waited, up to the deadline of the token; return its seconds."""
        if token is not None:
            if token.cancelled:
                return 0.0
            if token.deadline is not None:
                seconds = max(0.0, min(seconds, token.deadline - self.monotonic()))
        self.skipped = min(self.skipped + seconds, LARGEST / 4)
        return seconds

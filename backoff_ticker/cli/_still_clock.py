"""A clock for answers that nobody waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable

    from .._protocols import Parker, TimerHandle

__all__ = ["StillClock"]


class StillClock:
    """Stands still until somebody sets ``now``.

    Attributes:
        now: Both of its times, in seconds.
    """

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def monotonic(self) -> float:
        """Return ``now``."""
        return self.now

    def time(self) -> float:
        """Return ``now``."""
        return self.now

    def call_at(
        self,
        when: float,
        callback: Callable[[], object],
        *,
        loop: AbstractEventLoop | None = None,
    ) -> TimerHandle:
        """Refuse: nobody waits here."""
        raise NotImplementedError

    def parker(self, what: str = "") -> Parker:
        """Refuse: nobody waits here."""
        raise NotImplementedError

"""Whether a virtual clock has stood still for too long, in real time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..participants._participant import State

if TYPE_CHECKING:
    from collections.abc import Collection

    from ..participants._participant import Participant

_ALL_TOGETHER = 12
"""How many time-outs participants get in total if they act one after the other at one time."""
_FROZEN = 60.0
"""The time-out in seconds while time is frozen on purpose, unless the usual one is longer."""
_AFTER_ERROR = 0.5
"""The time-out in seconds once the block has been left by an error, unless it is shorter anyway."""
_ABANDONED = 0.1
"""The time-out in seconds for participants that were waited for in vain before."""


class SettleTimer:
    """Measures for how long time has stood still, and remembers what was waited for in vain.

    Attributes:
        seconds: The time-out, in real seconds.
    """

    def __init__(self, seconds: float, now: int) -> None:
        self.seconds: float = seconds
        self._if_frozen = max(_FROZEN, seconds)
        self._still_at = now
        self._still_since = 0.0  # 0: measured from the next check
        self._progress = 0
        self._progress_since = 0.0
        self._frozen = False
        self._abandoned_at: int | None = None
        self._abandoned: dict[Participant, int] = {}

    def restart(self) -> None:
        """Start measuring again at the next check."""
        self._still_since = 0.0

    def has_expired(
        self,
        real: float,
        now: int,
        progress: int,
        members: Collection[Participant],
        *,
        frozen: bool,
    ) -> bool:
        """Return whether time has stood still for too long; if so, start again.

        Args:
            real: The real time in seconds.
            now: The time of the clock in nanoseconds.
            progress: A number that changes whenever a participant begins a wait or ends.
            members: The participants that time waits for.
            frozen: Whether time is frozen on purpose.
        """
        if now != self._still_at or not self._still_since or frozen != self._frozen:
            self._still_at, self._frozen = now, frozen
            self._progress, self._still_since = progress, real
            self._progress_since = real
        elif progress != self._progress:
            self._progress, self._progress_since = progress, real
        limit = self.limit(frozen=True) if frozen else self.patience(now, members)
        together = max(limit, _ALL_TOGETHER * self.seconds)
        if real - self._progress_since < limit and real - self._still_since < together:
            return False
        self._progress_since = self._still_since = real
        return True

    def limit(self, *, frozen: bool) -> float:
        """Return the time-out in seconds, at most."""
        return self._if_frozen if frozen else self.seconds

    def hurry(self) -> None:
        """Give up soon: participants may wait for what an error has prevented."""
        self.seconds = self._if_frozen = min(self.seconds, _AFTER_ERROR)

    def patience(self, now: int, members: Collection[Participant]) -> float:
        """Return the time-out in seconds; short if only abandoned participants are waited for."""
        waited_for = _waited_for(members)
        if waited_for and self.abandoned(now, members).issuperset(waited_for):
            return min(self.seconds, _ABANDONED)
        return self.seconds

    def abandon(self, now: int, members: Collection[Participant]) -> None:
        """Remember the participants that are waited for now, in vain."""
        self._abandoned_at, self._abandoned = now, _waited_for(members)

    def abandoned(self, now: int, members: Collection[Participant]) -> set[Participant]:
        """Return the participants that were waited for in vain and have had no turn since."""
        if self._abandoned_at != now:
            return set()
        return {
            one for one, turn in _waited_for(members).items() if self._abandoned.get(one) == turn
        }


def _waited_for(members: Collection[Participant]) -> dict[Participant, int]:
    """Return the participants that do not wait on the clock, and the number of their last turn."""
    return {one: one.last_turn for one in members if one.state is not State.PARKED}

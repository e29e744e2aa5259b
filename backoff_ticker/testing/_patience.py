"""For how long, in real time, a virtual clock waits for participants that do not wait on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._participant import State

if TYPE_CHECKING:
    from collections.abc import Collection

    from ._participant import Participant

_FOR_ALL = 12
"""How many time-outs all those together are given who act one after the other at one time."""
_HELD = 60.0
"""Seconds to wait while time is held still on purpose, unless the time-out is longer."""
_LITTLE = 0.1
"""Seconds to wait for those who were waited for in vain."""


class Patience:
    """Says when time has stood still for too long, and remembers who was waited for in vain.

    Attributes:
        timeout: Seconds after which it is too long.
    """

    def __init__(self, timeout: float, now: int) -> None:
        self.timeout: float = timeout
        self._still_at = now
        self._still_since = 0.0
        self._progress = 0
        self._progress_since = 0.0
        self._held = False
        self._vain_at: int | None = None
        self._in_vain: dict[Participant, int] = {}

    def begin_anew(self) -> None:
        """Wait the whole time from the next look on."""
        self._still_since = 0.0

    def is_over(
        self,
        real: float,
        now: int,
        progress: int,
        members: Collection[Participant],
        *,
        held: bool,
    ) -> bool:
        """Return whether it has been too long; if so, wait as long again.

        Args:
            real: Seconds of real time.
            now: The time of the clock, in nanoseconds.
            progress: Changes whenever a participant does what it is waited for.
            members: Its participants.
            held: Whether time is held still on purpose.
        """
        if now != self._still_at or not self._still_since or held != self._held:
            self._still_at, self._held = now, held
            self._progress, self._still_since = progress, real
            self._progress_since = real
        elif progress != self._progress:
            self._progress, self._progress_since = progress, real
        limit = max(_HELD, self.timeout) if held else self.seconds(now, members)
        together = max(limit, _FOR_ALL * self.timeout)
        if real - self._progress_since < limit and real - self._still_since < together:
            return False
        self._progress_since = self._still_since = real
        return True

    def seconds(self, now: int, members: Collection[Participant]) -> float:
        """Return how long to wait: little, if all that is for those waited for in vain."""
        waited_for = _waited_for(members)
        if waited_for and self.hopeless(now, members).issuperset(waited_for):
            return min(self.timeout, _LITTLE)
        return self.timeout

    def note_in_vain(self, now: int, members: Collection[Participant]) -> None:
        """Remember those who are waited for: it was in vain."""
        self._vain_at, self._in_vain = now, _waited_for(members)

    def hopeless(self, now: int, members: Collection[Participant]) -> set[Participant]:
        """Return those who were waited for in vain, and have not moved since."""
        if self._vain_at != now:
            return set()
        return {one for one, turn in _waited_for(members).items() if self._in_vain.get(one) == turn}


def _waited_for(members: Collection[Participant]) -> dict[Participant, int]:
    """Return those who do not wait on the clock, and which turn was their last."""
    return {one: one.last_turn for one in members if one.state is not State.PARKED}

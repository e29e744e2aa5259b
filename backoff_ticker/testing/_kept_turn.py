"""Whether those who have the turn wait for something that only another participant can do.

Nothing tells it for certain, so it is judged by real time: while nobody in this process works or
lacks a processor, look after look, whoever has the turn waits for a lock or an item. The watch that
looks needs the interpreter as they do: while it comes late itself, nobody is judged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._thread_states import others_are_active
from ._watch import LOOK_INTERVAL

if TYPE_CHECKING:
    from collections.abc import Collection

    from ._participant import Participant

_SHARED_AFTER = 0.05
"""Seconds of doing nothing after which a turn is shared."""
_LATE_LOOK = 2.0 * LOOK_INTERVAL
"""Seconds between two looks that tell that somebody else has the machine or the interpreter."""
_UNJUDGED = 0.05
"""What a second counts for in which it cannot be judged."""


class KeptTurn:
    """For how long participants have kept their turn and done nothing."""

    def __init__(self) -> None:
        self._given = 0
        self._kept = 0.0
        self._looked = 0.0

    def look(self, real: float, given: int, running: Collection[Participant]) -> bool:
        """Return whether it has been too long.

        Args:
            real: Seconds of real time.
            given: How many turns were given so far.
            running: Those who have one.
        """
        elapsed, self._looked = real - self._looked, real
        if given != self._given or not running:
            self._given, self._kept = given, 0.0
            return False
        begun = all(one.ident is not None for one in running)
        judged = begun and elapsed < _LATE_LOOK and not others_are_active()
        self._kept += elapsed if judged else elapsed * _UNJUDGED
        return self._kept >= _SHARED_AFTER

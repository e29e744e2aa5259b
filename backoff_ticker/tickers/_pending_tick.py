"""A ticker between two ticks: what is known of the tick to come, and how that changes.

The methods are pure: they are given the time and the policy's answer, and return the next state.
"""

from __future__ import annotations

import enum
from collections import namedtuple

from ..policies import End
from ._tick import Pace, catch_up

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple

    from ..waiting import Claim
    from ._tick import Tick


class Kind(enum.Enum):
    """What is known of the tick to come."""

    IMMEDIATE = "immediate"
    """It follows no delay: the first one, or the one after ``reset(immediately=True)``."""

    SCHEDULED = "scheduled"
    """It comes after a delay."""

    AWAITING_FEEDBACK = "awaiting feedback"
    """The policy will say the delay once it hears how the work went, or a reader polls."""

    ENDED = "ended"
    """No tick comes."""


# An enum is slow to search.
_IMMEDIATE = Kind.IMMEDIATE
_SCHEDULED = Kind.SCHEDULED
_AWAITING_FEEDBACK = Kind.AWAITING_FEEDBACK
_ENDED = Kind.ENDED

if TYPE_CHECKING:

    class _Fields(NamedTuple):
        claim: Claim
        kind: Kind
        number: int
        due: float | None
        delay: float
        origin: float | None
        missed: int
        returned: tuple[Tick, ...]
        end: End | None

else:
    _Fields = namedtuple(  # noqa: PYI024 - typing is not imported at run time
        "_Fields", "claim kind number due delay origin missed returned end"
    )


class PendingTick(_Fields):
    """The state of a ticker.

    Attributes:
        claim: See ``AtomicState``.
        kind: What is known of the tick to come.
        number: Its number, from 1.
        due: When it falls due; None: unknown, or not fixed before a reader polls.
        delay: The back-off before it; 0.0 unless it is scheduled.
        origin: The moment from which the delay counts; None: from the next poll, or no delay.
        missed: Ticks dropped before it.
        returned: Ticks that were taken and given back; they come first.
        end: How the policy has ended, if it has.
    """

    __slots__ = ()

    @property
    def ignores_cancel(self) -> bool:
        """Whether it comes even if the token is cancelled.

        True for the first tick, until a ``reset()`` puts a delay before it, even one of 0.
        """
        return self.number == 1 and self.kind is _IMMEDIATE

    def with_delay(self, delay: float | End) -> PendingTick:
        """Return it with another delay, counted from the same origin."""
        if isinstance(delay, End):
            return self._replace(
                claim={}, kind=_ENDED, due=None, delay=0.0, origin=None, missed=0, end=delay
            )
        due = None if self.origin is None else self.origin + delay
        return self._replace(claim={}, kind=_SCHEDULED, due=due, delay=delay, missed=0)

    def with_due(self, pace: Pace, now: float) -> PendingTick:
        """Return it as a reader who polls now finds it: with a due time, past slots dropped."""
        if self.kind is _IMMEDIATE:
            return self if self.due is not None else self._replace(claim={}, due=now)
        if self.kind is not _SCHEDULED:
            return self
        origin = now if self.origin is None else self.origin
        due, missed = origin + self.delay, self.missed
        if pace is Pace.SKIP:
            due, missed = catch_up(due, self.delay, now)
        return self._replace(claim={}, due=due, origin=origin, missed=missed)

    def restarted(self, now: float, delay: float | End | None) -> PendingTick:
        """Return the tick of a back-off that restarts now; None: it is due now, without a delay.

        Ticks that were given back are dropped; their numbers are used again where possible.
        """
        number = self.number
        for tick in sorted(self.returned, reverse=True):
            if tick.number == number - 1:
                number -= 1
        if delay is None:
            return PendingTick({}, _IMMEDIATE, number, now, 0.0, None, 0, (), None)
        started = PendingTick({}, _SCHEDULED, number, None, 0.0, now, 0, (), None)
        return started.with_delay(delay)

    def rolled_back(self, number: int) -> PendingTick:
        """Return it as if tick ``number`` had not been taken, if that was the last one taken."""
        return self._replace(claim={}, number=number) if self.number == number + 1 else self


def first_tick(pace: Pace, now: float) -> PendingTick:
    """Return the state of a new ticker: its first tick comes at once.

    With ``Pace.RECEIPT`` it falls due right now, else when a reader first polls.
    """
    due = now if pace is Pace.RECEIPT else None
    return PendingTick({}, _IMMEDIATE, 1, due, 0.0, None, 0, (), None)

"""What the policies around other policies share: how they ask, and how feedback passes through."""

from __future__ import annotations

from .._sentinels import STOP
from .._validation import LARGEST
from ._base import Policy, calls_of, each_bounds_of, span_of
from ._copying import require_policy
from ._running import checked_delay, tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._sentinels import Stop
    from ._base import Bounds, Calls
    from ._protocol import BackOff


class Outer(Policy):
    """Asks policies inside.

    Around a policy that takes feedback it is made as a subclass with ``TakesFeedback``, so that
    ``failure()`` and ``success()`` are there exactly where somebody inside hears them.
    """

    __slots__ = ()

    def _failure(self, timestamp: float | None) -> float | Stop:
        """Tell of a failure; return the seconds until the next attempt, or ``STOP``."""
        raise NotImplementedError

    def _success(self, timestamp: float | None) -> float | Stop:
        """Tell of a success; return the seconds until the next attempt, or ``STOP``."""
        raise NotImplementedError


class TakesFeedback(Outer):
    """Passes on how an attempt went to the policies inside: a ``FeedbackBackOff``."""

    __slots__ = ()

    def failure(self, timestamp: float | None = None) -> float | Stop:
        """Tell that an attempt failed; return the seconds until the next, or ``STOP``.

        Args:
            timestamp: When, for a policy inside that takes one. None: it is told without.

        Raises:
            Exception: What a policy inside raises; nothing was counted then.
        """
        return self._failure(timestamp)

    def success(self, timestamp: float | None = None) -> float | Stop:
        """Tell that an attempt succeeded; return the seconds until the next, or ``STOP``.

        Takes and raises what ``failure()`` does.
        """
        return self._success(timestamp)


class Wrapper(Outer):
    """A policy around one other.

    What that answers is checked here, once, so a subclass is given floats and returns them.
    """

    __slots__ = ("backoff",)

    _changes_success = False
    """Whether ``_changed`` applies to the delay after a success, too."""

    def __init__(self, backoff: BackOff) -> None:
        require_policy("backoff", backoff)
        self.backoff: BackOff = backoff

    def _may_ask(self) -> bool:
        """Whether the policy inside may be asked once more."""
        return True

    def _changed(self, delay: float) -> float | Stop:
        """Return what becomes of a delay of the policy inside."""
        return delay

    def _stopped(self) -> None:
        """Note that the policy inside has answered ``STOP``."""

    def _within(self, bounds: Bounds) -> Bounds | None:
        """Return between what ``_changed`` leaves a delay; None where it stops them all."""
        return bounds

    def _answer(self, delay: float | Stop) -> float | Stop:
        """Return what becomes of an answer of the policy inside to a question or a failure."""
        if delay is STOP:
            self._stopped()
            return STOP
        return self._changed(checked_delay(self.backoff, delay))

    def next_backoff(self) -> float | Stop:
        """Return what becomes of the delay of the policy inside, or ``STOP`` without asking it."""
        if not self._may_ask():
            return STOP
        delay = self.backoff.next_backoff()
        if type(delay) is float and 0.0 <= delay <= LARGEST:  # what _answer does, straight
            return self._changed(delay)
        return self._answer(delay)

    def reset(self) -> None:
        """Begin anew, the policy inside too."""
        self.backoff.reset()

    def _failure(self, timestamp: float | None) -> float | Stop:
        return self._answer(tell(self.backoff, "failure", timestamp)) if self._may_ask() else STOP

    def _success(self, timestamp: float | None) -> float | Stop:
        delay = tell(self.backoff, "success", timestamp)
        if delay is STOP:
            return STOP
        checked = checked_delay(self.backoff, delay)
        return self._changed(checked) if self._changes_success else checked

    def _span(self, first: int, last: int) -> Bounds | None:
        bounds = span_of(self.backoff, first, last)
        return None if bounds is None else self._within(bounds)

    def _each_bounds(self) -> Iterator[Bounds | None]:
        for bounds in each_bounds_of(self.backoff):
            yield None if bounds is None else self._within(bounds)

    def _calls(self) -> Calls:
        return calls_of(self.backoff)

    def _inside(self) -> tuple[BackOff, ...]:
        return (self.backoff,)

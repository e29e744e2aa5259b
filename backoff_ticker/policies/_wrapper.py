"""What the policies around another policy share."""

from __future__ import annotations

from .._stop import STOP
from ._base import Policy, calls_of, span_of
from ._copying import plain_copy
from ._running import is_feedback, require_policy, tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

    from .._protocols import BackOff
    from .._stop import Stop
    from ._base import Bounds

__all__ = ["FeedbackIfInside", "Wrapper"]


class FeedbackIfInside(Policy):
    """Takes feedback if a policy inside does: ``failure()`` and ``success()`` are there then."""

    __slots__ = ()

    def _failure(self, timestamp: float | None = None) -> float | Stop:
        raise NotImplementedError

    def _success(self, timestamp: float | None = None) -> float | Stop:
        raise NotImplementedError

    if not TYPE_CHECKING:  # or checkers would take any name

        def __getattr__(self, name: str) -> object:
            if name in ("failure", "success") and any(map(is_feedback, self._inside())):
                return getattr(self, f"_{name}")
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(message, name=name, obj=self)


class Wrapper(FeedbackIfInside):
    """A policy around one other."""

    __slots__ = ("backoff",)

    def __init__(self, backoff: BackOff) -> None:
        require_policy("backoff", backoff)
        self.backoff: BackOff = backoff

    def _may_ask(self) -> bool:
        """Whether the policy inside may be asked once more."""
        return True

    def _changed(self, delay: float | Stop) -> float | Stop:
        """Return what becomes of an answer of the policy inside."""
        return delay

    def next_backoff(self) -> float | Stop:
        """Return what becomes of the delay of the policy inside, or ``STOP`` without asking it."""
        return self._changed(self.backoff.next_backoff()) if self._may_ask() else STOP

    def reset(self) -> None:
        """Begin anew, the policy inside too."""
        self.backoff.reset()

    def _failure(self, timestamp: float | None = None) -> float | Stop:
        if not self._may_ask():
            return STOP
        return self._changed(tell(self.backoff, "failure", timestamp))

    def _success(self, timestamp: float | None = None) -> float | Stop:
        return tell(self.backoff, "success", timestamp)

    def _span(self, first: int, last: int) -> Bounds | None:
        return span_of(self.backoff, first, last)

    def _calls(self) -> tuple[float, float]:
        return calls_of(self.backoff)

    def _inside(self) -> tuple[BackOff, ...]:
        return (self.backoff,)

    def __copy__(self) -> Self:
        twin = self._twin()
        twin.backoff = plain_copy(self.backoff)
        return twin

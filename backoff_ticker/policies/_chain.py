"""Policies one after the other."""

from __future__ import annotations

from .._stop import STOP
from ._base import calls_of, either, span_of
from ._copying import plain_copy
from ._running import is_feedback, require_policy, tell
from ._wrapper import FeedbackIfInside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from .._protocols import BackOff
    from .._stop import Stop
    from ._base import Bounds

__all__ = ["ChainBackOff", "chain"]


class ChainBackOff(FeedbackIfInside):
    """The delays of one policy, then those of the next. Made by ``chain``.

    Attributes:
        backoffs: The policies.
        position: Which of them is asked, from 0; their number once all have stopped.
    """

    __slots__ = ("backoffs", "position")

    def __init__(self, backoffs: tuple[BackOff, ...]) -> None:
        if not backoffs:
            raise TypeError("chain() needs at least one policy")
        for number, backoff in enumerate(backoffs, 1):
            require_policy(f"argument {number} of chain()", backoff)
        self.backoffs: tuple[BackOff, ...] = tuple({id(part): part for part in backoffs}.values())
        self.position: int = 0

    def _ask(self, question: Callable[[BackOff], float | Stop]) -> float | Stop:
        while self.position < len(self.backoffs):
            delay = question(self.backoffs[self.position])
            if delay is not STOP:
                return delay
            self.position += 1
        return STOP

    def next_backoff(self) -> float | Stop:
        """Return the next delay of the first policy that has not stopped."""
        return self._ask(lambda backoff: backoff.next_backoff())

    def reset(self) -> None:
        """Begin anew with the first policy."""
        for backoff in self.backoffs:
            backoff.reset()
        self.position = 0

    def _failure(self, timestamp: float | None = None) -> float | Stop:
        return self._ask(lambda backoff: _failed(backoff, timestamp))

    def _success(self, timestamp: float | None = None) -> float | Stop:
        return self._ask(lambda backoff: _succeeded(backoff, timestamp))

    def _span(self, first: int, last: int) -> Bounds | None:
        found: Bounds | None = None
        start, end = float(first), float(last)  # counted from the first call of the part
        for backoff in self.backoffs:
            least, most = calls_of(backoff)
            if end >= 1.0 and start <= most:
                found = either(found, span_of(backoff, int(max(start, 1.0)), int(min(end, most))))
            start, end = start - most, end - least
            if end < 1.0:
                break
        return found

    def _calls(self) -> tuple[float, float]:
        calls = [calls_of(backoff) for backoff in self.backoffs]
        return sum(least for least, _ in calls), sum(most for _, most in calls)

    def _inside(self) -> tuple[BackOff, ...]:
        return self.backoffs

    def __copy__(self) -> Self:
        twin = self._twin()
        twin.backoffs = tuple(map(plain_copy, self.backoffs))
        return twin

    def __repr__(self) -> str:
        return f"chain({', '.join(map(repr, self.backoffs))})"


def _failed(backoff: BackOff, timestamp: float | None) -> float | Stop:
    if is_feedback(backoff):
        return tell(backoff, "failure", timestamp)
    return backoff.next_backoff()


def _succeeded(backoff: BackOff, timestamp: float | None) -> float | Stop:
    if is_feedback(backoff):
        return tell(backoff, "success", timestamp)
    backoff.reset()
    return backoff.next_backoff()


def chain(*backoffs: BackOff) -> ChainBackOff:
    """Return a policy with the delays of the first policy, then those of the second, and so on.

    It goes on to the next where one returns ``STOP``; one that has stopped is not asked again
    before ``reset()``, which begins all of them anew, so one that is given twice has one turn.
    Where a policy among them takes feedback the chain does: the one whose turn it is hears it, and
    one that takes none is asked for its next delay on a failure, and begins anew on a success.

    Raises:
        TypeError: None is given, or one is no policy.
    """
    return ChainBackOff(backoffs)

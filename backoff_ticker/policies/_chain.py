"""Policies one after the other."""

from __future__ import annotations

from itertools import islice, repeat
from math import inf
from operator import methodcaller
from sys import maxsize

from .._sentinels import STOP
from .._validation import LARGEST
from ._base import UNKNOWN, calls_of, each_bounds_of, either, ending_after, span_of
from ._copying import is_immutable, policies_in, require_policy
from ._running import checked_delay, is_feedback, tell
from ._wrapper import Outer, TakesFeedback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import overload

    from .._sentinels import Stop
    from ._base import Bounds, Calls
    from ._protocol import BackOff, FeedbackBackOff

_next_backoff: Callable[[BackOff], float | Stop] = methodcaller("next_backoff")


class _Turn:
    """What can be said of a part of a chain in its turn.

    Nothing of its delays where it is not ``fresh``, because a part before has asked a policy
    inside it, nobody knows how often; they may have come to an end, too.
    """

    def __init__(self, backoff: BackOff, *, fresh: bool) -> None:
        least, self.most = calls_of(backoff)
        self.least = least if fresh else 0
        self._backoff = backoff
        self._fresh = fresh

    def span(self, first: int, last: int) -> Bounds | None:
        return span_of(self._backoff, first, last) if self._fresh else UNKNOWN

    def each_bounds(self) -> Iterator[Bounds | None]:
        if self._fresh:
            return each_bounds_of(self._backoff)
        return ending_after(self.most, repeat(UNKNOWN))


def _sum(counts: Iterable[float]) -> float:
    """Return the sum of ints, which may be too big to be added to a float; or infinity."""
    found = list(counts)
    return inf if inf in found else sum(found)


class ChainBackOff(Outer):
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
            backoff = self.backoffs[self.position]
            delay = question(backoff)
            if type(delay) is float and 0.0 <= delay <= LARGEST:
                return delay
            if delay is not STOP:
                return checked_delay(backoff, delay)
            self.position += 1
        return STOP

    def next_backoff(self) -> float | Stop:
        """Return the next delay of the first policy that has not stopped."""
        return self._ask(_next_backoff)

    def reset(self) -> None:
        """Begin anew with the first policy."""
        for backoff in self.backoffs:
            backoff.reset()
        self.position = 0

    def _failure(self, timestamp: float | None) -> float | Stop:
        return self._ask(lambda backoff: _failed(backoff, timestamp))

    def _success(self, timestamp: float | None) -> float | Stop:
        return self._ask(lambda backoff: _succeeded(backoff, timestamp))

    def _turns(self) -> Iterator[_Turn]:
        """Yield what can be said of the turn of each part."""
        before: set[int] = set()
        for backoff in self.backoffs:
            held = policies_in(backoff).items()
            inside = {key for key, policy in held if not is_immutable(policy)}
            yield _Turn(backoff, fresh=before.isdisjoint(inside))
            before |= inside

    def _span(self, first: int, last: int) -> Bounds | None:
        found: Bounds | None = None
        start, end = first, last  # counted from the first call of the part
        for turn in self._turns():
            if start <= turn.most:
                found = either(found, turn.span(start, int(min(end, turn.most))))
            if end <= turn.least:
                break
            start = 1 if start <= turn.most else start - int(turn.most)
            end -= int(turn.least)
        return found

    def _each_bounds(self) -> Iterator[Bounds | None]:
        *turns, last = self._turns()
        if any(turn.least != turn.most for turn in turns):
            yield from super()._each_bounds()  # a part may begin at more than one call
        for turn in turns:
            yield from islice(turn.each_bounds(), int(min(turn.most, maxsize)))
        yield from last.each_bounds()

    def _calls(self) -> Calls:
        turns = list(self._turns())
        return _sum(turn.least for turn in turns), _sum(turn.most for turn in turns)

    def _inside(self) -> tuple[BackOff, ...]:
        return self.backoffs

    def __repr__(self) -> str:
        return f"chain({', '.join(map(repr, self.backoffs))})"


class FeedbackChainBackOff(TakesFeedback, ChainBackOff):
    """The same where a part takes feedback."""

    __slots__ = ()


def _failed(backoff: BackOff, timestamp: float | None) -> float | Stop:
    if is_feedback(backoff):
        return tell(backoff, "failure", timestamp)
    return backoff.next_backoff()


def _succeeded(backoff: BackOff, timestamp: float | None) -> float | Stop:
    if is_feedback(backoff):
        return tell(backoff, "success", timestamp)
    backoff.reset()
    return backoff.next_backoff()


if TYPE_CHECKING:

    @overload
    def chain(b1: FeedbackBackOff, /, *more: BackOff) -> FeedbackChainBackOff: ...
    @overload
    def chain(b1: BackOff, b2: FeedbackBackOff, /, *more: BackOff) -> FeedbackChainBackOff: ...
    @overload
    def chain(
        b1: BackOff, b2: BackOff, b3: FeedbackBackOff, /, *more: BackOff
    ) -> FeedbackChainBackOff: ...
    @overload
    def chain(
        b1: BackOff, b2: BackOff, b3: BackOff, b4: FeedbackBackOff, /, *more: BackOff
    ) -> FeedbackChainBackOff: ...
    @overload
    def chain(*backoffs: BackOff) -> ChainBackOff: ...


def chain(*backoffs: BackOff) -> ChainBackOff:
    """Return a policy with the delays of the first policy, then those of the second, and so on.

    It goes on to the next where one returns ``STOP``; one that has stopped is not asked again
    before ``reset()``, which begins all of them anew, so one that is given twice has one turn.
    Where a policy among them takes feedback the chain does: the one whose turn it is hears it, and
    one that takes none is asked for its next delay on a failure, and begins anew on a success.

    Type checkers see that it takes feedback where one of the first four parts does.

    Raises:
        TypeError: None is given, or one is no policy.
    """
    kind = FeedbackChainBackOff if any(map(is_feedback, backoffs)) else ChainBackOff
    return kind(backoffs)

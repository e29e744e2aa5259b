"""What the policies of the package share: bounds, copies, how they are shown."""

from __future__ import annotations

from math import exp, inf, log

from .._numbers import LARGEST, as_count
from ._copying import copied, is_ours

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ClassVar, Self

    from .._protocols import BackOff
    from .._stop import Stop

    Bounds = tuple[float, float]

__all__ = ["Policy", "calls_of", "either", "power", "span_of", "too_late"]

_LARGEST_SIZE = log(LARGEST)
_DOUBLE = 2.0
_MOST_DOUBLINGS = 2098  # from the least float to the largest
_HALF_A_NANOSECOND = 5e-10
_LAST_CALL = 10**300  # a float can still hold it


class Policy:
    """A policy of this package.

    A subclass defines ``_at``, if its bounds only rise or only fall from call to call until they
    are None for good; else it overrides ``_span``.
    """

    __slots__ = ()

    _shown: ClassVar[tuple[str, ...]] = ()
    """The parameters that ``repr`` shows, in the order of the constructor."""
    _shown_unless: ClassVar[dict[str, object]] = {}
    """Those that it shows only where they have another value."""

    def next_backoff(self) -> float | Stop:
        """Return the seconds to wait (finite, >= 0), or ``STOP``."""
        raise NotImplementedError

    def reset(self) -> None:
        """Begin anew."""
        raise NotImplementedError

    def bounds(self, n: int) -> Bounds | None:
        """Return the least and the greatest delay that a call can return, in seconds.

        The cost has a limit, however great ``n`` is.

        Args:
            n: Which call of ``next_backoff()`` since ``reset()``, from 1.

        Returns:
            The least and the greatest delay; None if that call can only return ``STOP``.

        Raises:
            TypeError, ValueError: ``n`` is no int of at least 1.
        """
        call = min(as_count("n", n, 1), _LAST_CALL)
        return self._span(call, call)

    def _at(self, n: int) -> Bounds | None:
        """Return the bounds of call ``n``."""
        raise NotImplementedError

    def _span(self, first: int, last: int) -> Bounds | None:
        """Return the bounds of all calls from ``first`` to ``last`` together."""
        start = self._at(first)
        if start is None or first == last:
            return start
        end = self._at(last)
        if end is None:
            delays, stops = first, last
            while stops - delays > 1:
                middle = (delays + stops) // 2
                if self._at(middle) is None:
                    stops = middle
                else:
                    delays = middle
            end = self._at(delays)
        return either(start, end)

    def _calls(self) -> tuple[float, float]:
        """Return how many calls return a delay, from the first on: at least, and at most."""
        return inf, inf

    def _inside(self) -> tuple[BackOff, ...]:
        """Return the policies that it asks."""
        return ()

    def _twin(self) -> Self:
        """Return a copy that holds the same policies inside; of one without state, itself."""
        return copied(self)

    def __copy__(self) -> Self:
        return self._twin()

    def __repr__(self) -> str:
        unusual = (n for n, usual in self._shown_unless.items() if getattr(self, n) != usual)
        names = (*self._shown, *unusual)
        parameters = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__name__}({parameters})"


def too_late(elapsed: float, delay: float, limit: float) -> bool:
    """Whether a delay that begins after ``elapsed`` would end after ``limit``; equality is not.

    A sum of floats can miss an equal limit by its rounding, so half a nanosecond is let pass.
    """
    return delay > limit or elapsed + delay > limit + _HALF_A_NANOSECOND


def either(one: Bounds | None, other: Bounds | None) -> Bounds | None:
    """Return the bounds of what is within ``one`` or ``other``."""
    if one is None or other is None:
        return other if one is None else one
    return min(one[0], other[0]), max(one[1], other[1])


def span_of(policy: BackOff, first: int, last: int) -> Bounds | None:
    """Return the bounds of calls of any policy; of a class of a user's own, nothing is known."""
    if isinstance(policy, Policy) and is_ours(type(policy)):
        return policy._span(first, last)
    return 0.0, LARGEST


def calls_of(policy: BackOff) -> tuple[float, float]:
    """Return how many calls of any policy return a delay, at least and at most."""
    return policy._calls() if isinstance(policy, Policy) and is_ours(type(policy)) else (0.0, inf)


def power(first: float, factor: float, steps: int) -> float:
    """Return ``first * factor**steps``, at most the largest float; for numbers of at least 0."""
    if first == 0.0:
        return 0.0
    if steps > _MOST_DOUBLINGS and factor >= _DOUBLE:
        return LARGEST
    try:
        return min(first * factor**steps, LARGEST)
    except OverflowError:
        size = log(first) + steps * log(factor)
        return exp(size) if size < _LARGEST_SIZE else LARGEST

"""What the policies of the package share: bounds, copies, how they are shown."""

from __future__ import annotations

from itertools import chain, count, islice, repeat
from math import exp, inf, log
from sys import maxsize

from .._validation import LARGEST, as_count, safe_repr
from ._copying import TOO_DEEP, copy_of_ours, is_ours

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import ClassVar, TypeGuard

    from .._sentinels import Stop
    from ._protocol import BackOff

    Bounds = tuple[float, float]
    Calls = tuple[float, float]  # ints, as floats do not count so far; inf for endless

_LARGEST_SIZE = log(LARGEST)
_MOST_STEPS = 10**300
"""So many a float can still hold; nothing that so many have not changed changes by more."""
UNKNOWN = 0.0, LARGEST
"""The bounds of a policy of which nothing is known."""


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

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if "__slotnames__" in cls.__dict__:  # of the class that this one was made anew from
            del cls.__slotnames__  # type: ignore[attr-defined]

    def next_backoff(self) -> float | Stop:
        """Return the seconds to wait (finite, >= 0), or ``STOP``."""
        raise NotImplementedError

    def reset(self) -> None:
        """Begin anew."""
        raise NotImplementedError

    def bounds(self, n: int) -> Bounds | None:
        """Return the least and the greatest delay that a call can return, in seconds.

        The cost has a limit, however great ``n`` is. A subclass that changes the delays should
        define this anew; wrappers and chains around it do not ask it, and take any delay from 0
        to the largest float for possible.

        Args:
            n: Which call of ``next_backoff()`` since ``reset()``, from 1; for feedback policies
                which failure since ``reset()``, with no success before it.

        Returns:
            The least and the greatest delay; None if that call can only return ``STOP``.

        Raises:
            TypeError, ValueError: ``n`` is no int of at least 1.
            RecursionError: It holds too many policies inside each other.
        """
        call = as_count("n", n, 1)
        try:
            return self._span(call, call)
        except RecursionError as error:
            raise RecursionError(f"no bounds of {safe_repr(self)}: {TOO_DEEP}") from error

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

    def _each_bounds(self) -> Iterator[Bounds | None]:
        """Yield the bounds of each call, from the first on; override where ``_span`` is dear."""
        return map(self.bounds, count(1))

    def _calls(self) -> Calls:
        """Return how many calls return a delay, from the first on: at least, and at most."""
        return inf, inf

    def _inside(self) -> tuple[BackOff, ...]:
        """Return the policies that it asks."""
        return ()

    def _begin_copy(self) -> None:
        """Forget what holds for the original alone, of which this is a copy."""

    __copy__ = copy_of_ours

    def __repr__(self) -> str:
        unusual = (n for n, usual in self._shown_unless.items() if getattr(self, n) != usual)
        names = (*self._shown, *unusual)
        parameters = ", ".join(f"{name}={safe_repr(getattr(self, name))}" for name in names)
        return f"{type(self).__name__}({parameters})"


def either(one: Bounds | None, other: Bounds | None) -> Bounds | None:
    """Return the bounds of what is within ``one`` or ``other``."""
    if one is None or other is None:
        return other if one is None else one
    return min(one[0], other[0]), max(one[1], other[1])


def is_known(policy: object) -> TypeGuard[Policy]:
    """Whether ``policy`` is of a class of this package, not of a user's own or a subclass."""
    return isinstance(policy, Policy) and is_ours(type(policy))


def span_of(policy: BackOff, first: int, last: int) -> Bounds | None:
    """Return the bounds of calls of any policy; of a class of a user's own, nothing is known."""
    return policy._span(first, last) if is_known(policy) else UNKNOWN


def each_bounds_of(policy: BackOff) -> Iterator[Bounds | None]:
    """Yield ``span_of(policy, n, n)`` for n from 1 on."""
    return policy._each_bounds() if is_known(policy) else repeat(UNKNOWN)


def ending_after(calls: float, each: Iterator[Bounds | None]) -> Iterator[Bounds | None]:
    """Yield the first so many of ``each``, then None for ever."""
    return chain(islice(each, int(min(calls, maxsize))), repeat(None))


def calls_of(policy: BackOff) -> Calls:
    """Return how many calls of any policy return a delay, at least and at most."""
    return policy._calls() if is_known(policy) else (0, inf)


def successive_bounds(policy: BackOff) -> Iterator[Bounds | None]:
    """Yield what ``policy.bounds(n)`` returns for n from 1 on, for ever.

    A step costs the same however far it is, also where ``bounds(n)`` has to go through the calls
    before: in feedback policies, alone, in wrappers, and in chains of which each part but the last
    always gives the same number of delays. Of a class of a user's own, ``bounds`` is asked; where
    it has none, nothing is known.
    """
    if is_known(policy):
        return policy._each_bounds()
    ask = getattr(policy, "bounds", None)
    return repeat(UNKNOWN) if ask is None else map(ask, count(1))


def geometric(first: float, factor: float, steps: int) -> float:
    """Return ``first * factor**steps``, at most the largest float; for numbers of at least 0."""
    if first == 0.0:
        return 0.0
    try:
        return min(first * factor**steps, LARGEST)
    except OverflowError:
        if steps > _MOST_STEPS:
            return geometric(first, factor, _MOST_STEPS)
        size = log(first) + steps * log(factor)
        return exp(size) if size < _LARGEST_SIZE else LARGEST

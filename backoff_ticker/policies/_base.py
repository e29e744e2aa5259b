"""What the policies of the package share: bounds, copies, clocks, ``repr``."""

from __future__ import annotations

from math import exp, inf, log

from .._validation import LARGEST, as_count, as_seconds, safe_repr
from ..clock import resolve_clock
from ._copying import clone, is_builtin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from inspect import Signature
    from typing import Any

    from .._sentinels import Stop
    from ._protocol import BackOff, MonotonicTime

Bounds = tuple[float, float]  # the least and the greatest delay
Calls = tuple[float, float]  # ints, of any size, or inf

_HALF_A_NANOSECOND = 5e-10
_LOG_LARGEST = log(LARGEST)
_MOST_STEPS = 10**300
"""The greatest exponent that a float can hold; a greater one gives the same result."""


class Policy:
    """The base of the policies of this package; itself one of whose delays nothing is known.

    A subclass has an attribute for each parameter of its constructor but ``rng`` and ``clock``.
    """

    __slots__ = ()

    def next_backoff(self) -> float | Stop:
        """Return the seconds to wait (finite, >= 0), or ``STOP``."""
        raise NotImplementedError

    def reset(self) -> None:
        """Start again with the first delay."""
        raise NotImplementedError

    def bounds(self, n: int) -> Bounds | None:
        """Return the least and the greatest delay of the ``n``-th call, in seconds.

        No delay is outside the bounds. They may be wider than necessary: for LIMD, LILD, MILD and
        MIMD and with ``consider_actual_delay`` beyond call 100, and in a chain where it is not
        known when a part stops. The cost does not grow with ``n``.

        Override it in a subclass that changes the delays. For a class that is not of this package,
        wrappers and chains assume that every delay is possible.

        Args:
            n: The number of the call of ``next_backoff()`` since ``reset()``, an int from 1. For
                feedback policies, the number of the failure in a row, none of them after a success:
                where a delay builds on the one before, and in chains, that leads to other delays.

        Returns:
            The least and the greatest delay; None if the call can only return ``STOP``.

        Raises:
            TypeError, ValueError: ``n`` is not an int >= 1.
        """
        call = as_count("n", n, 1)
        return self._span(call, call)

    def _span(self, first: int, last: int) -> Bounds | None:
        """Return common bounds of all calls from ``first`` to ``last``."""
        return 0.0, LARGEST

    def _calls(self) -> Calls:
        """Return how many calls return a delay before the first ``STOP``: at least, at most."""
        return 0, inf

    def _skip(self, calls: int) -> int | None:
        """Go on as after that number of calls, at a cost that does not grow with them.

        It returns how many of them return a delay before the first ``STOP``; None if that, or what
        follows, depends on the time or on answers: then nothing has changed.
        """
        return None

    __copy__ = clone

    def __repr__(self) -> str:
        cls = next(base for base in type(self).__mro__ if is_builtin(base))
        texts = []
        for name, parameter in signature_of(cls).parameters.items():
            if name not in ("rng", "clock"):
                value = getattr(self, name)
                if parameter.kind is not parameter.KEYWORD_ONLY or value != parameter.default:
                    texts.append(f"{name}={safe_repr(value)}")
        return f"{type(self).__name__}({', '.join(texts)})"


def signature_of(make: Callable[..., object]) -> Signature:
    """Return the signature of what makes a policy, with the options of its base class in it."""
    from inspect import signature

    found = signature(make)
    parameters = list(found.parameters.values())
    classes: tuple[Any, ...] = getattr(make, "__mro__", ())
    if Policy in classes and parameters and parameters[-1].kind is parameters[-1].VAR_KEYWORD:
        parameters[-1:] = signature_of(classes[1]).parameters.values()
    return found.replace(parameters=parameters)


# Bounds


def union(one: Bounds | None, other: Bounds | None) -> Bounds | None:
    """Return the bounds of delays that are within ``one`` or ``other``."""
    if one is None or other is None:
        return other if one is None else one
    return min(one[0], other[0]), max(one[1], other[1])


def limited(bounds: Bounds | None, limit: float | None) -> Bounds | None:
    """Return what is left of ``bounds`` if a greater delay than ``limit`` becomes ``STOP``."""
    if bounds is None or limit is None:
        return bounds
    return (bounds[0], min(bounds[1], limit)) if bounds[0] <= limit else None


ANY_POLICY = Policy()
"""Stands for a policy of which nothing is known."""


def known(policy: BackOff) -> Policy:
    """Return what tells the bounds of a policy: itself only if its class is of this package."""
    return policy if isinstance(policy, Policy) and is_builtin(type(policy)) else ANY_POLICY


def geometric(first: float, factor: float, steps: int) -> float:
    """Return ``first * factor**steps``, at most the largest float; for numbers of at least 0."""
    if first == 0.0:
        return 0.0
    try:
        return min(first * factor**steps, LARGEST)
    except OverflowError:  # of the power; the product may still be small
        size = log(first) + min(steps, _MOST_STEPS) * log(factor)
        return exp(size) if size < _LOG_LARGEST else LARGEST


# Caps


def as_cap(name: str, cap: float | timedelta | None) -> float | None:
    """Return the greatest delay in seconds, checked; None and ``math.inf``, for no cap, as is."""
    if cap is None or (isinstance(cap, float) and cap == inf):
        return cap
    expected = "a number of seconds >= 0 or a timedelta, or None or math.inf for no limit"
    return as_seconds(name, cap, expected)


def capped(delay: float, cap: float | None) -> float:
    """Return ``delay``, at most ``cap``, and at most the largest float."""
    if cap is not None and delay > cap:
        return cap
    return min(delay, LARGEST)


# Calls and elapsed time


class CountsCalls(Policy):
    """What policies share whose delays follow from the number of calls, which is ``retries``."""

    __slots__ = ("retries",)

    def __init__(self) -> None:
        self.retries: int = 0

    def _count(self) -> int:
        """Count a call, and return how many came before."""
        self.retries += 1
        return self.retries - 1

    def reset(self) -> None:
        self.retries = 0

    def _calls(self) -> Calls:
        return inf, inf

    def _skip(self, calls: int) -> int | None:
        self.retries += calls
        return calls


class MeasuresTime:
    """What policies with a limit of elapsed time share; the slots are those of their classes."""

    if not TYPE_CHECKING:
        __slots__ = ()

    max_elapsed_time: float | None
    _clock: MonotonicTime | None
    _start: float

    def _measure(self, limit: float | timedelta | None, clock: MonotonicTime | None) -> None:
        """Check the limit, of which None and 0 mean none, and the clock; begin."""
        seconds = as_seconds("max_elapsed_time", 0.0 if limit is None else limit)
        self.max_elapsed_time = seconds or None
        require_clock(clock, "monotonic")
        self._clock = clock
        self._start = self._now()

    @property
    def elapsed_time(self) -> float:
        """The seconds since the policy was made or last reset."""
        return self._now() - self._start

    def _now(self) -> float:
        return (resolve_clock(None) if self._clock is None else self._clock).monotonic()

    def _bind_clock(self, clock: MonotonicTime) -> None:
        if self._clock is None:
            self._clock = clock


def require_clock(clock: object, method: str) -> None:
    """Raise a TypeError unless ``clock`` has the method that tells the time, or is None."""
    if clock is not None and not callable(getattr(clock, method, None)):
        raise TypeError(f"clock must have a method {method}(), not be {safe_repr(clock)}")


def is_too_late(elapsed: float, delay: float, limit: float) -> bool:
    """Whether a delay that begins after ``elapsed`` seconds ends after ``limit``.

    Half a nanosecond is tolerated: sums of floats can miss an equal limit by their rounding.
    """
    return delay > limit or elapsed + delay > limit + _HALF_A_NANOSECOND

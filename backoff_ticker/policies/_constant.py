"""The policies without state: a constant delay, no delay, no retry."""

from __future__ import annotations

from math import inf

from .._sentinels import STOP, Stop
from .._validation import as_seconds
from ._base import Bounds, Calls, Policy
from ._copying import IMMUTABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta


class _Stateless(Policy):
    """What the three share: each call is like the others."""

    __slots__ = ()

    def reset(self) -> None:
        """Do nothing, because there is no state."""

    def _span(self, first: int, last: int) -> Bounds | None:
        delay = self.next_backoff()
        return None if isinstance(delay, Stop) else (delay, delay)

    def _calls(self) -> Calls:
        return inf, inf

    def _skip(self, calls: int) -> int:
        return calls


class ConstantBackOff(_Stateless):
    """Waits the same time before each attempt, without end.

    It is immutable, so every user shares the one object.

    Source: ``ConstantBackOff`` of cenkalti/backoff v4.

    Args:
        interval: The delay: seconds >= 0 or a timedelta.

    Example:
        >>> from backoff_ticker import ConstantBackOff
        >>> ConstantBackOff(2).next_backoff()
        2.0
    """

    __slots__ = ("_interval",)

    def __init__(self, interval: float | timedelta) -> None:
        self._interval = as_seconds("interval", interval)

    @property
    def interval(self) -> float:
        """The delay, in seconds."""
        return self._interval

    def next_backoff(self) -> float:
        """Return the interval."""
        return self._interval

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._interval!r})"


class ZeroBackOff(_Stateless):
    """Tries again at once, without end.

    Source: ``ZeroBackOff`` of cenkalti/backoff v4, ``ZERO_BACKOFF`` of Google's Java client.

    Example:
        >>> from backoff_ticker import ZeroBackOff
        >>> ZeroBackOff().next_backoff()
        0.0
    """

    __slots__ = ()

    def next_backoff(self) -> float:
        """Return 0.0."""
        return 0.0


class StopBackOff(_Stateless):
    """Never tries again.

    Source: ``StopBackOff`` of cenkalti/backoff v4, ``STOP_BACKOFF`` of Google's Java client.

    Example:
        >>> from backoff_ticker import StopBackOff
        >>> StopBackOff().next_backoff()
        STOP
    """

    __slots__ = ()

    def next_backoff(self) -> Stop:
        """Return ``STOP``."""
        return STOP

    def _calls(self) -> Calls:
        return 0, 0

    def _skip(self, calls: int) -> int:
        return 0


IMMUTABLE.update((ConstantBackOff, ZeroBackOff, StopBackOff))

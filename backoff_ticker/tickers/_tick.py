"""The tick, and the paces: pure rules of when the next tick is due."""

from __future__ import annotations

import enum
from collections import namedtuple
from math import ceil, inf

from ..clock import later

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import NamedTuple


class Pace(enum.Enum):
    """How a ticker treats a reader that is slower than its ticks.

    A pace says from when a delay runs, and what happens to ticks that were not taken in time. In
    the diagram every delay is 10 s. A reader works from 0 s to 25 s (``=``) and afterwards only
    reads. The numbers are the ``due`` of its ticks, and stand where it gets them.

    .. code-block:: text

        seconds  0     5     10    15    20    25    30    35    40    45
        reader   ==============================
        RECEIPT  0                             10          35          45
        RETURN   0                                         35          45
        BURST    0                             10,20 30          40
        SKIP     0                                   30          40

    Example:
        >>> from backoff_ticker import ConstantBackOff, Pace, Ticker
        >>> with Ticker(ConstantBackOff(0.001), pace=Pace.BURST) as ticker:
        ...     first, second = ticker.receive(), ticker.receive()
        >>> round(second.due - first.due, 9)
        0.001
    """

    RECEIPT = "receipt"
    """The delay runs from when the previous tick was taken, as in Go. At most one tick waits."""

    RETURN = "return"
    """The delay runs from when the reader asks for the next tick, so a rest follows the work."""

    BURST = "burst"
    """Due times are a fixed schedule; ticks that are late come at once, all of them."""

    SKIP = "skip"
    """The same schedule; ticks whose time has passed when the reader asks are dropped."""

    def due_after(
        self, slot: float, taken: float, delay: float
    ) -> tuple[float | None, float | None, int]:
        """Return ``(due, origin, missed)`` after a tick due at ``slot``; None: a poll decides."""
        if self is Pace.RETURN:
            return None, None, 0
        origin = taken if self is Pace.RECEIPT else slot
        due, missed = later(origin, delay), 0
        if self is Pace.SKIP:
            due, missed = catch_up(due, delay, taken)
        return due, origin, missed


if TYPE_CHECKING:

    class _TickFields(NamedTuple):
        number: int
        time: float
        due: float
        delay: float
        lateness: float
        missed: int
        since_success: int = 0

else:
    _TickFields = namedtuple(  # noqa: PYI024 - typing is not imported at run time
        "_TickFields", "number time due delay lateness missed since_success", defaults=(0,)
    )


class Tick(_TickFields):
    """One tick of a ticker; ``float(tick)`` is its ``time``.

    Attributes:
        number: From 1; ticks that ``Pace.SKIP`` dropped are not counted.
        time: When it was due on the wall clock, in Unix seconds.
        due: When it was due, in the clock's monotonic seconds.
        delay: The delay of the policy before it, in seconds; for the first tick that of ``first=``.
        lateness: The seconds from ``due`` until a reader took it, >= 0.
        missed: How many were dropped before it: by ``Pace.SKIP``, or as a sink was full.
        since_success: The ticks before it since the start, a ``success()`` or a ``reset()``. If you
            call ``success()`` after work that went well, these are the failures in a row.

    Example:
        >>> from backoff_ticker import ConstantBackOff, Ticker
        >>> tick = Ticker(ConstantBackOff(1)).receive()
        >>> tick.number, tick.delay, tick.missed, tick.since_success
        (1, 0.0, 0, 0)
        >>> float(tick) == tick.time
        True
    """

    __slots__ = ()

    def __float__(self) -> float:
        return self.time

    @property
    def datetime(self) -> datetime:
        """When the tick was due, as an aware ``datetime`` in UTC."""
        from datetime import UTC, datetime

        return datetime.fromtimestamp(self.time, UTC)


def catch_up(due: float, delay: float, now: float) -> tuple[float, int]:
    """Drop late ticks: return the first ``due + k * delay`` (k >= 0) not before ``now``, and k.

    It is ``now`` and 0 if ``delay`` is too short to change ``now``.

    Source: ``MissedTickBehavior::Skip`` of tokio, for delays that differ from tick to tick.
    """
    if due >= now:
        return due, 0
    if now + delay == now or (steps := (now - due) / delay) == inf:
        return now, 0
    missed = ceil(steps)
    if later(due, (missed - 1) * delay) >= now:
        missed -= 1
    elif later(due, missed * delay) < now:
        missed += 1
    return max(later(due, missed * delay), now), missed

"""The tick, the paces, and the state of a ticker: pure rules of when the next tick is due."""

from __future__ import annotations

import enum
from collections import namedtuple
from math import ceil, inf

from ..clock import later
from ..policies import End

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from typing import Any, NamedTuple

    Rule = Callable[["PendingTick"], "PendingTick"]


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
    """What a ticker gives its reader; ``float(tick)`` is its ``time``.

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


def due_after(origin: float, delay: float, pace: Pace, now: float) -> tuple[float, int]:
    """Return when a delay is over that runs from ``origin``, and how many ticks that drops."""
    due = later(origin, delay)
    return catch_up(due, delay, now) if pace is Pace.SKIP else (due, 0)


_new_tuple = tuple.__new__  # Tick() takes longer, and so does an enum's member
_RECEIPT = Pace.RECEIPT


class PendingTick:
    """The state of a ticker: what is known of the next tick.

    An instance is never changed once other threads can see it. The methods are given the time and
    the policy's answer, and return the next state.
    """

    __slots__ = (
        *("delay", "due", "end", "first", "is_immediate", "missed", "number", "since_success"),
        *("origin", "returned"),
    )

    number: int  # of the next tick, from 1
    first: int  # the number of the first tick after the last reset
    is_immediate: bool  # whether no delay is before it: it is the first, or reset() said so
    delay: float | None  # the back-off before it; None: the policy has to hear of the work first
    due: float | None  # None: unknown, or not fixed before a reader polls
    origin: float | None  # from when the delay counts; None: from the next poll, or no delay
    missed: int  # ticks dropped before it
    since_success: int  # ticks taken since the start, the last success or the last reset
    returned: tuple[Tick, ...]  # ticks that were taken and given back; they come first
    end: End | None  # how the policy has ended: then there is no next tick

    def replace(self, **changes: Any) -> PendingTick:
        copy = PendingTick()
        for name in PendingTick.__slots__:
            setattr(copy, name, changes[name] if name in changes else getattr(self, name))
        return copy

    def taken(self, pace: Pace, now: float, wall: float, delay: Any) -> tuple[Tick, PendingTick]:
        """Return the tick that is taken at ``now`` (``wall`` in Unix seconds), and the next state.

        The policy has answered ``delay``: seconds, an ``End``, or None as it awaits feedback. It is
        written out for speed: ``replace()`` alone would take a fifth of the time of a tick.
        """
        due: Any = self.due
        late = now - due
        fields = self.number, wall - late, due, self.delay, late, self.missed, self.since_success
        after = PendingTick()
        after.number = self.number + 1
        after.first = self.first
        after.is_immediate = False
        after.due = after.origin = after.end = None
        after.missed = 0
        after.since_success = self.since_success + 1
        after.returned = ()
        after.delay = delay
        if delay.__class__ is End:
            after.delay, after.end = None, delay
        elif pace is _RECEIPT:
            after.origin = now
            if delay is not None:
                after.due = later(now, delay) if delay else now
        elif pace is not Pace.RETURN:
            after.origin = due
            if delay is not None:
                after.due, after.missed = due_after(due, delay, pace, now)
        return _new_tuple(Tick, fields), after

    @property
    def is_first(self) -> bool:
        """Whether the next tick is the very first, and has no delay."""
        if self.returned:
            return self.returned[0].number == 1 and not self.returned[0].delay
        return self.number == 1 and self.is_immediate

    @property
    def awaits_feedback(self) -> bool:
        """Whether the policy will say the delay once it hears how the work went."""
        return self.delay is None and self.end is None

    def with_delay(self, delay: float | End) -> PendingTick:
        """Return the next state with another delay, counted from the same origin."""
        if isinstance(delay, End):
            return self.replace(is_immediate=False, delay=None, due=None, origin=None, end=delay)
        due = None if self.origin is None else later(self.origin, delay)
        return self.replace(is_immediate=False, due=due, delay=delay, missed=0)

    def recovered(self) -> PendingTick:
        returned = tuple(tick._replace(since_success=i) for i, tick in enumerate(self.returned))
        return self.replace(since_success=len(returned), returned=returned)

    def with_due(self, pace: Pace, now: float) -> PendingTick:
        """Return the state for a reader that polls now: with a due time, and past slots dropped."""
        if self.is_immediate and self.due is None:
            return self.replace(due=now)
        if self.is_immediate or self.delay is None:
            return self
        origin = now if self.origin is None else self.origin
        due, missed = due_after(origin, self.delay, pace, now)
        return self.replace(due=due, origin=origin, missed=missed)

    def restarted(self, now: float, delay: float | End | None) -> PendingTick:
        """Return the state of a back-off that restarts now; ``delay`` None: the tick is due now."""
        number = self.number
        for tick in sorted(self.returned, reverse=True):  # dropped, and counted again
            if tick.number == number - 1:
                number -= 1
        first = first_tick(now).replace(number=number, first=number)
        return first if delay is None else first.replace(origin=now).with_delay(delay)

    def given_back(self, tick: Tick) -> PendingTick:
        """Return the state with a tick for the next reader; one from before a reset is dropped."""
        number = tick.number
        if number >= self.first:
            return self.replace(returned=tuple(sorted((*self.returned, tick))))
        return self.replace(number=number, first=number) if self.number == number + 1 else self


def unchanged(pending: PendingTick) -> PendingTick:
    """A rule that has the ticker's timer looked at, as every rule has, and does nothing else."""
    return pending


def first_tick(now: float | None, delay: float = 0.0) -> PendingTick:
    """Return the state of a new ticker, whose first tick follows no delay of the policy."""
    first = PendingTick()
    first.is_immediate = not delay
    first.number = first.first = 1
    first.due = now if now is None or not delay else later(now, delay)
    first.delay, first.origin, first.end = delay, now if delay else None, None
    first.missed = first.since_success = 0
    first.returned = ()
    return first

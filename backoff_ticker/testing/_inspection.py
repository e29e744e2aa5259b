"""What is set on a virtual clock, and who waits on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .._validation import as_count, as_seconds
from ._errors import SettleTimeout
from ._participants import State
from .standard_library._loops import LOOP_WAIT

if TYPE_CHECKING:
    from ._kernel import Kernel


class TimerInfo(NamedTuple):
    """A timer that is set on a virtual clock; ``clock.pending()`` returns a list of them.

    Attributes:
        when: When it is due, in seconds of the clock.
        what: What it is for, in words.
        owner: The participant that it wakes, or the participant in whose event loop it is; None for
            a callback of the clock.

    Example:
        >>> from backoff_ticker.testing import VirtualClock
        >>> with VirtualClock() as clock:
        ...     timer = clock.call_at(5, print)
        ...     print(clock.pending())
        [TimerInfo(when=5.0, what='call of print', owner=None)]
    """

    when: float
    what: str
    owner: str | None


def pending(kernel: Kernel) -> list[TimerInfo]:
    """Return the timers that are set, in the order in which they are due."""

    def find() -> list[TimerInfo]:
        found = [
            TimerInfo(timer.when, timer.what, timer.sleeper.name if timer.sleeper else None)
            for timer in kernel.timers.pending()
            if timer.what != LOOP_WAIT  # a loop lists its own
        ]
        found += [TimerInfo(*timer) for loop in kernel.loops for timer in loop.pending()]
        return sorted(found, key=lambda timer: timer.when)

    return kernel.query(find)


def block_until(kernel: Kernel, timers: int | None, parked: int | None, timeout: float) -> None:
    """Wait until so many timers are set and so many threads wait, for ``timeout`` real seconds."""
    wanted_timers = 0 if timers is None else as_count("timers", timers)
    wanted_parked = 0 if parked is None else as_count("parked", parked)

    def count_parked() -> int:
        waiting = [one for one in (*kernel.members, *kernel.guests) if one.state is State.PARKED]
        return sum(one.place is not kernel.step for one in waiting)

    def enough() -> bool:
        return len(pending(kernel)) >= wanted_timers and count_parked() >= wanted_parked

    if not kernel.commands.wait_for(enough, as_seconds("timeout", timeout)):
        raise SettleTimeout(
            f"block_until({timers=}, {parked=}): only {pending(kernel)} and "
            f"{kernel.query(count_parked)} parked after {timeout:g} s real"
        )

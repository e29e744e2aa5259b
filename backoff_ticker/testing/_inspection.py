"""What a test can see of a virtual clock, and hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .._validation import as_count, as_seconds, safe_repr
from ._clock_base import ClockBase, check_callable
from ._errors import ClockUsageError, SettleTimeout
from ._participant import State
from ._traps import Trap

if TYPE_CHECKING:
    from collections.abc import Callable


class TimerInfo(NamedTuple):
    """A timer that is pending.

    Attributes:
        when: When it is due, in seconds of the clock.
        what: What it is for.
        owner: The participant whose wait it ends, or in whose event loop it is; None if it is a
            callback of the clock.
    """

    when: float
    what: str
    owner: str | None


class Inspection(ClockBase):
    """Timers, waits, traps."""

    _traps: list[Trap]

    def pending(self) -> list[TimerInfo]:
        """Return the timers that are pending, in the order in which they are due."""
        return self._kernel.ask(self._pending)

    def _pending(self) -> list[TimerInfo]:
        kernel = self._kernel
        found = [
            TimerInfo(timer.when, timer.what, timer.sleeper.name if timer.sleeper else None)
            for timer in kernel.timers.pending()
            if timer.sleeper is None or timer.sleeper.parker is not None
        ]
        for loop_driver in kernel.loop_drivers:
            found += [TimerInfo(*timer) for timer in loop_driver.pending()]
        return sorted(found, key=lambda timer: timer.when)

    def block_until(
        self, timers: int | None = None, parked: int | None = None, timeout: float = 5.0
    ) -> None:
        """Wait, in real time, until so many timers are pending and participants wait.

        Args:
            timers: How many timers, 0 or more, those of event loops included; None: 0.
            parked: How many participants, and threads that are not tracked, wait on the clock, 0
                or more; None: 0.
            timeout: Real seconds, 0 or more.

        Raises:
            TypeError, ValueError: A number is none of these.
            SettleTimeout: After ``timeout`` real seconds there are fewer.
        """
        kernel = self._kernel
        kernel.refuse_in_callback("block_until()")

        def counts() -> tuple[int, int]:
            waiting = sum(one.state is State.PARKED for one in kernel.members) + len(kernel.guests)
            return len(self._pending()), waiting

        wanted = (
            0 if timers is None else as_count("timers", timers),
            0 if parked is None else as_count("parked", parked),
        )

        def enough() -> bool:
            return all(found >= least for found, least in zip(counts(), wanted, strict=True))

        if not kernel.wait_for(enough, as_seconds("timeout", timeout)):
            asked = [f"{n}={v}" for n, v in (("timers", timers), ("parked", parked)) if v]
            found = kernel.ask(counts)
            due = ", ".join(f"{info.what} at t={info.when:.9g}" for info in self.pending())
            raise SettleTimeout(
                f"block_until({', '.join(asked)}): only {found[0]} timers and {found[1]} parked "
                f"after {timeout:g} s real: {due or 'nothing is due'}"
            )

    def trap(self, kind: str, match: Callable[..., object] | None = None) -> Trap:
        """Hold the calls that participants make of a method of this clock, until released.

        Args:
            kind: The method: ``"monotonic"``, ``"time"``, ``"call_at"`` or ``"parker"``.
            match: Called with the arguments of a call: whether to hold it; None: each.

        Raises:
            ClockUsageError: ``kind`` is none of these.
            TypeError: ``match`` is neither callable nor None.
        """
        if match is not None:
            check_callable("match", match)
        kinds = ("monotonic", "time", "call_at", "parker")
        if kind not in kinds:
            raise ClockUsageError(f"kind must be one of {', '.join(kinds)}, not {safe_repr(kind)}")
        return Trap(self._kernel, self._traps, kind, match)

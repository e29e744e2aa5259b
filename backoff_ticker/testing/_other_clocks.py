"""Objects on the system clock that a thread of a virtual clock uses.

An object keeps the clock that was current when it was made. One that was made before the virtual
clock was entered would wait in real time, while virtual time stands still. Such a wait is one
on the virtual clock if it has no time limit, and is refused otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..clock import SystemClock
from ._errors import ClockUsageError
from ._kernel import Kernel, kernel_here
from ._participants import State
from ._reports import called_object, on_another_clock
from ._thread_side import VirtualParker
from .standard_library._patches import around

if TYPE_CHECKING:
    from ..clock import Parker
    from .standard_library._patches import Original


class _Parker(VirtualParker):
    """Where a thread of a virtual clock waits for an object on the system clock."""

    def __init__(self, kernel: Kernel, real: Parker, what: str) -> None:
        super().__init__(kernel, what)
        self._real = real

    def park(self, deadline: float | None) -> bool:
        """Wait on the virtual clock, or in real time inside ``idle()`` and ``external()``."""
        if deadline is None:
            return super().park(None)
        _check_real_time_is_meant(self._kernel)
        return self._real.park(deadline)

    def unpark(self) -> None:
        super().unpark()
        self._real.unpark()


def _check_real_time_is_meant(kernel: Kernel) -> None:
    """Raise a ``ClockUsageError``, unless the caller said so or uses nothing but a clock."""
    called, participant = called_object(), kernel.participant_here("")
    # A thread that drives the clock does not change its state inside external().
    is_meant = participant.state is State.EXTERNAL or (kernel.holds and not participant.counted)
    if called is not None and not is_meant:
        text = on_another_clock(called, SystemClock(), kernel.clock)
        raise ClockUsageError(f"{text} To wait in real time, use clock.external(...) in a thread.")


def _parker(original: Original, clock: SystemClock, what: str = "") -> Parker:
    kernel, real = kernel_here(), original(clock, what)
    return _Parker(kernel, real, what) if kernel and kernel.known_here() else real


def _call_at(original: Original, clock: SystemClock, *args: Any, **kwargs: Any) -> Any:
    kernel = kernel_here()
    if kernel and kernel.known_here():
        _check_real_time_is_meant(kernel)
    return original(clock, *args, **kwargs)


SYSTEM_CLOCK_PATCHES = [
    (SystemClock, "parker", around(_parker)),
    (SystemClock, "call_at", around(_call_at)),
]

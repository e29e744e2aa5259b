"""Objects on the system clock that a thread of a virtual clock uses.

An object keeps the clock that was current when it was made. One that was made before the virtual
clock was entered would wait in real time, while virtual time stands still. Such a wait is one
on the virtual clock if it has no time limit, and is refused otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..clock import SystemClock
from ._errors import ClockUsageError
from ._kernel import kernel_here
from ._participants import State
from ._reports import called_object, on_another_clock
from ._thread_side import VirtualParker

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..clock import Parker
    from ._kernel import Kernel


class _Parker(VirtualParker):
    """Where a thread of a virtual clock waits for an object on the system clock."""

    __slots__ = ("_real",)

    def __init__(self, kernel: Kernel, real: Parker, what: str) -> None:
        super().__init__(kernel, what)
        self._real = real

    def park(self, deadline: float | None) -> bool:
        """Wait on the virtual clock; until ``deadline`` only inside ``idle()`` or ``external()``.

        Raises:
            ClockUsageError: There is a deadline, and an object of this package has set it.
        """
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
    is_meant = participant.state is State.EXTERNAL or (
        not participant.counted and bool(kernel.holds)
    )
    if called is not None and not is_meant:
        text = on_another_clock(called, SystemClock(), kernel.clock)
        raise ClockUsageError(f"{text} To wait in real time, use clock.external(...) in a thread.")


def _parking(original: Callable[..., Any]) -> Callable[..., Any]:
    def parker(clock: SystemClock, what: str = "") -> Parker:
        kernel, real = kernel_here(), original(clock, what)
        return _Parker(kernel, real, what) if kernel and kernel.known_here() else real

    return parker


def _calling(original: Callable[..., Any]) -> Callable[..., Any]:
    def call_at(clock: SystemClock, when: Any, callback: Any, *, loop: Any = None) -> Any:  # noqa: ANN401
        kernel = kernel_here()
        if kernel and kernel.known_here():
            _check_real_time_is_meant(kernel)
        return original(clock, when, callback, loop=loop)

    return call_at


SYSTEM_CLOCK_PATCHES = [
    (SystemClock, "parker", _parking),
    (SystemClock, "call_at", _calling),
]

"""The system clock, and which clock is the current one."""

from __future__ import annotations

import threading
from sys import modules

from .._validation import LARGEST, as_number, safe_repr
from ._loop_timers import Alarm, call_in_loop
from ._scheduler import Scheduler, SystemParker
from ._time import monotonic, wall_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable

    from ._protocol import Clock, TimerHandle

scheduler = Scheduler(monotonic)


class SystemClock:
    """The real clock: ``time.monotonic()``, ``time.time()`` and real waits.

    It is used wherever no other clock is given. There is one instance, which each call of the class
    returns.

    Thread safety: every method may be called in any thread, signal handler or finalizer.

    Example:
        >>> from backoff_ticker import SystemClock
        >>> clock = SystemClock()
        >>> clock.parker().park(deadline=clock.monotonic() + 0.001)
        False
    """

    __slots__ = ()

    monotonic: staticmethod[[], float] = staticmethod(monotonic)
    time: staticmethod[[], float] = staticmethod(wall_time)

    def __new__(cls) -> SystemClock:  # noqa: PYI034 - there is one instance
        return _SYSTEM

    def call_at(
        self, when: float, callback: Callable[[], object], *, loop: AbstractEventLoop | None = None
    ) -> TimerHandle:
        """Call ``callback()`` at ``when``, in ``loop`` or else in the scheduler thread.

        Raises:
            TypeError, ValueError: ``when`` is not a finite number, or ``callback`` is not callable.
            RuntimeError: The scheduler thread cannot be started (there are no threads left, or the
                interpreter shuts down), or the event loop is closed.
        """
        if loop is not None and isinstance(callback, Alarm):
            return call_in_loop(monotonic, when, callback, loop)
        if not callable(callback):
            raise TypeError(f"callback must be callable, not {safe_repr(callback)}")
        if when.__class__ is not float or not -LARGEST <= when <= LARGEST:
            when = as_number("when", when, "a finite number of monotonic seconds")
        if loop is None:
            return scheduler.call_at(when, callback)
        return call_in_loop(monotonic, when, callback, loop)

    def parker(self, what: str = "") -> SystemParker:
        """Return a parker for the calling thread."""
        return SystemParker()

    def __repr__(self) -> str:
        return "SystemClock()"

    def __reduce__(self) -> tuple[type[SystemClock], tuple[()]]:
        return SystemClock, ()


_SYSTEM: SystemClock = object.__new__(SystemClock)

current_clocks: dict[int, Clock] = {}
"""The clock that ``clock=None`` means, by thread ident; only tests on virtual time set one."""

clock_finders: list[Callable[[], Clock | None]] = []
"""What finds the clock of a run of trio; None: it has real time, or none runs in this thread."""


def resolve_clock(clock: Clock | None) -> Clock:
    """Return ``clock``, checked, or the current clock for None."""
    if clock is None:
        current = current_clocks.get(threading.get_ident()) if current_clocks else None
        if current is None and "trio" in modules:
            current = clock_finders[0]()
        return _SYSTEM if current is None else current
    if clock is _SYSTEM:
        return clock
    if isinstance(clock, type):
        raise TypeError(f"clock must be a Clock, not the class {clock!r}")
    for method in ("monotonic", "time", "call_at", "parker"):
        if not callable(getattr(clock, method, None)):
            raise TypeError(
                f"clock must be a Clock, not {safe_repr(clock)}: it has no method {method}()"
            )
    return clock


def one_clock(caller: str, clocks: list[Clock], default: Clock) -> Clock:
    """Return the clock that all ``clocks`` are, or ``default`` if there are none."""
    first = clocks[0] if clocks else default
    for clock in clocks:
        if clock is not first:
            raise ValueError(f"{caller} needs sources on one clock, not on {first!r} and {clock!r}")
    return first


def current_clock() -> Clock:
    """Return the clock that is used in this thread where none is given.

    It is the system clock, or the ``VirtualClock`` of a test. Call it each time that you need the
    time, so that code of yours agrees with this package in tests.

    Example:
        >>> from backoff_ticker import current_clock
        >>> from backoff_ticker.testing import VirtualClock
        >>> current_clock()
        SystemClock()
        >>> with VirtualClock():
        ...     current_clock().monotonic()
        0.0

    Thread safety: any thread; a virtual clock is current in the threads that take part in it.
    """
    return resolve_clock(None)

"""System time: the only room that reads it; where threads wait for it."""

from __future__ import annotations

import threading
import time

from .._validation import LARGEST, LONGEST_WAIT, as_number, safe_repr
from ._loop_timers import LoopTimers
from ._scheduler import Scheduler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable

    from ._protocol import Clock, TimerHandle

scheduler = Scheduler(time.monotonic)
"""The one scheduler of the process."""

loop_timers = LoopTimers(time.monotonic)
"""The timers of all event loops."""


class SystemClock:
    """The time of the machine: ``time.monotonic()``, ``time.time()`` and real waits.

    There is one such clock, and each call of the class returns it. It may be used from any thread,
    signal handler or finalizer.
    """

    __slots__ = ()

    monotonic: staticmethod[[], float] = staticmethod(time.monotonic)
    time: staticmethod[[], float] = staticmethod(time.time)

    def __new__(cls) -> SystemClock:  # noqa: PYI034 - there is one
        return _SYSTEM

    def call_at(
        self,
        when: float,
        callback: Callable[[], object],
        *,
        loop: AbstractEventLoop | None = None,
    ) -> TimerHandle:
        """Have ``callback()`` called at ``when``: in ``loop``, else in the scheduler thread.

        Raises:
            TypeError, ValueError: ``when`` is no finite number, or ``callback`` not callable.
            RuntimeError: The scheduler thread cannot be started (no threads left, or the
                interpreter is shutting down), or the loop is closed.
        """
        if not callable(callback):
            raise TypeError(f"callback must be callable, not {safe_repr(callback)}")
        if when.__class__ is not float or not -LARGEST <= when <= LARGEST:
            when = as_number("when", when, "a finite number of monotonic seconds")
        if loop is None:
            return scheduler.call_at(when, callback)
        return loop_timers.call_at(when, callback, loop)

    def parker(self, what: str = "") -> SystemParker:  # noqa: ARG002 - a virtual clock names waits
        """Return a place to wait for the calling thread."""
        return SystemParker()

    def __repr__(self) -> str:
        return "SystemClock()"

    def __reduce__(self) -> tuple[type[SystemClock], tuple[()]]:
        return SystemClock, ()


class SystemParker:
    """A raw lock that its one waiter acquires twice: the cheapest wait that can be broken off."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def park(self, deadline: float | None) -> bool:
        """Wait until unparked (True) or until ``deadline`` (False), never less."""
        acquire = self._lock.acquire
        if deadline is None:
            return acquire()  # wakes sooner than an acquire with any time-out
        while True:
            remaining = deadline - time.monotonic()
            if remaining <= 0.0:
                return acquire(blocking=False)
            if acquire(timeout=min(remaining, LONGEST_WAIT)):
                return True

    def unpark(self) -> None:
        """End the wait, or the next one."""
        try:
            self._lock.release()
        except RuntimeError:
            pass  # unparked already


_SYSTEM: SystemClock = object.__new__(SystemClock)

current_clocks: dict[int, Clock] = {}
"""What ``clock=None`` means, by thread: empty but in tests on virtual time."""


def resolve_clock(clock: Clock | None) -> Clock:
    """Return ``clock``, or the current clock for None.

    Raises:
        TypeError: It lacks a method of a clock.
    """
    if clock is None:
        return current_clocks.get(threading.get_ident(), _SYSTEM) if current_clocks else _SYSTEM
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

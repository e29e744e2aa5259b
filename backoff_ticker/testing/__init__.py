"""Time in tests: a clock that threads and event loops share, exact and instant."""

from __future__ import annotations

from ._errors import (
    ClockLeakError,
    ClockUsageError,
    SettleTimeout,
    UntrackedLoopError,
    UntrackedThreadError,
    VirtualDeadlockError,
    VirtualTimeError,
)
from ._inspection import TimerInfo
from ._no_wait import no_wait
from ._tasks import Task
from ._traps import Call, Trap
from ._virtual_clock import VirtualClock

__all__ = [
    "Call",
    "ClockLeakError",
    "ClockUsageError",
    "SettleTimeout",
    "Task",
    "TimerInfo",
    "Trap",
    "UntrackedLoopError",
    "UntrackedThreadError",
    "VirtualClock",
    "VirtualDeadlockError",
    "VirtualTimeError",
    "no_wait",
]

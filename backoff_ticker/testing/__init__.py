"""Virtual time for tests: a clock that threads and event loops share, exact and instant.

What is where:

- ``_virtual_clock``: ``VirtualClock``, the clock that users see. It has a kernel.
- ``_kernel``: the one rule by which time moves; the states of a participant; the invariants.
- ``_command_queue``: how the kernel's state changes although no thread waits for a lock.
- ``_thread_side``: how a thread begins to be counted, waits, and ends.
- ``_driving``: steps and auto-advance.
- ``participants/``: participants, whose turn it is, timers, parking.
- ``liveness/``: what real time alone can show: stalls, time-outs; and the reports.
- ``_other_clocks``: objects on the system clock that participants use.
- ``standard_library/``: threads, futures, pools and event loops as participants.
- ``_tasks``, ``_traps``, ``_no_wait``, ``_errors``: ``Task``, ``Trap``, ``no_wait()``, the errors.
"""

from __future__ import annotations

from ._errors import (
    ClockLeakError as ClockLeakError,
    ClockUsageError as ClockUsageError,
    SettleTimeout as SettleTimeout,
    UntrackedLoopError as UntrackedLoopError,
    UntrackedThreadError as UntrackedThreadError,
    VirtualDeadlockError as VirtualDeadlockError,
    VirtualTimeError as VirtualTimeError,
)
from ._no_wait import no_wait as no_wait
from ._tasks import Task as Task
from ._traps import Call as Call, Trap as Trap
from ._virtual_clock import TimerInfo as TimerInfo, VirtualClock as VirtualClock

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

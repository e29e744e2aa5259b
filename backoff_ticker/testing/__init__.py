"""Tests without waiting: a virtual clock, retries without waits, and all schedules of threads.

``no_wait()`` skips the waits of retries; that is enough for most tests of a function that is
retried. On a ``VirtualClock`` time moves only as the test says, or as soon as everything waits, so
tickers, deadlines and timeouts of hours are tested in milliseconds. pytest has both as the
fixtures ``no_wait``, ``virtual_clock``, ``auto_clock`` and ``patched_clock``.

``explore()`` runs a function that starts threads under every schedule with few switches between
them, and tells the one that goes wrong.

Example:
    >>> import asyncio
    >>> from backoff_ticker.testing import VirtualClock
    >>> with VirtualClock() as clock:
    ...     clock.run_async(asyncio.sleep(3600))
    ...     clock.monotonic()
    3600.0

Inside, for contributors:

- ``_virtual_clock``: ``VirtualClock``, the clock that users see. It has a kernel.
- ``_kernel``: the one rule by which time moves; the states of a participant; the invariants.
- ``_commands``: the thread of a clock, which alone changes its state.
- ``_participants``, ``_timers``: who is counted, who runs, how waits begin and end; what is due.
- ``_thread_side``: how a thread begins to be counted, waits, and ends.
- ``_driving``: steps, auto-advance, the patches of the standard library, the end of a clock.
- ``_watchdog``, ``_real_time``, ``_main_thread_interrupt``: what real time alone can show.
- ``_reports``: who waits where, for the texts of failures.
- ``_other_clocks``: objects on the system clock that participants use.
- ``standard_library/``: threads, futures, pools and event loops as participants.
- ``exploring/``: ``explore()``, which has a clock and a view of the standard library of its own.
- ``_tasks``, ``_traps``, ``_no_wait``, ``_errors``: ``Task``, ``Trap``, ``no_wait()``, the errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from ._timers import TimerInfo as TimerInfo
from ._traps import Call as Call, Trap as Trap
from ._virtual_clock import VirtualClock as VirtualClock

if TYPE_CHECKING:
    from .exploring import (
        Exploration as Exploration,
        ScheduleFailure as ScheduleFailure,
        ScheduleStuck as ScheduleStuck,
        explore as explore,
    )

__all__ = [
    "Call",
    "ClockLeakError",
    "ClockUsageError",
    "Exploration",
    "ScheduleFailure",
    "ScheduleStuck",
    "SettleTimeout",
    "Task",
    "TimerInfo",
    "Trap",
    "UntrackedLoopError",
    "UntrackedThreadError",
    "VirtualClock",
    "VirtualDeadlockError",
    "VirtualTimeError",
    "explore",
    "no_wait",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from . import exploring

        return getattr(exploring, name)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})

"""The only folder of the core that reads the time or starts a thread.

* ``_protocol``: what the package needs of a clock.
* ``_time``: the functions that tell the time, even if the module ``time`` was patched.
* ``_system``: the system clock, and which clock is the current one.
* ``_scheduler``: where a thread parks; a call at some time, made or prevented; the one thread that
  makes such calls, and threads for work of the user.
* ``_loop_timers``: all timers of an event loop in one heap.

What always holds:

* Times in the future are whole nanoseconds; see ``later()``.
* Nothing runs early, and no wait is handed to the system for longer than a day.
* A scheduled callback is called once or was prevented, never both.
* Nothing takes a lock on which a signal handler, a finalizer or a callback could block.
"""

from __future__ import annotations

from ._loop_timers import Alarm as Alarm
from ._scheduler import PendingCall as PendingCall, start_thread as start_thread
from ._system import (
    SystemClock as SystemClock,
    clock_finders as clock_finders,
    current_clock as current_clock,
    current_clocks as current_clocks,
    one_clock as one_clock,
    resolve_clock as resolve_clock,
)
from ._time import later as later, let_other_threads_run as let_other_threads_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._protocol import Clock as Clock, Parker as Parker, TimerHandle as TimerHandle

"""Time: what a clock is, the system's clock, and which clock is the current one."""

from __future__ import annotations

from ._scheduler import Scheduler as Scheduler
from ._system import (
    SystemClock as SystemClock,
    current_clocks as current_clocks,
    resolve_clock as resolve_clock,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._protocol import Clock as Clock, Parker as Parker, TimerHandle as TimerHandle

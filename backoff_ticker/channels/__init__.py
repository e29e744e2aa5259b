"""Channels between threads and event loops, timers that send on them, and ``select``."""

from __future__ import annotations

from ._channel import Channel as Channel
from ._select import merge as merge, select as select, select_async as select_async
from ._timer import Timer as Timer, require_timer as require_timer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._protocol import TimerLike as TimerLike

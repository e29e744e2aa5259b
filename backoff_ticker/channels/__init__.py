"""Channels between threads and event loops, timers that send on them, and ``select``.

* ``_buffer``: what a channel holds: items, blocked senders, waiting receivers. Never waits.
* ``_channel``: ``Channel``, the waits around a buffer, in threads and in coroutines.
* ``_timer``: ``Timer``; its channel has a buffer that drops times of starts that are over.
* ``_select``: ``select`` and ``select_async``, over channels and all other sources.
* ``_merge``: ``merge``, which iterates over them.
* ``_protocol``: ``TimerLike``, what tickers and retries need of a timer.
"""

from __future__ import annotations

from ._channel import Channel as Channel
from ._merge import Merge as Merge, merge as merge
from ._select import block_on as block_on, select as select, select_async as select_async
from ._timer import Timer as Timer, require_timer as require_timer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._protocol import TimerLike as TimerLike

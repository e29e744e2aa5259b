"""Tickers: they tick at the times that a policy says, for threads and event loops.

``_tick`` has the tick and the paces: pure rules of when it falls due. ``_pending_tick`` is the
state of a ticker, what is known of the tick to come. ``_core`` takes a tick: polls, endings, and
the rules that ask the policy. ``_base`` has what ``Ticker`` and ``AsyncTicker`` share, ``_ticker``
how their readers wait. ``_timer`` has a user's timer measure the delays. ``_forwarding`` sends
ticks to a sink of the user's.

What always holds:
    * A ticker has no thread and no queue: its readers wait until the tick is due, and take it.
    * Each tick goes to exactly one reader. One that is interrupted, cancelled or times out leaves
      the tick to the next.
    * Only the thread that has claimed a ticker's state asks its policy; nothing else is held
      while code of a user runs.
    * Once ``stop()``, ``cancel()`` or ``reset()`` has returned, no tick from before is received.
"""

from __future__ import annotations

from ._forwarding import Forwarding as Forwarding
from ._tick import Pace as Pace, Tick as Tick
from ._ticker import AsyncTicker as AsyncTicker, Ticker as Ticker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._protocol import SendSink as SendSink, Sink as Sink

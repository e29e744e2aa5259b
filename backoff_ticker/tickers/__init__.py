"""Tickers: they tick at the times that a policy says, for threads and event loops.

* ``_tick``: the tick and the paces, pure rules of when the next tick is due; late ticks are dropped
  here.
* ``_pending_tick``: the state of a ticker, that is, what is known of the next tick.
* ``_core``: taking a tick; endings; the rules that ask the policy.
* ``_base``: what ``Ticker`` and ``AsyncTicker`` share. ``_ticker``: how their readers wait.
* ``_timer``: delays that a user's ``Timer`` measures.
* ``_forwarding``: ticks that are sent to a user's queue or channel, the *sink*.

What always holds:
    * A ticker has no thread and no queue: its readers wait until the tick is due, and take it.
    * Each tick goes to exactly one reader. A reader that is interrupted, cancelled or times out
      leaves the tick to the next.
    * Only the thread that has claimed a ticker's state asks its policy; nothing else is held
      while user code runs.
    * Once ``stop()``, ``cancel()`` or ``reset()`` has returned, no tick from before is received.
"""

from __future__ import annotations

from ._forwarding import Forwarding as Forwarding
from ._tick import Pace as Pace, Tick as Tick
from ._ticker import AsyncTicker as AsyncTicker, Ticker as Ticker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._protocol import SendSink as SendSink, Sink as Sink

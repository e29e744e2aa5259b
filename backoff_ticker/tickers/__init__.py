"""Tickers: they tick at the times that a policy says, for threads and event loops.

* ``_tick``: the tick, the paces and the state of a ticker: pure rules of when a tick is due.
* ``_core``: taking a tick; endings; the thread that asks the policy.
* ``_ticker``: what both tickers offer to users and to ``select``; the two, and how readers wait.
* ``_timer``: delays that a user's ``Timer`` measures.
* ``_forwarding``: ticks that are sent to a user's queue or channel, the *sink*.

A ticker has no thread and no queue: its readers wait until the tick is due, and take it.
"""

from __future__ import annotations

from ._forwarding import Forwarding as Forwarding
from ._tick import Pace as Pace, Tick as Tick, catch_up as catch_up
from ._ticker import AsyncTicker as AsyncTicker, Ticker as Ticker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._protocol import SendSink as SendSink, Sink as Sink

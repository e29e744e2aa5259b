"""Tickers: they tick at the times that a policy says, for threads and event loops."""

from __future__ import annotations

from ._async_ticker import AsyncTicker as AsyncTicker
from ._tick import Pace as Pace, Tick as Tick
from ._ticker import Ticker as Ticker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._protocol import SendSink as SendSink, Sink as Sink

"""Hedged calls: attempts start while others still run, and the first good result wins.

- ``_hedging``: the decisions of a call: when attempts start, what ends it. Nothing here waits.
- ``_hedge``, ``_hedge_threads``: the public functions, with attempts in tasks and in threads.

Options, runs and final errors are those of retries.
"""

from __future__ import annotations

from ._hedge import hedge_call_async as hedge_call_async
from ._hedge_threads import hedge_call as hedge_call

"""Hedged calls: attempts start while others still run, and the first good result wins.

- ``_hedging``: the decisions of a call: when attempts start, what ends it. Nothing here waits.
- ``_call``: an attempt, and the way through a call: the same for tasks and threads.
- ``_hedge``: the public functions.

What always holds: however an attempt ends, in whatever place of its thread, its caller learns of
it. Options, runs and final errors are those of retries.
"""

from __future__ import annotations

from ._hedge import hedge_call as hedge_call, hedge_call_async as hedge_call_async

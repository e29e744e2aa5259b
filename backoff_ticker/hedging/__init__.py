"""Hedged calls: attempts start while others still run, and the first good result wins.

- ``_attempt``: one attempt, in a task or a thread.
- ``_call``: one call: when attempts start, and what ends it; the same for tasks and threads.
- ``_hedge``: the public functions.

What always holds: however an attempt ends, at whatever place of its thread, its caller learns of
it. Options, runs and final errors are those of retries.
"""

from __future__ import annotations

from ._hedge import hedge_call as hedge_call, hedge_call_async as hedge_call_async

"""Hedged calls: attempts start while others still run, and the first good result wins.

- ``_schedule``: when the next attempt starts, and what cuts those that run.
- ``_attempt``: one attempt, in a task or a thread.
- ``_call``: one call, from its first start to its end; the same for tasks and threads.
- ``_hedge``: the public functions.

What always holds: each attempt tells its caller once how it has ended, and its token is cancelled
then, or when the call ends. Of retries, this uses which errors count, the limits, the check of
options and the final error.
"""

from __future__ import annotations

from ._hedge import hedge_call as hedge_call, hedge_call_async as hedge_call_async

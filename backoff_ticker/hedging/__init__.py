"""Hedged calls: attempts start while others still run, and the first good result wins.

``_attempt`` is one attempt, ``_call`` one call with its schedule, ``_hedge`` the public functions.
Of retries, this uses which errors count, the limits, the check of options, the budget and the final
error.
"""

from __future__ import annotations

from ._hedge import hedge_call as hedge_call, hedge_call_async as hedge_call_async

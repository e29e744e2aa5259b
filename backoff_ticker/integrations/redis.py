"""Tokens, circuits, and budgets of retries that processes share over Redis.

It needs ``pip install 'backoff-ticker[redis]'`` and a Redis server, and is tested with version 7.0.
"""

from __future__ import annotations

from ._shared import imports_of_extra

with imports_of_extra("redis"):
    import redis as _redis  # noqa: F401 - before what needs it

from ._redis.budget import RedisRetryBudget
from ._redis.circuit import RedisCircuitBreaker
from ._redis.token import RedisCancellationToken

__all__ = ["RedisCancellationToken", "RedisCircuitBreaker", "RedisRetryBudget"]

"""What processes share over Redis: circuits that open and close everywhere.

It needs ``pip install 'backoff-ticker[redis]'``, and a Redis of version 6.0 or later, or one that
speaks its language.
"""

from __future__ import annotations

from ._redis_breaker import RedisCircuitBreaker

__all__ = ["RedisCircuitBreaker"]

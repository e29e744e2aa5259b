"""What processes share over Redis: tokens that are cancelled everywhere.

It needs ``pip install 'backoff-ticker[redis]'``, and a Redis of version 6.0 or later, or one that
speaks its language.
"""

from __future__ import annotations

from ._extras import imports_of_extra

with imports_of_extra("redis"):
    import redis as _redis  # noqa: F401 - before what needs it

from ._redis_token import RedisCancellationToken

__all__ = ["RedisCancellationToken"]

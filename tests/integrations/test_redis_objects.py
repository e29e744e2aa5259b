"""What holds for every object that processes share over Redis."""

from __future__ import annotations

import pytest
from redis import Redis, Sentinel
from redis.asyncio import Redis as AsyncRedis

from backoff_ticker.integrations.redis import (
    RedisCancellationToken,
    RedisCircuitBreaker,
    RedisRetryBudget,
)
from tests.helpers import PATIENCE, eventually

ANY = pytest.mark.parametrize(
    "kind", [RedisCancellationToken, RedisCircuitBreaker, RedisRetryBudget]
)
LINKED = pytest.mark.parametrize(
    "kind, title", [(RedisCancellationToken, "Token"), (RedisCircuitBreaker, "Circuit")]
)
HANGING = Sentinel([("127.0.0.1", 1)], sentinel_kwargs={"socket_timeout": None})


@ANY
@pytest.mark.parametrize(
    "client, name, error, message",
    [
        (AsyncRedis(), "n", TypeError, r"redis\.Redis, .*not a redis\.asyncio"),
        (3, "n", TypeError, "client must be a redis.Redis"),
        (Redis(socket_timeout=None), "n", ValueError, "client must have a socket_timeout > 0"),
        (
            *(HANGING.master_for("jobs", socket_timeout=1), "n", ValueError),
            "Sentinel with a socket_timeout > 0, not None",
        ),
        (Redis(socket_timeout=1), b"n", TypeError, "name must be a str, not b'n'"),
        (Redis(socket_timeout=1), "", ValueError, "name must not be empty"),
    ],
)
def test_a_client_and_a_name_are_checked_at_once(kind, client, name, error, message):
    with pytest.raises(error, match=message):
        kind(client, name)


@LINKED
def test_the_log_says_what_is_not_shared_and_what_is_again(redis_server, kind, title, caplog):
    caplog.set_level("INFO", "backoff_ticker")
    shared = kind(redis_server.client(socket_timeout=1), "job")
    try:
        assert shared.wait_until_connected(PATIENCE)
        redis_server.kill()
        eventually(lambda: f"{title} job: not shared, as Redis fails: " in caplog.text)
        redis_server.start()
        assert shared.wait_until_connected(PATIENCE)
        eventually(lambda: f"{title} job: shared again" in caplog.text)
    finally:
        shared.close(0)

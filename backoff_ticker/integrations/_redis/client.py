"""The check of the client that users give, connections beside its pool, and the log of outages."""

from __future__ import annotations

import logging
from typing import Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from ...clock import SystemClock
from .._shared import shown_text

CLOCK = SystemClock()  # Redis answers in real time, whatever clock a program has set
LONGEST = 10**14  # milliseconds for which Redis is told to keep something: 3,000 years
LOGGER = logging.getLogger("backoff_ticker")


class Outage:
    """Logs once that Redis fails, and once that it does no more."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._is_reported = False

    def begin(self, error: BaseException) -> None:
        if not self._is_reported:
            self._is_reported = True
            shown = shown_text(str(error))
            LOGGER.warning("%s: not shared, as Redis fails: %s", self._title, shown)

    def end(self) -> None:
        if self._is_reported:
            self._is_reported = False
            LOGGER.info("%s: shared again", self._title)


def check_client(client: object) -> float:
    """Return the ``socket_timeout`` of a client, in seconds.

    A client without time limits is refused: a Redis that does not answer would hang it.
    """
    if not isinstance(client, Redis):
        kind = f"{type(client).__module__}.{type(client).__qualname__}"
        raise TypeError(
            f"client must be a redis.Redis, which serves event loops as well, not a {kind}"
        )
    connection = make_connection(client)
    for name in ("socket_timeout", "socket_connect_timeout"):
        timeout = getattr(connection, name, 1)  # a connection by a Unix socket has no second one
        if not timeout:
            raise ValueError(f"client must have a {name} > 0, such as 1 s, not {timeout!r}")
    manager = getattr(client.connection_pool, "sentinel_manager", None)
    for sentinel in manager.sentinels if manager else ():
        limit = sentinel.connection_pool.connection_kwargs.get("socket_timeout")
        if not limit:
            raise ValueError(
                f"client must be that of a Sentinel with a socket_timeout > 0, not {limit!r}"
            )
    return float(connection.socket_timeout)


def as_whole(value: bytes | str | int, most: int, least: int = 0) -> int:
    """Return a number that Redis says; a ValueError if it is out of range: others write, too."""
    if not least <= int(value) <= most:
        raise ValueError(f"a number out of range in Redis: {int(value)}")
    return int(value)


def make_connection(client: Redis) -> Any:
    """Return a connection to where ``client`` connects, beside its pool.

    It answers bytes in the older protocol, and never tries again by itself.
    """
    pool = client.connection_pool
    options = {name: value for name, value in pool.connection_kwargs.items() if "maint" not in name}
    options.update(decode_responses=False, encoding="utf-8", health_check_interval=0)
    options.update(protocol=2, retry=Retry(NoBackoff(), 0))
    return pool.connection_class(**options)

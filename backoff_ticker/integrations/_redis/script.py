"""A script that Redis executes at most once each time it is called."""

from __future__ import annotations

import weakref
from hashlib import sha1
from typing import TYPE_CHECKING

from redis.exceptions import NoScriptError, RedisError

from .client import make_connection

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from redis import Redis

    from .client import Connection


class Script:
    """A script for one key; each thread that calls it uses a connection of its own.

    The client's pool is not used: its connections send a command again if the answer does not come,
    although Redis may have executed it.

    Args:
        client: Says how to connect.
        text: The script.
        key: Its key.
    """

    def __init__(self, client: Redis, text: bytes, key: str) -> None:
        self._client = client
        self._text = text
        self._sha = sha1(text, usedforsecurity=False).hexdigest()
        self._key = key
        self._idle: list[Connection] = []
        weakref.finalize(self, _close, self._idle)

    def __call__(self, make_arguments: Callable[[], tuple[int, ...]]) -> Any:  # noqa: ANN401
        """Call the script and return its answer.

        Args:
            make_arguments: Returns the arguments. Called once Redis is connected: what it takes
                away somewhere is not lost if Redis cannot be reached.

        Raises:
            RedisError, OSError: Redis cannot be reached, does not answer, or refuses.
        """
        try:
            connection, is_new = self._idle.pop(), False
        except IndexError:
            connection, is_new = make_connection(self._client), True
        try:
            if is_new or _is_closed(connection):
                connection.disconnect()
                connection.connect()
            arguments = make_arguments()
            try:
                answer = _execute(connection, "EVALSHA", self._sha, 1, self._key, *arguments)
            except NoScriptError:  # Redis was started again, or another one has taken over
                answer = _execute(connection, "EVAL", self._text, 1, self._key, *arguments)
        except BaseException:
            connection.disconnect()
            raise
        self._idle.append(connection)
        return answer


def _close(connections: list[Connection]) -> None:
    while connections:
        connections.pop().disconnect()


def _is_closed(connection: Connection) -> bool:
    """Whether the server has closed it since its last use."""
    try:
        return connection.can_read(0)
    except (RedisError, OSError):
        return True


def _execute(connection: Connection, *command: bytes | str | float) -> Any:  # noqa: ANN401
    connection.send_command(*command)
    return connection.read_response()

"""What tests of servers share."""

from __future__ import annotations

import socket

import pytest


@pytest.fixture
def port():
    """Return a free port of this machine."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.fixture
def redis_server(tmp_path):
    """Return a Redis server that runs, with nothing in it."""
    from .redis_server import PROGRAM, RedisServer  # which needs the package

    if PROGRAM is None:
        pytest.skip("there is no redis-server")
    with RedisServer(tmp_path / "redis") as server:
        yield server

"""What tests of integrations share."""

from __future__ import annotations

import socket

import pytest

from backoff_ticker.testing import VirtualClock


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


@pytest.fixture
def time():
    """A clock that moves by itself, also for packages that ask the system for the time."""
    with VirtualClock(100.0, auto=True, patch_time=True) as clock:
        yield clock

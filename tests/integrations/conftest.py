"""What tests of integrations share."""

import sys
import threading
from contextlib import ExitStack

import pytest

from backoff_ticker import ConstantBackOff
from tests.helpers import PATIENCE, eventually
from tests.integrations.misbehaving_server import unused_port


@pytest.fixture
def port():
    """Return a free port of this machine."""
    return unused_port()


@pytest.fixture(autouse=True)
def close_clients():
    """Close the clients that a test made, and keep them until then.

    Each is part of a cycle. Where there is no lock, the collector takes the parts of a cycle in any
    order: a socket that it takes before its client warns that nobody closed it.
    """
    yield
    if module := sys.modules.get("tests.integrations.redis_server"):  # which needs the package
        while module.CLIENTS:
            module.CLIENTS.pop().close()


@pytest.fixture
def redis_server(tmp_path):
    """Return a Redis server that runs, with nothing in it."""
    from .redis_server import PROGRAM, RedisServer  # which needs the package

    if PROGRAM is None:
        pytest.skip("there is no redis-server")
    with RedisServer(tmp_path / "redis") as server:
        yield server


@pytest.fixture
def no_thread_left():
    """Wait until what processes share has left no thread behind."""
    yield
    eventually(lambda: not any("backoff_ticker:" in each.name for each in threading.enumerate()))


@pytest.fixture
def make(redis_server, monkeypatch, no_thread_left):
    """Make tokens and circuits that processes share."""
    from backoff_ticker.integrations._redis import link

    monkeypatch.setattr(link, "RECONNECT", ConstantBackOff(0.01))
    with ExitStack() as stack:

        def make(kind, client=None, name="job", socket_timeout=1, **options):
            client = client or redis_server.client(socket_timeout=socket_timeout)
            shared = kind(client, name, **options)
            stack.callback(shared.close, 0)
            return shared

        yield make


@pytest.fixture
def connected(make):
    """Make some that are connected."""

    def connected(kind, *args, **options):
        shared = make(kind, *args, **options)
        assert shared.wait_until_connected(PATIENCE)
        return shared

    return connected

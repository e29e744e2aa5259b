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

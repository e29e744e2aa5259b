"""Fixtures of the channel tests: who sends and who receives."""

from __future__ import annotations

import pytest

from tests.channels.ends import an_end
from tests.helpers import LoopThread


@pytest.fixture(params=["thread", "loop"])
def senders(request, clock):
    """Those who send; with ``receivers`` a test runs in all four combinations."""
    with an_end(request.param) as made:
        yield made


@pytest.fixture(params=["thread", "loop"])
def receivers(request, clock):
    """Those who receive, select and merge; not in the loop of the senders."""
    with an_end(request.param) as made:
        yield made


@pytest.fixture
def loop(clock):
    """One event loop; nothing may go wrong in it."""
    made = LoopThread()
    yield made
    made.close()
    assert made.errors == []

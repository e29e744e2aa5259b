"""Fixtures of the channel tests: who sends and who receives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.channels.ends import LoopEnd, ThreadEnd, an_end
from tests.helpers import LoopThread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backoff_ticker.testing import VirtualClock


@pytest.fixture(params=["thread", "loop"])
def senders(request: pytest.FixtureRequest, clock: VirtualClock) -> Iterator[ThreadEnd | LoopEnd]:
    """Those who send; with ``receivers`` a test runs in all four combinations."""
    with an_end(request.param) as made:
        yield made


@pytest.fixture(params=["thread", "loop"])
def receivers(request: pytest.FixtureRequest, clock: VirtualClock) -> Iterator[ThreadEnd | LoopEnd]:
    """Those who receive, select and merge; not in the loop of the senders."""
    with an_end(request.param) as made:
        yield made


@pytest.fixture
def loop(clock: VirtualClock) -> Iterator[LoopThread]:
    """One event loop; nothing may go wrong in it."""
    made = LoopThread()
    yield made
    made.close()
    assert made.errors == []

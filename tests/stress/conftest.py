"""Fixtures of the tests in real time."""

from __future__ import annotations

import time

import pytest

from backoff_ticker.clock._scheduler import Scheduler


@pytest.fixture
def scheduler():
    """A scheduler of the test's own, whose thread stays while the test runs."""
    made = Scheduler(time.monotonic, idle_seconds=60)
    yield made
    made._idle_seconds = 0
    for _, _, timer in list(made._heap):
        timer.cancel()
    made._mailbox.put(None)

"""Fixtures of the tests of schedules: who takes jobs."""

import pytest

from tests.schedules.workers import Workers


@pytest.fixture(params=["thread", "loop"])
def workers(request, clock):
    """Those who take jobs: a contract test runs one body in threads, and in an event loop."""
    made = Workers(request.param, clock)
    yield made
    made.close()

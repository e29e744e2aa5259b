"""Fixtures of the tests of schedules: who takes jobs."""

import pytest

from tests.schedules.workers import Workers


@pytest.fixture(params=["thread", "loop", "trio"])
def workers(request, clock):
    """Those who take jobs: a contract test runs one body in threads, in a loop, and in trio."""
    made = Workers(request.param, clock)
    yield made
    made.close()

"""Fixtures for the tests of policies."""

from __future__ import annotations

import pytest

from tests.helpers import SetClock
from tests.policies.policy_strategies import MAKERS


@pytest.fixture
def clock():
    """A clock that is set: a policy reads the time, and waits for nothing."""
    return SetClock()


@pytest.fixture(params=MAKERS)
def make(request, clock):
    """A function that makes a policy of one of the seven classes, on that clock."""
    return lambda **options: MAKERS[request.param](**{"clock": clock, **options})

"""Fixtures for the tests of policies."""

import pytest

from backoff_ticker import POLICIES, named_policy
from tests.helpers import SetClock
from tests.policies.policy_strategies import needed


@pytest.fixture
def clock():
    """A clock that is set: a policy reads the time, and waits for nothing."""
    return SetClock()


@pytest.fixture(params=[name for name, entry in POLICIES.items() if entry.feedback])
def make(request, clock):
    """A function that makes a feedback policy whose first delay is 1 s, on that clock."""
    name = request.param
    return lambda **options: named_policy(name, **{**needed(name), "clock": clock, **options})

"""Fixtures for the tests of policies."""

from __future__ import annotations

import pytest

from tests.policies.policy_strategies import MAKERS


@pytest.fixture(params=MAKERS)
def make(request, clock):
    """A function that makes a policy of one of the seven classes, on the manual clock."""
    return lambda **options: MAKERS[request.param](**{"clock": clock, **options})

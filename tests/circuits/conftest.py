"""Fixtures of the tests of circuits."""

import pytest

from backoff_ticker.testing import VirtualClock
from tests.helpers import SetClock
from tests.retries.scripts import START


@pytest.fixture
def clock():
    """A clock on which time goes on by itself while everybody waits."""
    with VirtualClock(START, auto=True) as made:
        yield made


@pytest.fixture
def now():
    """A clock that a test sets; nothing waits on it."""
    return SetClock()

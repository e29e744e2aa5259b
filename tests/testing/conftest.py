"""The two clocks of these tests."""

from __future__ import annotations

import pytest

from backoff_ticker.testing import VirtualClock


@pytest.fixture
def clock():
    """A clock that is driven by hand."""
    with VirtualClock() as clock:
        yield clock


@pytest.fixture
def auto():
    """A clock on which time advances by itself."""
    with VirtualClock(auto=True) as clock:
        yield clock

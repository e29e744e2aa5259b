"""The two clocks of these tests, and hostile switching of threads."""

import pytest

from backoff_ticker.testing import VirtualClock
from tests.stress.tools import fast_switching


@pytest.fixture
def clock():
    """A clock that is driven manually."""
    with VirtualClock() as clock:
        yield clock


@pytest.fixture
def auto():
    """A clock with auto-advance."""
    with VirtualClock(auto=True) as clock:
        yield clock


@pytest.fixture
def hostile_switching():
    """Let threads take the interpreter from each other as often as possible."""
    with fast_switching():
        yield


@pytest.fixture(params=["usual", "hostile"])
def switching(request):
    """Usual and hostile switching of threads."""
    if request.param == "hostile":
        request.getfixturevalue("hostile_switching")

"""The two clocks of these tests, and hostile switching of threads."""

import pytest

from backoff_ticker.testing import VirtualClock
from tests.stress.tools import fast_switching


@pytest.fixture
def clock_options():
    """What both clocks have besides."""
    return {}


@pytest.fixture
def clock(clock_options):
    """A clock that is driven manually."""
    with VirtualClock(**clock_options) as clock:
        yield clock


@pytest.fixture
def auto(clock_options):
    """A clock with auto-advance."""
    with VirtualClock(auto=True, **clock_options) as clock:
        yield clock


@pytest.fixture
def hostile_switching():
    """Let threads take the interpreter from each other as often as possible."""
    with fast_switching():
        yield


@pytest.fixture(params=["usual", "hostile"])
def switching(request):
    if request.param == "hostile":
        request.getfixturevalue("hostile_switching")

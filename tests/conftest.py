"""Fixtures of all tests."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.helpers import LoopFace, ManualClock, ThreadFace

if TYPE_CHECKING:
    from collections.abc import Iterator


# A background job, or one under nohup, starts with these ignored, and so do its children.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still until the test moves it."""
    return ManualClock()


@pytest.fixture(params=["thread", "loop"])
def face(request: pytest.FixtureRequest) -> Iterator[ThreadFace | LoopFace]:
    """Each of the two faces in turn: contract tests run one body on both."""
    made = ThreadFace() if request.param == "thread" else LoopFace()
    yield made
    made.close()

"""Fixtures of all tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.helpers import LoopFace, ManualClock, ThreadFace

if TYPE_CHECKING:
    from collections.abc import Iterator


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

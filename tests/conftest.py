"""Fixtures of all tests."""

from __future__ import annotations

import gc
import signal
from typing import TYPE_CHECKING

import pytest

from backoff_ticker.testing import VirtualClock
from tests.helpers import LoopFace, ThreadFace

if TYPE_CHECKING:
    from collections.abc import Iterator


EPOCH = 1_699_999_000.0

# A background job, or one under nohup, starts with these ignored, and so do its children.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_finish() -> None:
    """Spare what was there before the tests: it would make each collection of theirs slow."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    """A clock that stands still until the test moves it; threads and loops begun now are on it."""
    with VirtualClock(1000.0, epoch=EPOCH) as made:
        yield made


@pytest.fixture(params=["thread", "loop"])
def face(request: pytest.FixtureRequest, clock: VirtualClock) -> Iterator[ThreadFace | LoopFace]:
    """Each of the two faces in turn: contract tests run one body on both."""
    made = ThreadFace() if request.param == "thread" else LoopFace()
    yield made
    made.close()

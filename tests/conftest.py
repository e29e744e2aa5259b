"""Fixtures of all tests."""

from __future__ import annotations

import gc
import signal
from typing import TYPE_CHECKING

import pytest

from backoff_ticker.testing import VirtualClock
from tests import effort
from tests.helpers import LoopFace, ThreadFace

if TYPE_CHECKING:
    from collections.abc import Iterator


EPOCH = 1_699_999_000.0

# A background job, or one under nohup, starts with these ignored, and so do its children.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--all``."""
    parser.addoption(
        "--all", action="store_true", help="run the slow tests, too; repeat others more"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose the effort before a test module asks for it."""
    config.addinivalue_line("markers", "slow: runs with --all only")
    effort.choose(all=config.getoption("--all"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the slow tests out, unless ``--all`` is given."""
    if not config.getoption("--all"):
        slow = [item for item in items if item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]


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

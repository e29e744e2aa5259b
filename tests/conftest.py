"""Options and fixtures of all tests."""

from __future__ import annotations

import gc
import os
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis.strategies import none

from backoff_ticker.testing import VirtualClock
from tests import effort
from tests.helpers import LoopFace, ThreadFace

if TYPE_CHECKING:
    from collections.abc import Iterator


EPOCH = 1_699_999_000.0
HERE = Path(__file__).parent

POSIX_ONLY = re.compile(
    r"\b(fcntl|termios|pty|killpg|fork|pipe|pthread_kill|setitimer|start_new_session"
    r"|SIG(?:ALRM|HUP|KILL|QUIT|STOP|TSTP|USR1|WINCH))\b"
)
"""Windows does not run a test module that names one of these."""

# A process started in the background, or by nohup, ignores these, and so would its children.
signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--all``."""
    parser.addoption(
        "--all", action="store_true", help="run the slow tests, too; repeat others more often"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose the effort before a test module asks for it."""
    effort.choose(all=config.getoption("--all"))


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out what needs POSIX, where there is none: the command, signals, forks, terminals."""
    if os.name == "posix" or collection_path.suffix != ".py":
        return None
    needs_posix = "cli" in collection_path.relative_to(HERE).parts
    return True if needs_posix or POSIX_ONLY.search(collection_path.read_text("utf-8")) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the slow tests out, unless ``--all`` is given."""
    left_out = set() if config.getoption("--all") else {"slow"}
    if os.name != "posix":
        left_out.add("posix")
    deselected = [item for item in items if left_out & {mark.name for mark in item.iter_markers()}]
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        kept = set(items) - set(deselected)
        items[:] = [item for item in items if item in kept]


def pytest_collection_finish() -> None:
    """Take what exists before the tests out of each collection of garbage, which it would slow."""
    # Hypothesis looks once, and not among the frozen objects, for what refers to its generator.
    given(none())(lambda _: None)()
    gc.collect()
    gc.freeze()


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    """A clock that stands still until the test moves it; threads and loops begun now are on it."""
    with VirtualClock(1000.0, epoch=EPOCH) as made:
        yield made


@pytest.fixture(params=["thread", "loop"])
def face(request: pytest.FixtureRequest, clock: VirtualClock) -> Iterator[ThreadFace | LoopFace]:
    """The thread API, then the async API: contract tests run one body on both."""
    made = ThreadFace() if request.param == "thread" else LoopFace()
    yield made
    made.close()

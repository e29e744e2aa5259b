"""Fixtures of the retry tests."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from backoff_ticker.testing import VirtualClock
from tests.helpers import SetClock
from tests.retries.faces import FACES
from tests.retries.hedges import HEDGES
from tests.retries.scripts import START

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.retries.faces import Face
    from tests.retries.hedges import HedgeFace


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    """A clock on which time goes on by itself while everybody waits."""
    with VirtualClock(START, auto=True) as made:
        yield made


@pytest.fixture(params=list(FACES))
def face(request: pytest.FixtureRequest, clock: VirtualClock) -> Face:
    """Each way to run an operation in turn: contract tests run one body on all."""
    return FACES[request.param]


@pytest.fixture(params=list(HEDGES))
def hedge(request: pytest.FixtureRequest, clock: VirtualClock) -> Iterator[HedgeFace]:
    """Both ways to make a hedged call in turn; at the end of the test all attempts end."""
    before = set(threading.enumerate())
    yield HEDGES[request.param]
    for thread in set(threading.enumerate()) - before:
        thread.join()


@pytest.fixture
def now() -> SetClock:
    """A clock that a test sets; nothing waits on it."""
    return SetClock()

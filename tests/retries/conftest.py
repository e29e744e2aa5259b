"""Fixtures of the retry tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backoff_ticker.testing import VirtualClock
from tests.retries.faces import FACES
from tests.retries.scripts import START

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.retries.faces import Face


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    """A clock on which time goes on by itself while everybody waits."""
    with VirtualClock(START, auto=True) as made:
        yield made


@pytest.fixture(params=list(FACES))
def face(request: pytest.FixtureRequest, clock: VirtualClock) -> Face:
    """Each way to run an operation in turn: contract tests run one body on all."""
    return FACES[request.param]

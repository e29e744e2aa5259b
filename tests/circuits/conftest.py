"""Fixtures of the tests of circuits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backoff_ticker.testing import VirtualClock
from tests.helpers import SetClock
from tests.retries.scripts import START

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    """A clock on which time goes on by itself while everybody waits."""
    with VirtualClock(START, auto=True) as made:
        yield made


@pytest.fixture
def now() -> SetClock:
    """A clock that a test sets; nothing waits on it."""
    return SetClock()

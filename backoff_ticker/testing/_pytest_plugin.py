"""Fixtures for pytest, which loads them by an entry point: nothing is to be imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._virtual_clock import VirtualClock


@pytest.fixture
def virtual_clock() -> Iterator[VirtualClock]:
    """A virtual clock that the test drives by hand, strict; entered for the test."""
    from ._virtual_clock import VirtualClock

    with VirtualClock() as clock:
        yield clock


@pytest.fixture
def auto_clock() -> Iterator[VirtualClock]:
    """A virtual clock on which time advances by itself; entered for the test."""
    from ._virtual_clock import VirtualClock

    with VirtualClock(auto=True) as clock:
        yield clock

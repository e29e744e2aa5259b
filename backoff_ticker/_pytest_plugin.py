"""Fixtures for pytest, which loads this module through an entry point in every run.

Nothing of the package is imported before a fixture is used, to keep other runs fast.
"""

from __future__ import annotations

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .testing import VirtualClock


@pytest.fixture
def virtual_clock() -> Iterator[VirtualClock]:
    """A virtual clock that the test drives manually; entered for the test."""
    from .testing import VirtualClock

    with VirtualClock() as clock:
        yield clock


@pytest.fixture
def auto_clock() -> Iterator[VirtualClock]:
    """A virtual clock with auto-advance; entered for the test."""
    from .testing import VirtualClock

    with VirtualClock(auto=True) as clock:
        yield clock

"""Storms through the public API, each for a moment, or with ``--all`` for a second.

They hold on every interpreter, and are aimed at one without the global lock, on which threads run
at the same time.
"""

import pytest

from tests import effort
from tests.stress import storm


@pytest.mark.parametrize("runs", [0, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", storm.STORMS)
def test_a_storm_loses_doubles_and_leaves_nothing(name, runs):
    """Also in runs of trio."""
    rounds, done = storm.let_loose(name, 1 if effort.everything else 0.1, runs=runs)
    assert rounds
    assert done

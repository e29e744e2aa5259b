"""Policies of a user's own, for the commands that take an import path."""

import sys

import pytest

OWN = """
from datetime import timedelta

class Stairs:
    '''Waits longer with each step.

    Args:
        step: How much longer: seconds >= 0 or a timedelta.
        most: The longest wait, at least ``step``. None means no limit.
        loud: Whether to shout.
        seen: Cannot be typed.

    Example:
        >>> Stairs(2)
    '''

    def __init__(self, step: float | timedelta, most: int = 10, loud=False, seen: set = ()):
        self.step, self.most, self.number = step, most, 0

    def next_backoff(self):
        self.number += 1
        return min(self.number * self.step, self.most)

    def reset(self):
        self.number = 0

class Told(Stairs):
    def failure(self, timestamp=None):
        return self.next_backoff()

    def success(self, timestamp=None):
        return timedelta(0)

class Typed:
    def __init__(self, seen: set): ...

stairs = Stairs(3)

class Given:
    def bounds(self, n):
        return [(10.0, 20.0), (0.0, 32.0), (0.0, 1e-9), None][n - 1]

    def next_backoff(self):
        self.asked += 1
        return [10.0, 32.0, 0.0, 0.0][self.asked - 1]

    def reset(self):
        self.asked = 0
"""


@pytest.fixture
def own(monkeypatch, tmp_path):
    """The import path of a policy in the current folder; ``OWN`` has the others."""
    (tmp_path / "own_waits.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    yield "own_waits:Stairs"
    sys.modules.pop("own_waits", None)

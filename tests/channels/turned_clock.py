"""A clock that a test moves on by hand, and whose calls it makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.helpers import SetClock


@dataclass(eq=False)
class Timer:
    """A callback at a time; a test fires it."""

    when: float
    callback: Any
    live: bool = True

    def cancel(self):
        was, self.live = self.live, False
        return was

    def fire(self):
        if self.cancel():
            self.callback()


class TurnedClock(SetClock):
    """A clock that keeps the calls it is to make."""

    def __init__(self):
        super().__init__()
        self.timers = []

    def call_at(self, when, callback, *, loop=None):
        timer = Timer(when, callback)
        self.timers.append(timer)
        return timer

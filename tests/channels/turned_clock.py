"""A clock that a test moves on by hand, and whose calls it makes."""

from tests.helpers import SetClock


class Timer:
    """A callback at a time; a test fires it."""

    def __init__(self, pending, when, callback):
        self.when = when
        self._callback = callback
        self._pending = pending
        pending.append(self)

    def cancel(self):
        try:
            self._pending.remove(self)
        except ValueError:
            return False
        return True

    def fire(self):
        if self.cancel():
            self._callback()


class TurnedClock(SetClock):
    """A clock that keeps the calls it is to make."""

    def __init__(self):
        super().__init__()
        self.pending = []

    def call_at(self, when, callback, *, loop=None):
        return Timer(self.pending, when, callback)

"""Timers that a test fires itself, and clocks that do something when they are asked."""

import threading

from backoff_ticker import Channel
from tests.helpers import SetClock


class Fake:
    """What a user writes around a ``Channel(1)``; it notes what is asked of it."""

    def __init__(self, capacity=1):
        self.c = Channel(capacity)
        self.delays = []
        self.stops = 0

    def start(self, delay):
        self.delays.append(delay)

    def stop(self):
        self.stops += 1

    def fire(self, time=7.5):
        self.c.send_nowait(time)


class Failing(Fake):
    """Raises ``error`` at its n-th start, or at each stop."""

    def __init__(self, error, *, start=0, stop=False):
        super().__init__()
        self.error = error
        self._start = start
        self._stop = stop

    def start(self, delay):
        super().start(delay)
        if len(self.delays) == self._start:
            raise self.error

    def stop(self):
        super().stop()
        if self._stop:
            raise self.error


class Instant(Fake):
    """Fires inside ``start``, each time a second later."""

    def start(self, delay):
        super().start(delay)
        self.fire(float(len(self.delays)))


class MeddlingClock(SetClock):
    """Calls the next of ``meddlers`` each time somebody reads it."""

    def __init__(self):
        super().__init__()
        self.meddlers = []

    def monotonic(self):
        if self.meddlers:
            self.meddlers.pop(0)()
        return super().monotonic()


class WatchedClock:
    """Another clock; counts its readings, and the calls that this thread sets."""

    def __init__(self, clock):
        self.readings = self.calls = 0
        self._thread = threading.get_ident()
        self._clock = clock

    def __getattr__(self, name):
        return getattr(self._clock, name)

    def monotonic(self):
        self.readings += 1
        return self._clock.monotonic()

    def call_at(self, when, callback, *, loop=None):
        self.calls += threading.get_ident() == self._thread
        return self._clock.call_at(when, callback, loop=loop)

"""Timers that a test fires itself."""

from backoff_ticker import Channel


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

"""Timers that a test fires itself."""

from __future__ import annotations

from typing import Any

from backoff_ticker import Channel


class Fake:
    """What a user writes around a ``Channel(1)``; it notes what is asked of it."""

    def __init__(self, capacity: float = 1) -> None:
        self.c: Channel[float] = Channel(capacity)
        self.delays: list[float] = []
        self.stops = 0

    def start(self, delay: float) -> None:
        self.delays.append(delay)

    def stop(self) -> None:
        self.stops += 1

    def fire(self, time: float = 7.5) -> None:
        self.c.send_nowait(time)


class Failing(Fake):
    """Raises ``error`` at its n-th start, or at each stop."""

    def __init__(self, error: BaseException, *, start: int = 0, stop: bool = False) -> None:
        super().__init__()
        self.error = error
        self._start = start
        self._stop = stop

    def start(self, delay: float) -> None:
        super().start(delay)
        if len(self.delays) == self._start:
            raise self.error

    def stop(self) -> None:
        super().stop()
        if self._stop:
            raise self.error


class Instant(Fake):
    """Fires inside ``start``, each time a second later."""

    def start(self, delay: float) -> Any:
        super().start(delay)
        self.fire(float(len(self.delays)))

"""A thread that makes a virtual clock check real time, so that no test hangs."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

from ...clock import SystemClock
from ...waiting import FREE, acquire, claim_of
from ..participants._participant import start_untracked

if TYPE_CHECKING:
    from collections.abc import Callable

LOOK_INTERVAL = 0.01
"""Seconds between two checks."""


class Watchdog:
    """A daemon thread that calls ``look(real_seconds)`` every 10 ms until it is stopped.

    It holds the owner of ``look`` weakly, and ends once the owner is collected.

    Attributes:
        ident: The identifier of its thread, once that runs.
    """

    def __init__(self, look: Callable[[float], None]) -> None:
        self.ident: int | None = None
        self._look = weakref.WeakMethod(look)
        self._bell = threading.Lock()
        self._bell.acquire()
        self._started = self._stopped = False

    def start(self) -> None:
        """Start the thread, unless it was started."""
        claim = claim_of(self)
        acquire(claim)
        try:
            started = self._started
            self._started = True
        finally:
            claim[FREE] = True
        if not started:
            thread = threading.Thread(
                target=self._run, name="virtual clock's watchdog", daemon=True
            )
            start_untracked(thread)

    def wake(self) -> None:
        """Make it check at once."""
        try:
            self._bell.release()
        except RuntimeError:
            pass  # it was woken already

    def stop(self) -> None:
        """End the thread."""
        self._stopped = True
        self.wake()

    def _run(self) -> None:
        self.ident = threading.get_ident()
        now = SystemClock().monotonic
        while True:
            self._bell.acquire(timeout=LOOK_INTERVAL)
            look = self._look()
            if self._stopped or look is None:
                return
            look(now())
            del look  # no reference while it waits

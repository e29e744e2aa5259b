"""The real time that a virtual clock keeps an eye on, so that no test hangs."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

from .._clock import SystemClock
from ._participant import start_untracked

if TYPE_CHECKING:
    from ._kernel import Kernel

__all__ = ["LOOK_INTERVAL", "Watch"]

LOOK_INTERVAL = 0.01
"""Seconds between two looks."""


class Watch:
    """A daemon thread that has the kernel look around, from the first participant to the end."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = weakref.ref(kernel)
        self._over = threading.Lock()
        self._over.acquire()
        self._begun = False

    def begin(self) -> None:
        """Begin to look, if that has not begun."""
        if not self._begun:
            self._begun = True
            thread = threading.Thread(target=self._look, name="virtual clock's watch", daemon=True)
            start_untracked(thread)

    def end(self) -> None:
        """Look no more."""
        if self._over.locked():
            self._over.release()

    def _look(self) -> None:
        now = SystemClock().monotonic
        while not self._over.acquire(timeout=LOOK_INTERVAL):
            kernel = self._kernel()
            if kernel is None:
                return
            kernel.post(kernel.look, now())
            del kernel
        self._over.release()

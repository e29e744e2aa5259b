"""The real time that a virtual clock keeps an eye on, so that no test hangs."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

from ..clock import SystemClock
from ._participant import start_untracked

if TYPE_CHECKING:
    from ._kernel import Kernel

LOOK_INTERVAL = 0.01
"""Seconds between two looks."""


class Watch:
    """A daemon thread that has the kernel look around, from the first participant to the end.

    Attributes:
        ident: That thread, once it has begun.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = weakref.ref(kernel)
        self._bell = threading.Lock()
        self._bell.acquire()
        self._begun = self._over = False
        self.ident: int | None = None

    def begin(self) -> None:
        """Begin to look, if that has not begun."""
        if not self._begun:
            self._begun = True
            thread = threading.Thread(target=self._look, name="virtual clock's watch", daemon=True)
            start_untracked(thread)

    def ring(self) -> None:
        """Have it look at once, in its own thread."""
        try:
            self._bell.release()
        except RuntimeError:
            pass  # it rings already

    def end(self) -> None:
        """Look no more."""
        self._over = True
        self.ring()

    def _look(self) -> None:
        self.ident = threading.get_ident()
        now = SystemClock().monotonic
        while True:
            self._bell.acquire(timeout=LOOK_INTERVAL)
            kernel = self._kernel()
            if self._over or kernel is None:
                return
            kernel.post(kernel.look, now())
            del kernel

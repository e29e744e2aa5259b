"""Ends a wait of the main thread that is not on the clock.

With auto-advance, time stands still while the thread that entered the clock waits for an item or a
lock. A signal can reach the main thread there: SIGURG, which is ignored unless it has a handler,
and which interrupts no other wait.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..._unraisable import report

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_OWN_CODE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - a prefix of names
_DEBUGGERS = {"bdb", "pdb", "pydevd", "_pydevd_bundle.pydevd"}


class MainThreadInterrupt:
    """Raises an error in the main thread, whatever it waits for."""

    def __init__(self) -> None:
        self._error: BaseException | None = None
        self._armed = False
        self._reported = False

    @contextmanager
    def armed(self) -> Iterator[None]:
        """Handle the signal inside the block, if this is the main thread and the signal is free."""
        number = getattr(signal, "SIGURG", None)
        if (
            number is None
            or threading.current_thread() is not threading.main_thread()
            or signal.getsignal(number) is not signal.SIG_DFL
        ):
            yield
            return
        signal.signal(number, self._raise)
        self._armed = True
        try:
            yield
        finally:
            self._armed = False
            self._error = None
            if signal.getsignal(number) == self._raise:
                signal.signal(number, signal.SIG_DFL)

    def _raise(self, _number: int, frame: FrameType | None) -> None:
        error, self._error = self._error, None
        # A frame of this package means that the thread has returned to the clock by now.
        if error is not None and not (frame and frame.f_code.co_filename.startswith(_OWN_CODE)):
            raise error

    def send(self, ident: int | None, error: BaseException) -> None:
        """Raise an error in a thread; where that is impossible, report it once instead."""
        if ident is None or _is_debugged(ident):
            return
        if self._armed and ident == threading.main_thread().ident:
            self._error = error
            signal.pthread_kill(ident, signal.SIGURG)
        elif not self._reported:
            self._reported = True
            report(error, "A virtual clock stands still", self)


def _is_debugged(ident: int) -> bool:
    frame = sys._current_frames().get(ident)
    while frame is not None:
        if frame.f_globals.get("__name__") in _DEBUGGERS:
            return True
        frame = frame.f_back
    return False

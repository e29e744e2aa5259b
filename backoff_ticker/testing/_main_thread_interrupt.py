"""Ends a wait of the main thread that is not on the clock.

With auto-advance, time stands still while the thread that entered the clock waits for an item or a
lock. A signal can reach the main thread there: SIGURG, which is ignored unless it has a handler,
and which interrupts no other wait.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from .._unraisable import report
from ._reports import frames_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from ._participants import Participant

_OWN_CODE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - a prefix of names
_DEBUGGERS = {"bdb", "pdb", "pydevd", "_pydevd_bundle.pydevd"}


class MainThreadInterrupt:
    """Reaches the main thread, whatever it waits for."""

    def __init__(self, driver: Participant) -> None:
        self._driver = driver  # in the main thread, while the signal is handled
        self._error: BaseException | None = None
        self._actions: list[Callable[[], object]] = []
        self._armed = False
        self._reported = False

    @contextmanager
    def armed(self) -> Iterator[None]:
        """Handle the signal inside the block, if this is the main thread and the signal is free."""
        number = getattr(signal, "SIGURG", None)
        in_main = threading.current_thread() is threading.main_thread()
        if number is None or not in_main or signal.getsignal(number) is not signal.SIG_DFL:
            yield
            return
        signal.signal(number, self._handle)
        self._armed = True
        try:
            yield
        finally:
            self._armed = False
            self._error = None
            self.act()
            if signal.getsignal(number) == self._handle:
                signal.signal(number, signal.SIG_DFL)

    def act(self) -> None:
        """Call the actions that are due: once, or again if a signal comes meanwhile."""
        for action in self._actions[:]:
            action()
            with suppress(ValueError):  # the signal has come again, and all was done there
                self._actions.remove(action)  # not before: a signal handler may raise

    def after_signals(self, action: Callable[[], object]) -> None:
        """Call ``action()``, which may be repeated, after the signal handlers that are due.

        Of these, SIGINT's comes first. If it ends a wait, the kernel knows before the action runs.
        """
        if self._armed and signal.getsignal(signal.SIGURG) == self._handle:
            self._actions.append(action)
            self.remind()
        else:
            action()

    def remind(self) -> None:
        """Send the signal again: one that comes just before a wait begins does not end the wait."""
        if self._actions and self._armed:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGURG)
        elif self._actions:
            self.act()

    def _handle(self, _number: int, frame: FrameType | None) -> None:
        if not self._driver.interrupted:
            self.act()
        error, self._error = self._error, None
        # A frame of this package means that the thread has returned to the clock by now.
        if error is not None and not (frame and frame.f_code.co_filename.startswith(_OWN_CODE)):
            raise error

    def send(self, ident: int | None, error: BaseException) -> None:
        """Raise an error in a thread; where that is impossible, report it once instead."""
        modules = {frame.f_globals.get("__name__") for frame in frames_of(ident)}
        if ident is None or modules & _DEBUGGERS:
            return
        if self._armed and ident == threading.main_thread().ident:
            self._error = error
            signal.pthread_kill(ident, signal.SIGURG)
        elif not self._reported:
            self._reported = True
            report(error, "A virtual clock stands still", self)

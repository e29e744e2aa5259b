"""A token that is cancelled in front of a server's own signal handlers."""

from __future__ import annotations

import signal
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from ..cancellation import CancellationToken


class SignalChain:
    """Cancels a token when a signal comes, then calls the handler that was there before.

    It does nothing in other threads than the main thread, and for signals without a handler in
    Python: what these do they go on to do.

    Args:
        token: The token. Its cause becomes the name of the signal.
        *numbers: The signals.
    """

    def __init__(self, token: CancellationToken, *numbers: int) -> None:
        self._token = token
        self._numbers = numbers
        self._previous: dict[int, Callable[[int, FrameType | None], object]] = {}

    def install(self) -> None:
        """Put it in front of the handlers."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in self._numbers:
            previous = signal.getsignal(number)
            if callable(previous):
                self._previous[number] = previous
                signal.signal(number, self._handle)

    def remove(self) -> None:
        """Restore the handlers, unless somebody has replaced them since."""
        for number, previous in self._previous.items():
            if signal.getsignal(number) == self._handle:
                signal.signal(number, previous)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        try:
            self._token.cancel(signal.Signals(number).name)
        finally:
            self._previous[number](number, frame)

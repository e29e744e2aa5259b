"""What a ticker or a retry asks of a timer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ._channel import Channel


class TimerLike(Protocol):
    """What a ticker wants of a timer, less than a ``Timer`` is.

    One of your own, for a test, is a ``Channel(1)`` on which ``start()`` or the test sends a time.
    """

    @property
    def c(self) -> Channel[float]:
        """Receives the time it fires: wall clock, in Unix seconds."""
        ...

    def start(self, delay: float) -> object:
        """Fire in ``delay`` seconds; if it was started before, that is over."""
        ...

    def stop(self) -> object:
        """Do not fire. Never blocks."""
        ...

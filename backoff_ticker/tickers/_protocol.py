"""What a ticker asks of an object that it sends ticks to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ._tick import Tick


class Sink(Protocol):
    """What ticks can be sent to; at the end its ``shutdown()`` or ``close()`` is called, if any."""

    def put_nowait(self, item: Tick, /) -> object:
        """Take the item at once, or raise an error that tells that there is no room."""
        ...


class SendSink(Protocol):
    """A ``Sink`` whose method has the name of a channel's."""

    def send_nowait(self, item: Tick, /) -> object:
        """Take the item at once, or raise an error that tells that there is no room."""
        ...

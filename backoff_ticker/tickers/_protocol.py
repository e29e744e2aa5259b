"""Protocols of the objects to which ``send_to()`` of a ticker sends ticks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ._tick import Tick


class Sink(Protocol):
    """Takes ticks; at the end its ``shutdown()`` or ``close()`` is called, if it has one.

    ``put_nowait`` raises an error whose class, or a base of it, is named ``Full``, ``QueueFull`` or
    ``WouldBlock`` if there is no room; the tick is then dropped and counted.

    Example:
        >>> import queue
        >>> from backoff_ticker import Sink
        >>> sink: Sink = queue.SimpleQueue()
    """

    def put_nowait(self, item: Tick, /) -> object:
        """Take the item at once, or raise an error."""
        ...


class SendSink(Protocol):
    """A ``Sink`` whose method has the name of a channel's.

    Example:
        >>> from backoff_ticker import Channel, SendSink
        >>> sink: SendSink = Channel(8)
    """

    def send_nowait(self, item: Tick, /) -> object:
        """Take the item at once, or raise an error."""
        ...

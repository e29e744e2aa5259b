"""Protocols of the objects to which ``send_to()`` of a ticker sends ticks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ._tick import Tick


class Sink(Protocol):
    """The protocol of objects that ``send_to()`` sends ticks to by ``put_nowait``.

    If there is no room, ``put_nowait`` raises an error whose class, or a base of it, is named
    ``Full``, ``QueueFull`` or ``WouldBlock``; the tick is then dropped and counted. When the ticker
    ends, the sink's ``shutdown()`` or ``close()`` is called, if it has one.

    Example:
        >>> import queue
        >>> from backoff_ticker import Sink
        >>> sink: Sink = queue.SimpleQueue()
    """

    def put_nowait(self, item: Tick, /) -> object:
        """Take the item at once, or raise an error."""
        ...


class SendSink(Protocol):
    """The protocol of objects that ``send_to()`` sends ticks to by ``send_nowait``, as ``Channel``.

    It is otherwise a ``Sink``.

    Example:
        >>> from backoff_ticker import Channel, SendSink
        >>> sink: SendSink = Channel(8)
    """

    def send_nowait(self, item: Tick, /) -> object:
        """Take the item at once, or raise an error."""
        ...

"""Protocols of the objects to which ``send_to()`` of a ticker sends ticks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ._tick import Tick


class Sink(Protocol):
    """The protocol of objects that ``send_to()`` sends ticks to by ``put_nowait``.

    Without room it raises an error whose class, or a base of it, is named ``Full``, ``QueueFull``
    or ``WouldBlock``. When the ticker ends, a ``shutdown()``, or else a ``close()``, is called.
    """

    def put_nowait(self, item: Tick, /) -> object:
        """Take the item at once, or raise an error."""


class SendSink(Protocol):
    """A ``Sink`` whose method is ``send_nowait``, such as a ``Channel``."""

    def send_nowait(self, item: Tick, /) -> object:
        """Take the item at once, or raise an error."""

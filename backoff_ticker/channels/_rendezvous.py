"""The receivers of a channel of capacity 0, who are all the room that it has.

Each brings a permit as it begins to wait and takes one along as it leaves. If a sender has used it,
one is *owed*; see ``_buffer`` for who pays.
"""

from __future__ import annotations

from ..waiting import WaitQueue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..waiting import Waiter

ONE = (None,)
"""What is added to a list of permits: ``+=`` is a single step, without a call."""


class RendezvousQueue(WaitQueue):
    """The waiting receivers of a rendezvous: each that waits makes room for one item."""

    __slots__ = ("_owed", "_present", "_room")

    def __init__(self, room: list[None], owed: list[None]) -> None:
        super().__init__()
        self._room = room
        self._owed = owed
        self._present: dict[Waiter, None] = {}

    def add(self, waiter: Waiter) -> None:
        room, present = self._room, self._present
        self.waiters[waiter] = None
        if waiter not in present:
            present[waiter] = None
            room += ONE

    def leave(self, waiter: Waiter) -> None:
        try:
            del self._present[waiter]
        except KeyError:
            pass
        else:
            room, owed = self._room, self._owed
            if room:
                try:
                    del room[-1]
                except IndexError:
                    owed += ONE
            else:
                owed += ONE
        super().leave(waiter)

    def forget_gone(self) -> None:
        """Take back the permits of those who cannot come to leave; see ``Waiter.gone``."""
        try:
            first = next(iter(self.waiters), None)
        except RuntimeError:
            first = None  # it changed between the two calls
        if first is None or first.is_stale:
            for waiter in list(self._present):
                if waiter.is_stale:
                    self.leave(waiter)

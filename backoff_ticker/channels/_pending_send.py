"""What a sender lines up that finds no room: a box with its item. Whoever empties it decides."""

from __future__ import annotations

from .. import _process
from ..waiting import WaitSet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..waiting import LoopWaiter, ThreadWaiter

GONE: list[Any] = []
"""The box of a sender that stayed in the parent of a fork."""


class Offer(WaitSet):
    """The item of a sender that waits for room.

    Attributes:
        box: Holds the item until it is decided what becomes of it.
        accepted: Whether the channel took it; None before that is decided.
        generation: The process of its sender.
    """

    __slots__ = ("accepted", "box", "generation")

    def __init__(self, item: object) -> None:
        super().__init__()
        self.generation: int = _process.generation
        self.box: list[object] = [item]
        self.accepted: bool | None = None

    def look(self, waiter: ThreadWaiter | LoopWaiter) -> float | None:
        """Tell the sender, who is registered, until when to wait; None: not at all."""
        return waiter.limit if self.accepted is None else None

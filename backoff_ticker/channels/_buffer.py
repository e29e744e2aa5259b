"""What a channel holds: accepted items, blocked senders, and waiting receivers.

Nothing here waits and nothing takes a lock, so all of it may run in signal handlers and finalizers.

If the capacity is finite, accepting an item uses up a *permit*: one that is still ``_unused``, or
one from ``room``, to which each received item returns one. At a rendezvous (capacity 0) each
waiting receiver adds a permit, and removes one when it leaves. If a sender has used that permit by
then, one is *owed*, and the next item that is received returns none.

Invariants:
    * unused permits + those in ``room`` - owed + items = capacity + waiting receivers.
    * Code that takes something stores or returns it before the next call, so that no interrupt
      comes between. A ``for`` statement takes the next item of an iterator without a call, and
      ``del`` and ``+=`` on a list are not calls either.
    * A pending send is decided once, by deletion of the item from its box. The code that deletes it
      sets ``accepted``, and then wakes the sender.
    * ``accept`` appends until ``close()`` replaces it, before it sets ``closed``. A receiver reads
      ``closed`` before it looks for items. So a receiver that sees the end has seen all items.
      (To look at ``closed`` after appending instead, and take the item back, needs a box for each
      item: a send and a receive take 1.5 times as long, and an item can follow the end.)
"""

from __future__ import annotations

from collections import OrderedDict, deque
from itertools import repeat

from .. import _process
from .._errors import ChannelClosed
from .._sentinels import EMPTY, ENDED
from ..waiting import WaitQueue, WaitSet, complete

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, NoReturn
    from weakref import ref

    from ..waiting import LoopWaiter, ThreadWaiter, Waiter

PERMIT = (None,)
"""``room += PERMIT`` adds a permit without a call."""

NO_BOX: list[Any] = []
"""Stands for the box of a sender that exists only in the parent of a forked child."""


class PendingSend(WaitSet):
    """The item of a blocked sender, which waits until it is accepted or refused.

    Attributes:
        box: Holds the item until it is decided on.
        accepted: Whether the channel accepted it; None: not decided yet.
        generation: The process of the sender, which does not exist in a forked child.
    """

    __slots__ = ("accepted", "box", "generation")

    def __init__(self, item: object) -> None:
        super().__init__()
        self.generation: int = _process.generation
        self.box: list[object] = [item]
        self.accepted: bool | None = None

    def recheck(self, waiter: ThreadWaiter | LoopWaiter) -> float | None:
        """Return until when the sender, once registered, has to wait; None: not at all."""
        return waiter.limit if self.accepted is None else None


class RendezvousQueue(WaitQueue):
    """The waiting receivers of a rendezvous, each of which makes room for one item."""

    __slots__ = ("_owed", "_present", "_room")

    def __init__(self, room: list[None], owed: list[None]) -> None:
        super().__init__()
        self._room = room
        self._owed = owed
        self._present: dict[ref[Waiter], None] = {}  # includes those woken, until they leave

    def add(self, waiter: Waiter) -> None:
        room, present = self._room, self._present
        super().add(waiter)
        if waiter.ref not in present:
            # ATOMIC: no call until the permit is added, so that an interrupt finds both or neither.
            present[waiter.ref] = None
            room += PERMIT

    def leave(self, waiter: Waiter) -> None:
        self._retract(waiter.ref)
        super().leave(waiter)

    def _retract(self, waiter: ref[Waiter]) -> None:
        room, owed, present = self._room, self._owed, self._present
        try:
            # ATOMIC: no call until the permit is taken or owed, as in add().
            del present[waiter]
        except KeyError:
            return
        try:
            del room[-1]
        except IndexError:
            owed += PERMIT

    def forget_stale(self) -> None:
        """Take back the permits of receivers that cannot leave; see ``Waiter.is_stale``."""
        for domain in self._domains():
            if self._first_of(domain) is not None:
                return
        for each in list(self._present):
            waiter = each()
            if waiter is None or waiter.is_stale:
                self._retract(each)


def _raise_closed(_: object) -> NoReturn:
    raise ChannelClosed


class Buffer:
    """At most ``capacity`` items in the order in which they were accepted; None: any number.

    Attributes:
        items: Accepted and not received yet.
        next_item: Pops the first of them; raises IndexError if there is none.
        accept: Appends to them, or raises ``ChannelClosed``.
        pending: The sends that wait for room, in order.
        receivers: The receivers that wait.
        room: Permits; None: the capacity is infinite.
        closed: Whether nothing more is accepted.
    """

    __slots__ = (
        "_next_pending",
        "_owed",
        "_rendezvous",
        "_unused",
        "accept",
        "closed",
        "items",
        "next_item",
        "pending",
        "receivers",
        "room",
    )

    def __init__(self, capacity: int | None) -> None:
        items: deque[Any] = deque()
        self.items = items
        self.next_item: Iterator[Any] = map(deque.popleft, repeat(items))
        self.accept: Callable[[Any], None] = items.append
        self.closed = False
        self.receivers = WaitQueue()
        self.pending: OrderedDict[PendingSend, None] | tuple[()] = ()
        self.room: list[None] | None = None
        self._rendezvous: RendezvousQueue | None = None
        if capacity is not None:
            self.room = []
            self._owed: list[None] = []
            self._unused = repeat(None, capacity)
            pending: OrderedDict[PendingSend, None] = OrderedDict()
            self.pending = pending
            self._next_pending = map(OrderedDict.popitem, repeat(pending), repeat(False))  # noqa: FBT003
            if capacity == 0:
                self.receivers = self._rendezvous = RendezvousQueue(self.room, self._owed)

    # Receiving

    def take(self) -> Any:  # noqa: ANN401, C901, PLR0912 - any item; one step
        """Receive the first item; ``EMPTY`` if there is none yet, ``ENDED`` if none will come."""
        closed = self.closed
        while self.items or (self.pending and not self.closed):
            try:
                # ATOMIC: no call from here until the permit is back, so no interrupt loses either.
                for item in self.next_item:  # noqa: B007 - used after the loop
                    break
            except IndexError:
                # Python 3.11 may have collected garbage as it made the IndexError.
                if self.items or not self.pending or self.closed:
                    continue
                try:
                    # ATOMIC: no call since the look for items, so that one accepted meanwhile is
                    # not overtaken by the next of its sender; and none until it is decided.
                    for pending, _ in self._next_pending:
                        box = pending.box if pending.generation == _process.generation else NO_BOX
                        item = box[0]
                        del box[0]
                        pending.accepted = True
                        break
                except LookupError:
                    continue  # another thread took it, or its sender withdrew it
                try:
                    self._wake_sender(pending)
                except BaseException:
                    self.items.appendleft(item)  # not put_back(): a second interrupt could hit it
                    self._retract_permit()
                    complete(self._wake_sender, pending)
                    raise
                return item
            room = self.room
            if room is None:
                return item
            owed = self._owed
            if owed:
                try:
                    del owed[-1]
                except IndexError:
                    room += PERMIT
            else:
                room += PERMIT
            if self.pending:
                try:
                    self.admit_pending()
                except BaseException:
                    self.items.appendleft(item)
                    self._retract_permit()
                    raise
            return item
        return ENDED if closed else EMPTY

    def put_back(self, item: object) -> None:
        """Make an item whose receiver was interrupted the first one again."""
        self.items.appendleft(item)
        self._retract_permit()

    def _retract_permit(self) -> None:
        """Take back the permit of an item that was put back, and wake a receiver for it."""
        room = self.room
        if room is not None:
            try:
                del room[-1]
            except IndexError:
                self._owed += PERMIT
        self.wake_receiver()

    def wake_receiver(self) -> None:
        """Wake the next receiver, if there is something to receive."""
        if self.items or (self.pending and not self.closed):
            self.receivers.wake_next()

    # Sending

    def put(self, item: object) -> bool:
        """Accept ``item``; False if there is no room.

        Raises:
            ChannelClosed: The channel is closed.
        """
        if self.room is not None:
            if self.pending:
                self.admit_pending()
                if self.pending:
                    return False
            if self._rendezvous is not None:
                self._rendezvous.forget_stale()
            if not self._take_permit(self.room):
                if self.closed:
                    raise ChannelClosed
                return False
        try:
            self.accept(item)  # ATOMIC: close() must not come between the lookup and the call.
            receivers = self.receivers
            if receivers.lone is not None or receivers.lines:
                receivers.wake_next()
        except BaseException:
            self.wake_receiver()
            raise
        return True

    def _take_permit(self, room: list[None]) -> bool:
        """Take a permit, if there is one; the caller uses it, or puts it back."""
        if room:
            try:
                del room[-1]
            except IndexError:
                pass  # another thread took the last one
            else:
                return True
        for _ in self._unused:
            return True
        return False

    def line_up(self, pending: PendingSend) -> None:
        """Let a send wait for room, unless there is some now, or the channel is closed."""
        self.pending[pending] = None  # type: ignore[index]  # the capacity is finite
        self.admit_pending()
        if self.closed:
            self.withdraw(pending)
        else:
            self.wake_receiver()

    def withdraw(self, pending: PendingSend) -> bool:
        """Refuse a pending send; False if it was decided before."""
        try:
            del pending.box[0]
        except IndexError:
            return False
        pending.accepted = False
        self.pending.pop(pending, None)  # type: ignore[union-attr]
        return True

    def admit_pending(self) -> None:
        """Accept the items of pending sends, in order, while there is room."""
        room = self.room
        while self.pending and room is not None:
            # Not in the condition above: an interrupt at the jump back would lose the permit.
            if not self._take_permit(room):
                return
            try:
                # ATOMIC: no call until the item is accepted, so that no interrupt loses it.
                for pending, _ in self._next_pending:
                    box = pending.box if pending.generation == _process.generation else NO_BOX
                    item = box[0]
                    del box[0]
                    break
            except LookupError:
                room += PERMIT  # another thread took the last one, or its sender withdrew it
                continue
            try:
                (accept := self.accept)(item)  # ATOMIC: as in put()
                pending.accepted = True
                self._wake_sender(pending)
            except BaseException as error:
                if pending.accepted is None:
                    pending.accepted = accept is not _raise_closed  # close() may follow
                complete(self._wake_sender, pending)
                if not isinstance(error, ChannelClosed):
                    raise

    def _wake_sender(self, pending: PendingSend) -> None:
        """Wake a sender after the decision; the caller repeats it if it is interrupted."""
        pending.close()
        self.wake_receiver()

    # The end

    def close(self) -> None:
        """Accept nothing more, refuse pending sends, wake all waiters; may be repeated."""
        self.accept = _raise_closed
        self.closed = True
        while self.pending:
            try:
                # ATOMIC: no call until it is decided.
                for pending, _ in self._next_pending:
                    del pending.box[0]
                    pending.accepted = False
                    break
            except LookupError:
                continue
            try:
                self._wake_sender(pending)
            except BaseException:
                complete(self._wake_sender, pending)
                raise
        self.receivers.close()

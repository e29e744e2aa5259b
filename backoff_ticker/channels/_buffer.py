"""What a channel holds: accepted items, blocked senders, waiting receivers. Nothing blocks here.

A buffer is the wait set of its receivers. Items are appended to a deque, which is a single step,
and only receivers take from it, under the claim. ``Unbounded`` always has room; ``Bounded`` counts
it, and has a line of sends that wait for it; ``Rendezvous`` has as much room as receivers wait.
"""

from __future__ import annotations

from collections import deque

from .. import _process
from .._errors import ChannelClosed
from .._sentinels import EMPTY, ENDED
from ..waiting import FREE, WaitQueue, WaitSet, acquire, complete

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..waiting import Claim, LoopWaiter, Place, ThreadWaiter

    Returned = tuple[Any, "Returned"] | None


class Unbounded(WaitQueue):
    """Any number of items, in the order in which they were sent.

    Invariants:
        * Only receivers take the claim, so one at a time takes the first item.
        * ``ended`` is set when the buffer is closed and empty; then nothing is taken any more.
        * A sender appends first and looks for ``closed`` afterwards. If it finds it closed, and
          ended, then either its item was received, or it stands among those that came too late.

    Attributes:
        closed: Whether nothing more is accepted.
        ended: Whether a receiver has seen the end.
        items: Sent and not received yet.
        returned: What interrupted receivers gave back, which comes first: linked tuples.
        refused: The numbers of items that came after the end, whose senders have noticed it.
    """

    __slots__ = ("ended", "items", "refused", "returned")

    def __init__(self) -> None:
        super().__init__()
        self.items: deque[Any] = deque()
        self.returned: Returned = None
        self.ended = False
        self.refused: dict[int, object] = {}

    def __len__(self) -> int:
        count = 0 if self.ended else len(self.items)
        returned = self.returned
        while returned is not None:
            count += 1
            returned = returned[1]
        return count

    def put(self, item: object) -> bool:
        """Accept ``item``.

        Raises:
            ChannelClosed: The channel is closed.
        """
        if self.closed:
            raise ChannelClosed
        try:
            self.items.append(item)
            if self.first is not None or self.others:
                self.wake_next()
        except BaseException:
            self.wake_receiver()
            raise
        if self.closed and self._is_too_late(item):
            raise ChannelClosed
        return True

    def _is_too_late(self, item: object) -> bool:
        """Whether an item that was sent while the channel was being closed came after its end."""
        claim = self.claim
        acquire(claim)
        try:
            ended = self.ended
        finally:
            claim[FREE] = True
        # The same object may have been sent by several senders, some of them in time: each that
        # comes here takes the blame for one place in which it stands.
        mark = object()
        return ended and any(
            each is item and self.refused.setdefault(number, mark) is mark
            for number, each in enumerate(self.items.copy())
        )

    def take(self) -> Any:  # noqa: ANN401 - any item
        """Receive the first item; ``EMPTY`` if there is none yet, ``ENDED`` if none will come."""
        claim = self.claim
        try:
            del claim[FREE]
        except KeyError:
            acquire(claim)
        try:
            returned = self.returned
            if returned is not None:
                self.returned = returned[1]
                return returned[0]
            items = self.items
            if items and not self.ended:
                item = items[0]
                del items[0]
                return item
            if not self.closed:
                return EMPTY
            self.ended = True
            return ENDED
        finally:
            claim[FREE] = True

    def put_back(self, item: object) -> None:
        """Make an item whose receiver was interrupted the first one again."""
        while not self._put_back((item, self.returned)):
            pass
        self.wake_receiver()

    def _put_back(self, after: tuple[Any, Returned]) -> bool:
        claim = self.claim
        acquire(claim)
        try:
            if self.returned is not after[1]:
                return False
            self.returned = after
            return True
        finally:
            claim[FREE] = True

    def is_ready(self) -> bool:
        """Whether a receiver need not wait: there may be an item, or the end."""
        return bool(self.items) or self.closed or self.returned is not None

    def wake_receiver(self) -> None:
        """Wake the next receiver, if there is something to receive."""
        if self.items or self.returned is not None:
            self.wake_next()


class PendingSend(WaitSet):
    """An item for which there was no room; its sender waits until it is accepted or refused.

    Attributes:
        item: What is sent.
        accepted: Whether it was accepted; None: not decided yet.
        generation: The process of the sender, which does not exist in a forked child.
        earlier, later: Its neighbours in the line.
    """

    __slots__ = ("accepted", "earlier", "generation", "item", "later")

    def __init__(self, claim: Claim, item: object) -> None:
        super().__init__(claim)
        self.item = item
        self.accepted: bool | None = None
        self.generation: int = _process.generation
        self.earlier: PendingSend | None = None
        self.later: PendingSend | None = None

    def recheck(self, waiter: ThreadWaiter | LoopWaiter) -> float | None:
        """Return until when the sender, once registered, has to wait; None: not at all."""
        return waiter.limit if self.accepted is None else None


class Bounded(Unbounded):
    """At most ``limit`` items, and a line of sends that wait for room.

    Invariants, whenever the claim is free:
        * room + accepted items = limit. An item counts as soon as it is accepted; right after that
          it is appended.
        * A send waits only if there was no room when it came. Whoever decides it takes it out of
          the line, and then wakes its sender.
        * After ``closed`` is set nothing is accepted, so a receiver that finds no item, and none
          accepted, has seen them all.

    Attributes:
        limit: The capacity.
        room: How many more items are accepted; less than none after a receiver left a rendezvous.
        first_send, last_send: The ends of the line.
    """

    __slots__ = ("first_send", "last_send", "limit", "room")

    _lets_in = True
    """Whether a receiver that takes an item lets in the next that waits."""

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.limit = self.room = capacity
        self.first_send: PendingSend | None = None
        self.last_send: PendingSend | None = None

    # Sending

    def put(self, item: object) -> bool:
        """Accept ``item``; False if there is no room.

        Raises:
            ChannelClosed: The channel is closed.
        """
        claim = self.claim
        try:
            del claim[FREE]
        except KeyError:
            acquire(claim)
        try:
            if self.room <= 0 or self.first_send is not None or self.closed:
                accepted = False
            else:
                self.room -= 1
                accepted = True
        finally:
            claim[FREE] = True
        if accepted:
            try:
                # ATOMIC: a signal handler that raises between the acceptance and this step would
                # lose the item's room for good, in all three places where an item is accepted.
                self.items.append(item)
                if self.first is not None or self.others:
                    self.wake_next()
            except BaseException:
                self.wake_receiver()
                raise
        elif self.closed:
            raise ChannelClosed
        return accepted

    def line_up(self, pending: PendingSend) -> None:
        """Let a send wait for room, unless there is some now, or the channel is closed."""
        claim = self.claim
        acquire(claim)
        try:
            last = self.last_send
            if self.closed:
                pending.accepted = False
            elif self.room > 0 and last is None:
                self.room -= 1
                pending.accepted = True
            else:
                pending.earlier = last
                self.last_send = pending
                if last is None:
                    self.first_send = pending
                else:
                    last.later = pending
        finally:
            claim[FREE] = True
        if pending.accepted:
            self.items.append(pending.item)
        self.wake_receiver()

    def refuse(self, pending: PendingSend) -> bool:
        """Refuse a send that waits; False if it was decided before."""
        claim = self.claim
        acquire(claim)
        try:
            if pending.accepted is not None:
                return False
            pending.accepted = False
            earlier, later = pending.earlier, pending.later
            if earlier is not None:
                earlier.later = later
            elif self.first_send is pending:
                self.first_send = later
            if later is not None:
                later.earlier = earlier
            elif self.last_send is pending:
                self.last_send = earlier
            pending.earlier = pending.later = None
            return True
        finally:
            claim[FREE] = True

    # Receiving

    def take(self) -> Any:  # noqa: ANN401, C901, PLR0912 - any item; one change
        if self.first_send is not None:
            self._refuse_sends_of_parent()
        claim = self.claim
        try:
            del claim[FREE]
        except KeyError:
            acquire(claim)
        try:
            items, returned, sender = self.items, self.returned, self.first_send
            if returned is not None or items:
                if returned is not None:
                    self.returned = returned[1]
                    item = returned[0]
                else:
                    item = items[0]
                    del items[0]
                self.room += 1
                if sender is not None:
                    if self.room > 0 and self._lets_in:
                        self.room -= 1
                    else:
                        sender = None
                is_handed_over = False
            elif self.room != self.limit:
                return EMPTY  # an accepted item is about to be appended
            elif sender is not None:
                item = sender.item
                is_handed_over = True
            else:
                return ENDED if self.closed else EMPTY
            if sender is not None:
                sender.accepted = True
                self.first_send = later = sender.later
                if later is None:
                    self.last_send = None
                else:
                    later.earlier = sender.later = None
        finally:
            claim[FREE] = True
        if sender is not None:
            try:
                if not is_handed_over:
                    self.items.append(sender.item)
                self._wake_sender(sender)
            except BaseException:
                self.put_back(item)
                complete(self._wake_sender, sender)
                raise
        return item

    def _put_back(self, after: tuple[Any, Returned]) -> bool:
        claim = self.claim
        acquire(claim)
        try:
            if self.returned is not after[1]:
                return False
            self.returned = after
            self.room -= 1
            return True
        finally:
            claim[FREE] = True

    def is_ready(self) -> bool:
        return super().is_ready() or self.first_send is not None

    def wake_receiver(self) -> None:
        if self.items or self.first_send is not None or self.returned is not None:
            self.wake_next()

    def _wake_sender(self, sender: PendingSend) -> None:
        """Wake a sender after the decision; the caller repeats it if it is interrupted."""
        sender.close()
        self.wake_receiver()

    def _refuse_sends_of_parent(self) -> None:
        """In a forked child: drop the sends of threads and loops that exist in the parent only."""
        while (send := self.first_send) is not None and send.generation != _process.generation:
            self.refuse(send)

    # The end

    def close(self) -> None:
        claim = self.claim
        acquire(claim)
        try:
            self.closed = True
        finally:
            claim[FREE] = True
        while (send := self.first_send) is not None:
            if self.refuse(send):
                try:
                    self._wake_sender(send)
                except BaseException:
                    complete(self._wake_sender, send)
                    raise
        super().close()


class Rendezvous(Bounded):
    """A buffer of capacity 0: each waiting receiver makes room for one item."""

    __slots__ = ("_present",)

    _lets_in = False  # the receiver that takes an item leaves, and so does its room

    def __init__(self) -> None:
        super().__init__(0)
        self._present: dict[int, Place] = {}  # includes receivers that were woken, until they leave

    def add(self, place: Place, domain: int) -> None:
        present = self._present
        key = id(place)
        claim = self.claim
        acquire(claim)
        try:
            if key not in present:
                present[key] = place
                self.limit += 1
                self.room += 1
        finally:
            claim[FREE] = True
        super().add(place, domain)

    def leave(self, place: Place, domain: int) -> None:
        self._retract(id(place))
        super().leave(place, domain)

    def _retract(self, key: int) -> None:
        present = self._present
        place = None
        claim = self.claim
        acquire(claim)
        try:
            if key in present:
                place = present[key]
                del present[key]
                self.limit -= 1
                self.room -= 1
        finally:
            claim[FREE] = True
        del place

    def put(self, item: object) -> bool:
        self._forget_stale()
        return super().put(item)

    def _forget_stale(self) -> None:
        """Take back the room of receivers that cannot leave; see ``Waiter.is_stale``."""
        for domain in self.domains():
            if self.first_of(domain) is not None:
                return
        for key, place in self._present.copy().items():
            waiter = place()
            if waiter is None or waiter.is_stale:
                self._retract(key)

"""What a channel holds: accepted items, blocked senders, waiting receivers. Nothing blocks here.

A buffer is the wait set of its receivers. Its items stand in a deque, to which an item is appended,
and from which it is taken, in a single step. ``Unbounded`` needs no more than that; ``Bounded``
counts the room, and has a line of sends that wait for it; ``Rendezvous`` has as much room as
receivers wait.
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


class _Items(deque):  # type: ignore[type-arg]  # deque[Any] would be made at run time
    """Items in the order in which they were accepted."""

    __slots__ = ()

    # ATOMIC: a property, because a signal handler may run after a call. If it raised after a call
    # of popleft(), the item would be gone, and received by nobody.
    first_out = property(deque.popleft)
    """Takes out the first item; raises IndexError if there is none."""


NONE_REFUSED: dict[int, int] = {}
"""Stands for the refused items of a buffer that has not ended."""


class Unbounded(WaitQueue):
    """Any number of items.

    Invariants:
        * A receiver that finds nothing in a closed buffer looks again under the claim. If there is
          nothing, it notes that the buffer ``has_ended``; after that nothing is taken.
        * A sender appends first, and looks for ``closed`` then. If the buffer was closed meanwhile,
          and has ended, its item was received before the end, or it came too late. A receiver that
          began to take an item before the end, and has it after the end, may have found such a one;
          then the two decide under the claim what it is.

    Attributes:
        closed: Whether nothing more is accepted.
        has_ended: Whether a receiver has seen the end.
        items: Accepted and not received yet.
        returned: What interrupted receivers gave back, in linked tuples; it comes first.
        refused: By the identity of an object, how many of its places senders were refused for.
        decisions: How many were made about ``refused``.
        is_plain: Whether to take an item is all that a receiver has to do.
    """

    __slots__ = ("decisions", "has_ended", "is_plain", "items", "refused", "returned")

    def __init__(self) -> None:
        super().__init__()
        self.items = _Items()
        self.returned: tuple[Any, Any] | None = None
        self.is_plain = True
        self.has_ended = False
        self.refused: dict[int, int] = NONE_REFUSED
        self.decisions = 0

    def __len__(self) -> int:
        count = 0 if self.has_ended else len(self.items)
        returned = self.returned
        while returned is not None:
            count += 1
            returned = returned[1]
        return count

    def __bool__(self) -> bool:
        return True

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
        if self.closed and self.came_too_late(item):
            raise ChannelClosed
        return True

    def came_too_late(self, item: object) -> bool:
        """Whether an item that was appended while the buffer was closed came after its end."""
        return self._end_if_empty() and self._is_refused(item, taken=False)

    def was_refused(self, item: object) -> bool:
        """Whether an item that was taken after the end came too late, as its sender was told."""
        return self._is_refused(item, taken=True)

    def _is_refused(self, item: object, *, taken: bool) -> bool:
        """Decide after the end whether an item counts as refused.

        Places of the same object are as good as one another. A sender is refused as long as one
        is left that no other was refused for; who has taken one must drop it if fewer are left
        than were refused.
        """
        key, refused = id(item), self.refused
        claim = self.claim
        while True:
            decisions, left = self.decisions, self._count_of(item)
            acquire(claim)
            try:
                if self.decisions == decisions:  # else ``left`` may be out of date
                    self.decisions = decisions + 1
                    if key not in refused:
                        refused[key] = 0
                    before = refused[key]
                    if taken:
                        if before <= left:
                            return False
                        refused[key] = before - 1
                    else:
                        if before >= left:
                            return False
                        refused[key] = before + 1
                    return True
            finally:
                claim[FREE] = True

    def _count_of(self, item: object) -> int:
        while True:
            try:
                return sum(each is item for each in self.items)
            except RuntimeError:
                pass  # one more sender came too late, meanwhile

    def _end_if_empty(self) -> bool:
        """Note the end of a closed buffer if it is empty; True if it has ended."""
        refused: dict[int, int] = {}
        claim = self.claim
        acquire(claim)
        try:
            if not self.items and not self.has_ended:
                self.refused = refused
                self.is_plain = False
                self.has_ended = True
            return self.has_ended
        finally:
            claim[FREE] = True

    def take(self) -> Any:  # noqa: ANN401 - any item
        """Receive the first item; ``EMPTY`` if there is none yet, ``ENDED`` if none will come."""
        if self.returned is not None and (item := self._take_returned()) is not EMPTY:
            return item
        while not self.has_ended:
            if self.items:
                try:
                    item = self.items.first_out
                except IndexError:
                    continue  # another receiver was faster
                if self.has_ended and self.was_refused(item):
                    break
                return item
            if not self.closed:
                return EMPTY
            self._end_if_empty()
        return ENDED

    def put_back(self, item: object) -> None:
        """Make an item whose receiver was interrupted the first one again; wake another."""
        while not self._add_returned((item, self.returned)):
            pass
        self.wake_receiver()

    def _add_returned(self, returned: tuple[Any, Any]) -> bool:
        claim = self.claim
        acquire(claim)
        try:
            if self.returned is not returned[1]:
                return False
            self.returned = returned
            self.is_plain = False
            return True
        finally:
            claim[FREE] = True

    def _take_returned(self) -> Any:  # noqa: ANN401 - any item
        claim = self.claim
        acquire(claim)
        try:
            returned = self.returned
            if returned is None:
                return EMPTY
            self.returned = returned[1]
            return returned[0]
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
        is_decided: Whether somebody has accepted or refused it, in a change.
        accepted: Whether it was accepted; None: not decided yet, or not told yet.
        generation: The process of the sender, which does not exist in a forked child.
        earlier, later: Its neighbours in the line.
    """

    __slots__ = ("accepted", "earlier", "generation", "is_decided", "item", "later")

    def __init__(self, claim: Claim, item: object) -> None:
        super().__init__(claim)
        self.item = item
        self.is_decided = False
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
          it is appended. It is taken, and its room counted, in one change.
        * A send waits only if there was no room when it came, or others waited. Whoever decides it
          takes it out of the line, and then wakes its sender.
        * After ``closed`` is set only what waits in the line can be accepted, and ``close()``
          refuses it. So a receiver that finds no item, none accepted and no line has seen all.

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
        self.is_plain = False
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
                # lose the item's room for good.
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
        accepted = False
        claim = self.claim
        acquire(claim)
        try:
            last = self.last_send
            if self.closed:
                pending.is_decided = True
                pending.accepted = False
            elif self.room > 0 and last is None:
                self.room -= 1
                pending.is_decided = pending.accepted = accepted = True
            else:
                pending.earlier = last
                self.last_send = pending
                if last is None:
                    self.first_send = pending
                else:
                    last.later = pending
        finally:
            claim[FREE] = True
        try:
            if accepted:
                self.items.append(pending.item)  # no call before it: see put()
            self.wake_receiver()
        except BaseException:
            self.wake_receiver()
            raise

    def refuse(self, pending: PendingSend) -> bool:
        """Refuse a send that waits; False if it was decided before."""
        claim = self.claim
        acquire(claim)
        try:
            if pending.is_decided:
                return False
            pending.is_decided = True
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
            sender = self.first_send
            is_handed_over = False
            if self.items:
                item = self.items.first_out
                self.room += 1
                if sender is not None and self._lets_in and self.room > 0:
                    self.room -= 1
                else:
                    sender = None
            elif self.room != self.limit:
                return EMPTY  # an item is accepted, and just being appended
            elif sender is not None:
                item = sender.item
                is_handed_over = True
            else:
                return ENDED if self.closed else EMPTY
            if sender is not None:
                sender.is_decided = True
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
                    self.items.append(sender.item)  # no call before it: see put()
                self._accept(sender)
            except BaseException:
                self.put_back(item)
                complete(self._accept, sender)
                raise
        return item

    def put_back(self, item: object) -> None:
        claim = self.claim
        acquire(claim)
        try:
            self.room -= 1
        finally:
            claim[FREE] = True
        self.items.appendleft(item)
        self.wake_receiver()

    def is_ready(self) -> bool:
        sends = self.first_send is not None and not self._lets_in  # else a taken item lets it in
        return bool(self.items) or self.closed or sends

    def wake_receiver(self) -> None:
        if self.items or (self.first_send is not None and not self.closed):
            self.wake_next()

    def _accept(self, sender: PendingSend) -> None:
        """Tell a sender whose item was accepted; the caller repeats it if it is interrupted."""
        sender.accepted = True  # only now: its next item must not come before this one
        self._wake_sender(sender)

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

    def add(self, place: Place, domain: int, made: Any = None) -> None:  # noqa: ANN401 - as in WaitSet
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
        super().add(place, domain, made)

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
            first = self.first_of(domain)
            if first is not None and not first[1].is_stale:
                return
        for key, place in self._present.copy().items():
            waiter = place()
            if waiter is None or waiter.is_stale:
                self._retract(key)

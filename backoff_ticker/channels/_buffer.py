"""What a channel holds: accepted items, blocked senders, waiting receivers. Nothing blocks here.

A buffer is the wait set of its receivers. The items of ``Unbounded`` stand in a deque: to send is
to append, to receive is to take the first, each in a single step. ``Bounded`` changes under its
claim: it has numbered items, and a line of sends that wait for room. ``Rendezvous`` has as much
room as receivers wait.
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


# ATOMIC: what is taken out is read from a property, because a signal handler may run after a call.
# If it raised after a call of popleft() or pop(), the item would be gone, and received by nobody.
class _Items(deque):  # type: ignore[type-arg]  # deque[Any] would be made at run time
    """Items in the order in which they were accepted; ``first_out`` takes out the first."""

    __slots__ = ()

    first_out = property(deque.popleft)


class _Returned(list):  # type: ignore[type-arg]  # as above
    """What interrupted receivers gave back; ``last_out`` takes out the last."""

    __slots__ = ()

    last_out = property(list.pop)


class Unbounded(WaitQueue):
    """Any number of items. ``Channel.send()`` appends them.

    Invariants:
        * A receiver that finds nothing in a closed buffer looks again under the claim. If there is
          nothing, that is the end: no receiver that comes later looks into ``items``.
        * A sender appends first, and looks for ``closed`` then. If the end came meanwhile, it takes
          its item out again, and is refused. If the item is gone, a receiver has taken it: before
          the end, or just after it, but then that one came before it.

    Attributes:
        closed: Whether nothing more is accepted.
        limit: How many items are accepted: None stands for any number.
        items: Accepted and not received yet.
        quick: ``items`` while a receiver need not look at anything else, then ``()``.
        returned: What interrupted receivers gave back. It comes first, also after the end.
        late: After the end: items that came later, until their senders take them out.
    """

    __slots__ = ("items", "late", "limit", "quick", "returned")

    def __init__(self) -> None:
        super().__init__()
        self.limit: int | None = None
        self.items = self.quick = _Items()
        self.returned = _Returned()
        self.late: dict[object, Any] | None = None

    def count(self) -> int:
        """Return how many items can be received."""
        return len(self.returned) + (len(self.items) if self.late is None else 0)

    def take(self) -> Any:  # noqa: ANN401 - any item
        """Receive the first item; ``EMPTY`` if there is none yet, ``ENDED`` if none will come."""
        if self.returned:
            try:
                return self.returned.last_out
            except IndexError:
                pass  # another receiver was faster
        while self.late is None:
            if self.items:
                try:
                    return self.items.first_out
                except IndexError:
                    pass  # another receiver was faster
            elif not self.closed:
                return EMPTY
            else:
                self._end_if_empty()
        return ENDED

    def put_back(self, item: object) -> None:
        """Make an item whose receiver was interrupted the first one again; wake another."""
        self.returned.append(item)
        self.quick = ()
        self.wake_receiver()

    def came_too_late(self, item: object) -> bool:
        """Take out an item that was appended to a closed buffer after its end.

        Returns:
            False if it was accepted: there was no end yet, or a receiver has it.
        """
        late = self._end_if_empty()
        if late is None:
            return False
        claim = self.claim
        more = True
        while more:  # else an item may just be on its way from here to there
            key = object()
            acquire(claim)
            try:
                late[key] = self.items.first_out
            except IndexError:
                more = False
            finally:
                claim[FREE] = True
        return _take_out(late, item)

    def _end_if_empty(self) -> dict[object, Any] | None:
        """Note the end of a closed buffer if it is empty; return ``late``."""
        late: dict[object, Any] = {}
        claim = self.claim
        acquire(claim)
        try:
            if self.late is None and not self.items:
                self.quick = ()
                self.late = late
            return self.late
        finally:
            claim[FREE] = True

    def is_ready(self) -> bool:
        """Whether a receiver need not wait: there may be an item, or the end."""
        return bool(self.items or self.closed or self.returned)

    def wake_receiver(self) -> None:
        """Wake the next receiver, if there is something for it."""
        if self.is_ready():
            self.wake_next()


def _take_out(late: dict[object, Any], item: object) -> bool:
    """Take ``item`` out; places of the same object are as good as one another."""
    return any(
        each is item and late.pop(key, EMPTY) is not EMPTY for key, each in late.copy().items()
    )


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


class Bounded(WaitQueue):
    """At most ``limit`` items, and a line of sends that wait for room.

    Invariants, whenever the claim is free:
        * The accepted items have the numbers from ``head`` on; ``tail`` is the next number. There
          are more than ``limit`` only if receivers have given some back, or left a rendezvous.
          (Its steps have such an order that a fork in the middle does no harm.)
        * A send waits only if there was no room when it came, or others waited. Whoever decides it
          takes it out of the line, and then wakes its sender.
        * Once ``closed`` is set nothing is accepted, and ``close()`` refuses what waits.

    Attributes:
        closed, limit, quick: As in ``Unbounded``.
        capacity: The limit, save that of a rendezvous, whose receivers make it.
        items: Accepted and not received yet, by number.
        first_send, last_send: The ends of the line.
    """

    __slots__ = (
        *("capacity", "first_send", "head", "items", "last_send", "limit", "quick"),
        "tail",
    )

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.capacity = self.limit = capacity
        self.quick = ()
        self.items: dict[int, Any] = {}
        self.head = self.tail = 0
        self.first_send: PendingSend | None = None
        self.last_send: PendingSend | None = None

    def count(self) -> int:
        """Return how many items can be received."""
        return len(self.items)

    # Sending

    def put(self, item: object, pending: PendingSend | None = None) -> bool:
        """Accept ``item``; False if there is no room, and ``pending`` stands in line for some.

        Raises:
            ChannelClosed: The channel is closed.
        """
        accepted = False
        claim = self.claim
        try:
            del claim[FREE]
        except KeyError:
            acquire(claim)
        try:
            closed = self.closed
            last = self.last_send
            if closed:
                pass
            elif last is None and self.tail - self.head < self.limit:
                self.items[self.tail] = item
                self.tail += 1
                accepted = True
            elif pending is not None:
                pending.earlier = last
                self.last_send = pending
                if last is None:
                    self.first_send = pending
                else:
                    last.later = pending
        finally:
            claim[FREE] = True
        if closed:
            raise ChannelClosed
        try:
            if self.first is not None or self.others:
                self.wake_next()
        except BaseException:
            self.wake_receiver()
            raise
        return accepted

    def refuse(self, pending: PendingSend) -> bool:
        """Refuse a send that waits, and wake its sender; False if it was decided before.

        An interrupted call must be repeated.
        """
        claim = self.claim
        acquire(claim)
        try:
            is_first_to_decide = pending.accepted is None
            if is_first_to_decide:
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
        finally:
            claim[FREE] = True
        if not pending.accepted:
            pending.close()
        return is_first_to_decide

    # Receiving

    def take(self) -> Any:  # noqa: ANN401 - any item
        """Receive the first item; ``EMPTY`` if there is none yet, ``ENDED`` if none will come.

        The first send that waits is accepted, if the capacity allows it then, or nothing else is
        there.
        """
        if self.first_send is not None:
            self._refuse_sends_of_parent()
        claim = self.claim
        try:
            del claim[FREE]
        except KeyError:
            acquire(claim)
        try:
            head, sender = self.head, self.first_send
            if sender is None or self.closed or self.tail - head > self.capacity:
                sender = None
            else:
                self.items[self.tail] = sender.item
                self.tail += 1
                sender.accepted = True
                self.first_send = later = sender.later
                if later is None:
                    self.last_send = None
                else:
                    later.earlier = sender.later = None
            if head == self.tail:
                return ENDED if self.closed else EMPTY
            self.head = head + 1
            item = self.items[head]
            del self.items[head]
        finally:
            claim[FREE] = True
        if sender is not None:
            try:
                sender.close()
                self.wake_receiver()
            except BaseException:
                self.put_back(item)
                complete(sender.close)
                raise
        return item

    def put_back(self, item: object) -> None:
        """Make an item whose receiver was interrupted the first one again; wake another."""
        claim = self.claim
        acquire(claim)
        try:
            self.items[self.head - 1] = item
            self.head -= 1
        finally:
            claim[FREE] = True
        self.wake_receiver()

    def is_ready(self) -> bool:
        return self.head != self.tail or self.closed or self.first_send is not None

    def wake_receiver(self) -> None:
        """Wake the next receiver, if there is something for it."""
        if self.is_ready():
            self.wake_next()

    def _refuse_sends_of_parent(self) -> None:
        """In a forked child: drop the sends of threads and loops that exist in the parent only."""
        while (send := self.first_send) is not None and send.generation != _process.generation:
            self.refuse(send)

    # The end

    def close(self) -> None:
        claim = self.claim
        acquire(claim)  # so that a send that is not found below comes later, and then sees this
        try:
            self.closed = True
        finally:
            claim[FREE] = True
        while (send := self.first_send) is not None:
            try:
                self.refuse(send)
            except BaseException:
                complete(self.refuse, send)
                raise
        super().close()


class Rendezvous(Bounded):
    """A buffer of capacity 0: each waiting receiver makes room for one item."""

    __slots__ = ("_present",)

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
        finally:
            claim[FREE] = True
        super().add(place, domain, made)

    def leave(self, place: Place, domain: int) -> None:
        self._retract(place)
        super().leave(place, domain)

    def _retract(self, place: Place) -> None:
        present = self._present
        key = id(place)
        claim = self.claim
        acquire(claim)
        try:
            if key in present:
                del present[key]
                self.limit -= 1
        finally:
            claim[FREE] = True

    def put(self, item: object, pending: PendingSend | None = None) -> bool:
        self._forget_stale()
        return super().put(item, pending)

    def _forget_stale(self) -> None:
        """Take back the room of receivers that cannot leave; see ``Waiter.is_stale``."""
        for domain in self.domains():
            first = self.first_of(domain)
            if first is not None and not first[1].is_stale:
                return
        for place in self._present.copy().values():
            waiter = place()
            if waiter is None or waiter.is_stale:
                self._retract(place)

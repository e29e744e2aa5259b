"""What a channel holds: accepted items, blocked senders, waiting receivers. Nothing waits here.

A buffer is the wait set of its receivers. ``Unbounded`` takes and gives an item in a single step,
and needs its claim at the end only; ``Bounded`` does so under its claim, as it counts the room.
"""

from __future__ import annotations

from collections import deque

from .. import _process
from .._errors import ChannelClosed
from .._sentinels import EMPTY, ENDED
from ..waiting import FREE, FREED, WaitQueue, WaitSet, acquire, check_stack, complete

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..waiting import Claim, Place, Waiter


class _Items(deque):  # type: ignore[type-arg]  # deque[Any] would be made at run time
    """Items in the order in which they were accepted; a change may use its properties."""

    __slots__ = ()

    # ATOMIC: a signal handler that raises after a call of popleft() would lose the item.
    first_out = property(deque.popleft)
    first_in = property(None, deque.appendleft)
    last_in = property(None, deque.append)


class Unbounded(WaitQueue):
    """Any number of items; ``Channel.send()`` appends them to ``inbox``, by ``accept(item)``.

    Invariants:
        * ``inbox`` is ``items`` until the end: a receiver finds nothing in a closed buffer, looks
          again under the claim, and replaces ``items``. So nobody who comes later receives what
          senders still append.
        * A sender appends first, and looks for ``closed`` then. After the end it takes its item out
          again: it is refused. If the item is gone, a receiver that came before the end has it.

    Attributes:
        accept: Appends to ``inbox``; kept, as CPython is slow to call a method of a subclass in C.
        room: How many more items are accepted; here None, for any number.
        items: Accepted and not received yet.
        quick: ``items`` while a receiver need not look at anything else; else ``()``.
        late: None until the end; then items that came later, until their senders take them out.
    """

    __slots__ = ("accept", "inbox", "items", "late", "quick", "room")

    def __init__(self) -> None:
        super().__init__()
        self.room: Any = None
        self.items = self.inbox = _Items()
        self.accept = self.inbox.append
        self.quick: _Items | tuple[()] = self.items
        self.late: dict[object, Any] | None = None

    def take(self) -> Any:
        """Receive the first item; ``EMPTY`` if there is none yet, ``ENDED`` if none will come."""
        while True:
            if self.items:
                try:
                    return self.items.first_out
                except IndexError:
                    pass  # another receiver was faster
            elif not self.closed:
                return EMPTY
            elif self._end_if_empty() is not None:
                return ENDED

    def put_back(self, item: object) -> None:
        """Make an item whose receiver was interrupted the first one again; wake another."""
        claim = self.claim
        acquire(claim)
        try:
            room = self.room
            if room is not None:
                room -= 1
            self.items.first_in = item
            self.room = room
        finally:
            claim += FREED
        self.wake_receiver()

    def take_out_late(self, item: object) -> bool:
        """Take out an item that was appended after the end; False if it is accepted.

        If several senders have sent the same object, each takes out any one of them.
        """
        late = self._end_if_empty()
        if late is None:
            return False
        claim = self.claim
        moving = True
        while moving:  # if its item is in neither place then, a receiver has it
            key = object()
            acquire(claim)
            try:
                if self.inbox:
                    late[key] = EMPTY  # then there is memory for the item
                    late[key] = self.inbox.first_out
                else:
                    moving = False
            except IndexError:
                pass  # a receiver was faster
            finally:
                claim += FREED
        while keys := [key for key in [*late] if late.get(key, EMPTY) is item]:
            if any(late.pop(key, EMPTY) is not EMPTY for key in keys):
                return True
        return False

    def _end_if_empty(self) -> dict[object, Any] | None:
        """Note the end of a closed buffer if it is empty; return ``late``."""
        items = _Items()
        late: dict[object, Any] = {}
        claim = self.claim
        acquire(claim)
        try:
            if self.late is None and not self.items:
                self.items = items
                self.quick = ()
                self.late = late
            return self.late
        finally:
            claim += FREED

    def is_ready(self) -> bool:
        """Whether a receiver need not wait: there may be something, or it is the end."""
        return bool(self.items or self.closed)

    @property
    def is_timed(self) -> bool:
        """Whether an item will come at some time, whatever others do."""
        return False

    def wake_receiver(self) -> None:
        if self.is_ready():
            self.wake_next()


class PendingSend(WaitSet):
    """An item for which there was no room; its sender waits until it is accepted or refused."""

    __slots__ = ("accepted", "earlier", "generation", "item", "later")

    def __init__(self, claim: Claim, item: object) -> None:
        super().__init__(claim)
        self.item = item
        self.accepted: bool | None = None  # until it is decided
        self.generation: int = _process.generation  # a forked child does not have the sender
        self.earlier: PendingSend | None = None  # its neighbours in the line
        self.later: PendingSend | None = None

    def recheck(self, waiter: Waiter) -> float | None:
        return waiter.limit if self.accepted is None else None


class Bounded(Unbounded):
    """At most ``capacity`` items, and a line of sends that wait for room.

    Invariants, whenever the claim is free:
        * room + items = capacity + receivers.
        * A send waits only if there was no room when it came, or others waited. The thread
          that decides it takes it out of the line, and then wakes its sender.
        * Once ``closed`` is set, nothing is accepted, and ``close()`` refuses what waits. So a
          change that accepts an item looks at ``closed`` itself.

    Attributes:
        room: How many more items are accepted; less than none after an interrupted receiver has
            given one back, or left a rendezvous.
        receivers: How many receivers make room for one item each, in a rendezvous.
        first_send, last_send: The ends of the line.
    """

    __slots__ = ("first_send", "last_send", "receivers")

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.room = capacity
        self.receivers = 0
        self.quick = ()
        self.first_send: PendingSend | None = None
        self.last_send: PendingSend | None = None

    def put(self, item: object, pending: PendingSend | None, least: int = 0) -> bool:
        """Accept ``item`` if the room is over ``least``; else ``pending`` stands in line for it."""
        accepted = False
        if self.first is not None or self.others:
            check_stack()
        claim = self.claim
        try:
            del claim[FREE]
        except IndexError:
            acquire(claim)
        try:
            is_closed = self.closed
            last = self.last_send
            if is_closed:
                pass
            elif last is None and self.room > least:
                room = self.room - 1
                self.items.last_in = item
                self.room = room
                accepted = True
            elif pending is not None:
                pending.earlier = last
                self.last_send = pending
                if last is None:
                    self.first_send = pending
                else:
                    last.later = pending
        finally:
            claim += FREED
        if is_closed:
            raise ChannelClosed
        try:
            if self.first is not None or self.others:
                self.wake_next()
        except BaseException:
            self.wake_receiver()
            raise
        return accepted

    def refuse(self, pending: PendingSend) -> None:
        """Refuse a send that waits, unless it was decided before, and wake its sender."""
        claim = self.claim
        acquire(claim)
        try:
            if pending.accepted is None:
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
            claim += FREED
        if not pending.accepted:
            pending.close()  # also when a call that was interrupted before it is repeated

    def take(self) -> Any:  # noqa: C901, PLR0912 - any item; one change
        """As in ``Unbounded``; it accepts the send that waited longest, if there is room then."""
        while (first := self.first_send) is not None:
            if first.generation == _process.generation:
                check_stack()
                break
            self.refuse(first)  # its sender exists in the parent of this process only
        claim = self.claim
        try:
            del claim[FREE]
        except IndexError:
            acquire(claim)
        try:
            send = self.first_send
            if send is not None and (self.closed or self.room < self.receivers):
                send = None
            items = self.items
            if items:
                if send is None:
                    self.room += 1
                else:
                    items.last_in = send.item
                # Not ``first_out``: without the interpreter's lock all threads share its look-up.
                item = items[0]
                del items[0]
            elif send is not None:
                item = send.item
            else:
                return ENDED if self.closed else EMPTY
            if send is not None:
                send.accepted = True
                self.first_send = later = send.later
                if later is None:
                    self.last_send = None
                else:
                    later.earlier = send.later = None
        finally:
            claim += FREED
        if send is not None:
            try:
                send.close()
                self.wake_receiver()
            except BaseException:
                self.put_back(item)
                send.close()
                raise
        return item

    def is_ready(self) -> bool:
        return self.first_send is not None or super().is_ready()

    def close(self) -> None:
        super().close()  # a send that comes after this sees it, one before it is found below
        while (send := self.first_send) is not None:
            complete(self.refuse, send)


class Rendezvous(Bounded):
    """A buffer of capacity 0: each waiting receiver makes room for one item."""

    __slots__ = ("_present",)

    def __init__(self) -> None:
        super().__init__(0)
        self._present: dict[int, Place] = {}  # includes receivers that were woken, until they leave

    def add(self, place: Place, domain: int, new: Any = None) -> None:
        key = id(place)
        waiter: Any = place()
        counts = not waiter.stays  # else only while somebody waits: see put()
        claim = self.claim
        acquire(claim)
        try:
            if counts and key not in self._present:
                receivers, room = self.receivers + 1, self.room + 1
                self._present[key] = place
                self.receivers, self.room = receivers, room
        finally:
            claim += FREED
        super().add(place, domain, new)

    def leave(self, place: Place, domain: int) -> None:
        key = id(place)
        claim = self.claim
        acquire(claim)
        try:
            if key in self._present:
                receivers, room = self.receivers - 1, self.room - 1
                del self._present[key]
                self.receivers, self.room = receivers, room
        finally:
            claim += FREED
        super().leave(place, domain)

    def put(self, item: object, pending: PendingSend | None, least: int = 0) -> bool:
        waiting = self.reachable()
        if not waiting:
            for place in [*self._present.values()]:
                waiter = place()
                if waiter is None or waiter.is_stale:
                    self.leave(place, self.domain)  # its waiter cannot
        return super().put(item, pending, least - sum(waiter.stays for waiter in waiting))

"""What a channel holds: items that were accepted, and those of senders that wait for room.

Nothing here waits and nothing takes a lock, so all of it may run in signal handlers and finalizers.

Where the capacity is finite, accepting takes a *permit* from ``_room``, or one that is still
``_unused``, and receiving puts one into ``_room``. On a rendezvous each waiting receiver brings one
and takes one along when it leaves; if a sender has used it, one is *owed*, and the next item to be
received pays for it.

Invariants:
    * unused permits + those in ``_room`` - owed + items accepted and not received
      = capacity + waiting receivers.
    * The steps are operations of lists, dictionaries and deques, each atomic. The interpreter runs
      other threads and signal handlers after calls and where loops go round, only. So between
      taking something and putting it where it is safe stands no call: a ``for`` statement pops
      without one, and ``del`` and ``+=`` are none.
    * Items are appended by ``_accept``, which ``close()`` replaces. To look it up and to call it
      is one step, and a receiver looks whether the channel was closed before it looks for items.
      So whatever is accepted is seen by everyone who sees the end.
    * An offer is taken out of ``_offers`` by whoever decides on it. It is decided once, by deletion
      from its box; ``accepted`` follows, and then its sender is woken.
"""

from __future__ import annotations

from collections import deque
from itertools import repeat
from types import GenericAlias

from .. import _process
from .._errors import ChannelClosed
from .._sentinels import EMPTY
from ..waiting import Source, WaitQueue
from ._pending_send import GONE, Offer
from ._rendezvous import ONE, RendezvousQueue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, NoReturn

    from ..waiting import Waiter


def _raise_closed(_: object) -> NoReturn:
    raise ChannelClosed


class Buffer(Source):
    """Items in the order in which they came, at most ``capacity`` of them; None: any number."""

    __slots__ = (
        "_accept",
        "_closed",
        "_items",
        "_made",
        "_offering",
        "_offers",
        "_owed",
        "_popping",
        "_receivers",
        "_rendezvous",
        "_room",
        "_taking",
        "_unused",
        "_waiting",
    )

    __class_getitem__: classmethod[Any, ..., GenericAlias] = classmethod(GenericAlias)

    def __init__(self, capacity: int | None) -> None:
        items: deque[Any] = deque()
        self._items = items
        self._accept: Callable[[Any], None] = items.append
        self._popping: Iterator[Any] = map(deque.popleft, repeat(items))
        self._taking: Iterator[Any] = self._popping
        self._closed = False
        self._made: dict[str, Any] = {}
        self._receivers: Any = None  # their WaitQueue; made with the first of them
        self._waiting: dict[Waiter, None] | tuple[()] = ()  # receivers that nobody has woken yet
        self._offers: deque[Offer] | tuple[()] = ()
        self._offering: Iterator[Offer] = iter(())
        self._room: list[None] | None = None
        self._owed: list[None] = []
        self._rendezvous: RendezvousQueue | None = None
        if capacity is not None:
            self._room = []
            self._unused = repeat(None, capacity)
            self._taking = iter(())
            if capacity == 0:
                self._rendezvous = RendezvousQueue(self._room, self._owed)

    # Receiving

    def _take(self) -> Any:  # noqa: ANN401, C901, PLR0912 - one step, whatever the items are
        """Receive the first item, if there is one; else return ``EMPTY``."""
        while self._items or (self._offers and not self._closed):
            try:
                for item in self._popping:  # noqa: B007 - it is used after the loop
                    break
            except IndexError:
                if not self._offers or self._closed:
                    continue
                try:
                    for offer in self._offering:
                        box = offer.box if offer.generation == _process.generation else GONE
                        item = box[0]
                        del box[0]
                        offer.accepted = True
                        break
                except IndexError:
                    continue  # its sender took that one back
                try:
                    self._tell(offer)
                except BaseException:
                    self._items.appendleft(item)  # itself, since the next may hit a call of ours
                    self._account_for_return()
                    self._tell(offer)
                    raise
                return item
            room = self._room
            if room is None:
                return item
            if self._owed:
                try:
                    del self._owed[-1]
                except IndexError:
                    room += ONE
            else:
                room += ONE
            if self._offers:
                try:
                    self._let_in()
                except BaseException:
                    self._items.appendleft(item)
                    self._account_for_return()
                    raise
            return item
        return EMPTY

    def _put_back(self, item: object) -> None:
        """Make an item whose receiver was interrupted the first one again."""
        self._items.appendleft(item)
        self._account_for_return()

    def _account_for_return(self) -> None:
        """Take back the permit of an item that was put back, and wake somebody for it."""
        room, owed = self._room, self._owed
        if room is not None:
            try:
                del room[-1]
            except IndexError:
                owed += ONE
        self._pass_on_wakeup()

    def _pass_on_wakeup(self) -> None:
        """Wake the next receiver, if there is something to receive."""
        if self._waiting and (self._items or (self._offers and not self._closed)):
            self._receivers.wake_next()

    def _line(self) -> WaitQueue:
        """Return the queue of waiting receivers; made with the first of them."""
        line: WaitQueue | None = self._receivers
        if line is None:
            line = self._made.setdefault("line", self._rendezvous or WaitQueue())
            self._waiting = line.waiters
            self._receivers = line
        return line

    # Sending

    def _put(self, item: object) -> bool:
        """Have ``item`` accepted; False if there is no room.

        Raises:
            ChannelClosed: The channel is closed.
        """
        room = self._room
        if room is not None:
            if self._offers:
                self._let_in()
                if self._offers:
                    return False
            if self._rendezvous is not None:
                self._rendezvous.forget_gone()
            if not self._admits(room):
                if self._closed:
                    raise ChannelClosed
                return False
        try:
            self._accept(item)
            if self._waiting:
                self._receivers.wake_next()
        except BaseException:
            self._pass_on_wakeup()
            raise
        return True

    def _admits(self, room: list[None]) -> bool:
        """Take a permit, if there is one; the caller is to use it, or to put it back."""
        if room:
            try:
                del room[-1]
            except IndexError:
                pass  # somebody else took the last one
            else:
                return True
        for _ in self._unused:
            return True
        return False

    def _line_up(self, offer: Offer) -> None:
        """Have a sender wait for room, unless there is some now, or the channel is closed."""
        offers: deque[Offer] | None = self._made.get("offers")
        if offers is None:
            offers = self._made.setdefault("offers", deque())
        if self._offers is not offers:
            self._offering = map(deque.popleft, repeat(offers))
            self._offers = offers
        offers.append(offer)
        self._let_in()
        if self._closed:
            self._withdraw(offer)
        else:
            self._pass_on_wakeup()

    def _withdraw(self, offer: Offer) -> bool:
        """Take an offer back; False if it was decided before."""
        try:
            del offer.box[0]
        except IndexError:
            return False
        offer.accepted = False
        if self._offers:
            try:
                self._offers.remove(offer)
            except ValueError:
                pass  # somebody who found it empty has taken it out
        return True

    def _let_in(self) -> None:
        """Accept the items of senders that wait, in order, as far as there is room."""
        room = self._room
        while self._offers and room is not None:
            if not self._admits(room):  # not in the line above: an interrupt can hit a jump back
                return
            try:
                for offer in self._offering:
                    box = offer.box if offer.generation == _process.generation else GONE
                    item = box[0]
                    del box[0]
                    break
            except IndexError:
                room += ONE  # its sender took that one back
                continue
            try:
                (accept := self._accept)(item)
                offer.accepted = True
                self._tell(offer)
            except BaseException as error:
                if offer.accepted is None:
                    offer.accepted = accept is not _raise_closed  # whatever was closed since
                self._tell(offer)
                if not isinstance(error, ChannelClosed):
                    raise

    def _tell(self, offer: Offer) -> None:
        """Wake those whom a decision concerns; to be called again if it is interrupted."""
        offer.close()
        self._pass_on_wakeup()

    # The end

    def _shut(self) -> None:
        """Accept nothing more, refuse those who wait for room, wake everybody."""
        self._accept = _raise_closed
        self._closed = True
        while self._offers:
            try:
                for offer in self._offering:
                    del offer.box[0]
                    offer.accepted = False
                    break
            except IndexError:
                continue
            try:
                self._tell(offer)
            except BaseException:
                self._tell(offer)
                raise
        if self._receivers is not None:
            self._receivers.close()

"""How items are sent on a channel: the wait for room, in threads and coroutines."""

from __future__ import annotations

from .._errors import ChannelClosed, WouldBlock
from .._validation import as_seconds
from ..waiting import CHECKPOINT_EVERY, NO_DEADLINE, checkpoint, park_coroutine, park_thread
from ._buffer import Buffer
from ._pending_send import Offer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta
    from typing import Generic, TypeVar

    from ..clock import Clock

    T = TypeVar("T")

    class _Items(Buffer, Generic[T]):
        __slots__ = ()
        _taking: Iterator[T]

        def _take(self) -> T: ...
else:
    T = None
    _Items = {T: Buffer}


class Sending(_Items[T]):
    """The sending side of a channel, and how both sides measure their time-outs."""

    __slots__ = ("_before_way", "_clock")

    def __init__(self, capacity: int | None, clock: Clock) -> None:
        super().__init__(capacity)
        self._clock = clock
        self._before_way = CHECKPOINT_EVERY - 1  # so many coroutines may pass before one gives way

    def send_nowait(self, item: T) -> None:
        """Send ``item`` if it is accepted at once.

        Raises:
            WouldBlock: There is no room; on a rendezvous, no receiver waits.
            ChannelClosed: The channel is closed.
        """
        if self._room is None:  # straight, as in send(): a call would cost as much as the rest
            try:
                self._accept(item)
                if self._waiting:
                    self._receivers.wake_next()
            except BaseException:
                self._pass_on_wakeup()
                raise
        elif not self._put(item):
            raise WouldBlock("the channel has no room, or no waiting receiver")

    def send(self, item: T, timeout: float | timedelta | None = None) -> None:
        """Block until ``item`` is accepted; on a rendezvous, until there is a receiver for it.

        Args:
            item: What to send.
            timeout: Seconds >= 0 or a timedelta; 0 does not wait; None: no limit.

        Raises:
            TypeError, ValueError: ``timeout`` is not a finite duration of at least 0.
            TimeoutError: It was not accepted in time, and will not be.
            ChannelClosed: The channel is closed, or was before the item was accepted.
        """
        if self._room is None and timeout is None:
            try:
                self._accept(item)
                if self._waiting:
                    self._receivers.wake_next()
            except BaseException:
                self._pass_on_wakeup()
                raise
            return
        seconds = None if timeout is None else as_seconds("timeout", timeout)
        if self._put(item):
            return
        limit = self._limit(seconds)
        offer = Offer(item)
        try:
            self._line_up(offer)
            while not self._settled(offer, limit, seconds):
                park_thread(self._clock, "Channel.send()", (offer,), offer.look, limit)
        except BaseException:
            self._withdraw(offer)
            raise

    async def send_async(self, item: T, timeout: float | timedelta | None = None) -> None:
        """Wait in a coroutine until ``item`` is accepted, as ``send()`` does in a thread.

        If it is cancelled, the item may have been accepted in the same moment.
        """
        seconds = None if timeout is None else as_seconds("timeout", timeout)
        if self._before_way <= 0:
            self._before_way = CHECKPOINT_EVERY
            await checkpoint
        self._before_way -= 1
        if self._room is None:
            try:
                self._accept(item)
                if self._waiting:
                    self._receivers.wake_next()
            except BaseException:
                self._pass_on_wakeup()
                raise
            return
        if self._put(item):
            return
        limit = self._limit(seconds)
        offer = Offer(item)
        try:
            self._line_up(offer)
            while not self._settled(offer, limit, seconds):
                await park_coroutine(self._clock, (offer,), offer.look, limit)
        except BaseException:
            self._withdraw(offer)
            raise

    def _settled(self, offer: Offer, limit: float, seconds: float | None) -> bool:
        """Whether an offer was accepted; raises if it will not be."""
        if offer.accepted is None and self._is_past(limit) and self._withdraw(offer):
            raise TimeoutError(f"no room, or no receiver, within {seconds} s")
        if offer.accepted is False:
            raise ChannelClosed
        return offer.accepted is True

    def _limit(self, seconds: float | None) -> float:
        return NO_DEADLINE if seconds is None else self._clock.monotonic() + seconds

    def _is_past(self, limit: float) -> bool:
        return limit != NO_DEADLINE and self._clock.monotonic() >= limit

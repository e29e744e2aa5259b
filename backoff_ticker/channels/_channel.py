"""Channels: queues that threads and event loops share, that can be closed and iterated."""

from __future__ import annotations

from sys import maxsize

from .._errors import ChannelClosed, WouldBlock
from .._process import ProcessBound
from .._sentinels import EMPTY, ENDED
from .._validation import as_count, as_seconds, safe_repr
from ..clock import resolve_clock
from ..waiting import CHECKPOINT_EVERY, NO_DEADLINE, checkpoint, park_coroutine, park_thread
from ._sending import Sending, T

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Self

    from ..clock import Clock
    from ..waiting import LoopWaiter, ThreadWaiter, WaitSet


class Channel(Sending[T], ProcessBound):
    """Passes items from any number of senders to any number of receivers, in threads and loops.

    Each item goes to exactly one receiver, in the order in which they were accepted. After
    ``close()`` nothing more is accepted; what was accepted is still received, then iteration ends.

    ``for item in channel:`` and ``async for item in channel:`` receive until then. A channel
    belongs to no event loop, and none needs to run when it is made. Where items, or room, are
    there without a wait, coroutines give way to their loop at each 64th.

    Wakes when: a receiver by an item, a sender by room (on a rendezvous, by a receiver), both by
    ``close()``.
    If cancelled or interrupted: a receiver takes nothing with it, and the wake-up it had goes on
    to the next. The item of a sender may have been received, if it was at the same moment.
    Thread safety: every method, from any thread; those that do not wait also from signal handlers,
    finalizers and callbacks.

    ``len(channel)`` is the number of items accepted and not received yet; a channel is true even
    without any.

    Args:
        capacity: So many items >= 0 are accepted ahead of the receivers; ``math.inf``: any number.
            0 is a rendezvous: ``send()`` waits for a receiver, and ``send_nowait()`` succeeds
            only while one waits. Should that one leave all the same, its item stays readable.
        clock: Measures time-outs; None: the current clock.

    Raises:
        TypeError, ValueError: ``capacity`` is neither ``math.inf`` nor an int >= 0.
        TypeError: ``clock`` is no clock.
    """

    __slots__ = ("__weakref__", "_capacity")

    _kind = "a Channel"

    def __init__(self, capacity: float = 0, *, clock: Clock | None = None) -> None:
        unbounded = capacity.__class__ is float and capacity == NO_DEADLINE
        count = maxsize if unbounded else as_count("capacity", capacity, also="math.inf")
        super().__init__(count if count < maxsize else None, resolve_clock(clock))
        self._capacity = capacity

    @property
    def capacity(self) -> float:
        """How many items are accepted ahead of the receivers."""
        return self._capacity

    @property
    def clock(self) -> Clock:
        """What measures time-outs."""
        return self._clock

    @property
    def closed(self) -> bool:
        """Whether it was closed; items may still be there to be received."""
        return self._closed

    # Receiving

    def receive_nowait(self) -> T:
        """Receive an item if there is one.

        Raises:
            WouldBlock: There is none, and on a rendezvous no sender waits.
            ChannelClosed: The channel is closed, and all that was accepted is received.
        """
        closed = self._closed
        item = self._take()
        if item is EMPTY:
            if closed:
                raise ChannelClosed
            raise WouldBlock("the channel is empty")
        return item

    def receive(self, timeout: float | timedelta | None = None) -> T:
        """Block until there is an item and receive it.

        Args:
            timeout: Seconds >= 0 or a timedelta; 0 does not wait; None: no limit.

        Raises:
            TypeError, ValueError: ``timeout`` is not a finite duration of at least 0.
            TimeoutError: None came in time.
            ChannelClosed: The channel is closed, and all that was accepted is received.
        """
        seconds = None if timeout is None else as_seconds("timeout", timeout)
        try:
            for item in self._taking:  # straight, as in send()
                return item
        except IndexError:
            pass
        limit = self._limit(seconds)
        try:
            while True:
                item = self._take_in_time(limit, seconds)
                if item is not EMPTY:
                    return item
                park_thread(self._clock, "Channel.receive()", (self._line(),), self._recheck, limit)
        except BaseException:
            self._pass_on_wakeup()
            raise

    async def receive_async(self, timeout: float | timedelta | None = None) -> T:
        """Wait in a coroutine until there is an item and receive it, as ``receive()`` does.

        If it is cancelled, no item is lost.
        """
        seconds = None if timeout is None else as_seconds("timeout", timeout)
        if self._before_way <= 0:
            self._before_way = CHECKPOINT_EVERY
            await checkpoint
        self._before_way -= 1
        if self._items:
            try:
                for item in self._taking:
                    return item
            except IndexError:
                pass
        limit = self._limit(seconds)
        try:
            while True:
                item = self._take_in_time(limit, seconds)
                if item is not EMPTY:
                    return item
                await park_coroutine(self._clock, (self._line(),), self._recheck, limit)
        except BaseException:
            self._pass_on_wakeup()
            raise

    def _take_in_time(self, limit: float, seconds: float | None) -> T:
        """Receive an item; ``EMPTY`` if there is none yet, an error if none comes any more."""
        closed = self._closed
        item = self._take()
        if item is EMPTY:
            if closed:
                raise ChannelClosed
            if self._is_past(limit):
                raise TimeoutError(f"no item within {seconds} s")
        return item

    def _recheck(self, waiter: ThreadWaiter | LoopWaiter) -> float | None:
        """Tell a receiver that is registered until when to wait; None: not at all."""
        if self._items or self._offers or self._closed:
            return None
        self._receivers.add(waiter)  # whoever woke it has taken it out
        return None if self._items or self._offers or self._closed else waiter.limit

    def _wait_sets(self) -> tuple[WaitSet, ...]:
        return (self._line(),)

    def _try(self, *, fresh: bool) -> object:  # noqa: ARG002 - a ticker wants to know
        closed = self._closed
        item = self._take()
        return ENDED if closed and item is EMPTY else item

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        try:
            return self.receive()
        except ChannelClosed:
            raise StopIteration from None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        try:
            return await self.receive_async()
        except ChannelClosed:
            raise StopAsyncIteration from None

    # The end

    def close(self) -> None:
        """Accept nothing more.

        Senders that wait get ``ChannelClosed``, and their items are not received. Receivers get
        what was accepted before, then the end; those that wait wake. Never blocks; harmless twice.
        """
        try:
            self._shut()
        except BaseException:
            self._shut()
            raise

    def __len__(self) -> int:
        return len(self._items)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open"
        return f"<Channel {state}, capacity={safe_repr(self._capacity)}, {len(self)} items>"

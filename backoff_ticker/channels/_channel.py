"""``Channel``: the waits around a buffer, in threads and in coroutines."""

from __future__ import annotations

from sys import modules
from types import GenericAlias

from .._errors import ChannelClosed, WouldBlock
from .._process import ProcessBound
from .._sentinels import EMPTY, ENDED
from .._validation import as_count, as_seconds, counted, safe_repr
from ..clock import later, resolve_clock
from ..waiting import (
    CHECKPOINT_EVERY,
    NO_DEADLINE,
    Source,
    carry_out,
    check_stack,
    checkpoint,
    complete,
    park_coroutine,
    park_thread,
    trio_runs,
)
from ._buffer import Bounded, PendingSend, Rendezvous, Unbounded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Any, Generic, Self, TypeVar

    from .._sentinels import Closed
    from ..clock import Clock
    from ..waiting import Waiter, WaitSet

    T = TypeVar("T")
else:
    T, Generic = None, {None: object}  # typing is not imported at run time

_SENDING = "Channel.send()", "await channel.send_async()"
_RECEIVING = "Channel.receive()", "await channel.receive_async()"


class Channel(Source, ProcessBound, Generic[T]):
    """A queue between any number of threads and event loops, that can be closed.

    Threads call ``send()`` and ``receive()``, coroutines ``send_async()`` and ``receive_async()``,
    on the same channel, which belongs to no loop. Each item goes to exactly one receiver, in the
    order in which the items were accepted. After ``close()`` none is accepted, but those that were
    can be received; ``for item in channel:`` and ``async for item in channel:`` do so to the end.

    A coroutine that never has to wait yields to its loop at every 64th call. ``len(channel)`` is
    the number of items that can be received; a channel is true even when it is empty.

    Wakes when: a receiver wakes for an item, a sender for room (with capacity 0, for a receiver),
    and both when the channel is closed.
    If cancelled or interrupted: a receiver loses no item, and another receiver is woken for it.
    The item of a cancelled sender may have been accepted; after a ``TimeoutError`` it was not.
    Thread safety: all methods in any thread; those that do not wait also in signal handlers,
    finalizers and callbacks.

    Args:
        capacity: How many items are accepted before a receiver takes them: an int >= 0, or
            ``math.inf`` for any number. With 0, a *rendezvous*, ``send()`` waits for a receiver,
            and ``send_nowait()`` works only while a receiver waits. If that receiver is then
            cancelled, the item can be received by another.
        clock: Measures timeouts. None means the current clock.

    Raises:
        TypeError, ValueError: ``capacity`` is not such a number, or ``clock`` is not a clock.

    Example:
        >>> from backoff_ticker import Channel
        >>> channel = Channel(2)
        >>> channel.send("a")
        >>> channel.close()
        >>> list(channel)
        ['a']
    """

    __slots__ = ("__weakref__", "_buffer", "_calls_left", "_capacity", "_clock", "_timing_clock")

    _selected: tuple[Self, T | Closed]  # for type checkers: what select() returns

    _kind = "a Channel"
    __class_getitem__: classmethod[Any, ..., GenericAlias] = classmethod(GenericAlias)

    def __init__(self, capacity: float = 0, *, clock: Clock | None = None) -> None:
        self._capacity = capacity
        self._clock = resolve_clock(clock)
        self._timing_clock: Clock | None = None  # a timer's: the buffer fills as time passes on it
        self._calls_left = CHECKPOINT_EVERY - 1  # until a coroutine yields
        self._buffer: Unbounded
        if capacity.__class__ is float and capacity == NO_DEADLINE:
            self._buffer = Unbounded()
        else:
            count = as_count("capacity", capacity, also="math.inf")
            self._buffer = Bounded(count) if count else Rendezvous()

    @property
    def capacity(self) -> float:
        """How many items are accepted before a receiver takes them."""
        return self._capacity

    @property
    def clock(self) -> Clock:
        """The clock that measures timeouts."""
        return self._clock

    @property
    def closed(self) -> bool:
        """Whether the channel was closed; there may still be items to receive."""
        return self._buffer.closed

    def send_nowait(self, item: T) -> None:
        """Send ``item`` without waiting.

        Raises:
            WouldBlock: There is no room; with capacity 0, no receiver waits.
            ChannelClosed: The channel is closed.
        """
        buffer: Any = self._buffer
        if buffer.room is None:
            Channel.send(self, item, None)
        elif not buffer.put(item, None):
            raise WouldBlock("the channel has no room, or no waiting receiver")

    def send(self, item: T, timeout: float | timedelta | None = None) -> None:  # noqa: C901
        """Send ``item``; block this thread until it is accepted.

        Args:
            item: Any object.
            timeout: Seconds >= 0 or a timedelta. 0 does not wait; None means no limit.

        Raises:
            TimeoutError: The item was not accepted in time, and will not be.
            ChannelClosed: The channel was closed before the item was accepted.
            TypeError, ValueError: ``timeout`` is not a finite duration >= 0.
            RuntimeError: It has to wait, without a timeout, where an event loop runs; with one it
                blocks that loop, and a ``RuntimeWarning`` says so.
        """
        seconds = None if timeout is None else as_seconds("timeout", timeout)
        buffer: Any = self._buffer
        if buffer.room is None:
            # Not in a method of the buffer, whose call would take a fifth of the time.
            if buffer.closed:
                raise ChannelClosed
            if buffer.first is not None or buffer.others:
                check_stack()
            try:
                buffer.accept(item)
                if buffer.first is not None or buffer.others:
                    buffer.wake_next()
            except BaseException:
                buffer.wake_receiver()
                raise
            if buffer.closed and buffer.take_out_late(item):
                raise ChannelClosed
            return
        if buffer.put(item, None):
            return
        check_stack()
        limit = self._limit(seconds)
        pending = PendingSend(buffer.claim, item)
        try:
            if buffer.put(item, pending):
                return
            while True:
                if self._is_accepted(pending, limit, seconds):
                    return
                park_thread(self._clock, *_SENDING, (pending,), pending.recheck, limit)
        except BaseException:
            complete(buffer.refuse, pending)
            raise

    async def send_async(self, item: T, timeout: float | timedelta | None = None) -> None:
        """Send ``item`` in a coroutine, as ``send()`` does in a thread.

        After a cancel, also by ``asyncio.timeout()``, it may have been sent; after the argument
        ``timeout`` it was not.
        """
        seconds = None if timeout is None else as_seconds("timeout", timeout)
        if self._calls_left <= 0 or ("trio" in modules and trio_runs()):
            self._calls_left = CHECKPOINT_EVERY
            await checkpoint()
        self._calls_left -= 1
        buffer: Any = self._buffer
        if buffer.room is None:
            Channel.send(self, item, None)
            return
        if buffer.put(item, None):
            return
        check_stack()
        limit = self._limit(seconds)
        pending = PendingSend(buffer.claim, item)
        try:
            if buffer.put(item, pending):
                return
            while True:
                if self._is_accepted(pending, limit, seconds):
                    return
                await park_coroutine(self._clock, (pending,), pending.recheck, limit)
        except BaseException:
            complete(buffer.refuse, pending)
            raise

    def _limit(self, seconds: float | None) -> float:
        return NO_DEADLINE if seconds is None else later(self._clock.monotonic(), seconds)

    def _is_accepted(self, pending: PendingSend, limit: float, seconds: float | None) -> bool:
        """Whether a send was accepted; raises if it will not be."""
        buffer: Any = self._buffer
        is_late = pending.accepted is None and self._clock.monotonic() >= limit
        if is_late:
            buffer.refuse(pending)
        if pending.accepted is False:
            text = f"no room, or no receiver, within {seconds} s"
            raise TimeoutError(text) if is_late else ChannelClosed
        return pending.accepted is True

    def receive_nowait(self) -> T:
        """Receive an item as ``receive()`` does, or raise ``WouldBlock`` if that had to wait."""
        item: T = self._buffer.take()
        if item is EMPTY:
            raise WouldBlock("the channel is empty")
        if item is ENDED:
            raise ChannelClosed
        return item

    def receive(self, timeout: float | timedelta | None = None) -> T:
        """Receive an item; block this thread until there is one; ``timeout`` as for ``send()``.

        Raises:
            ChannelClosed: The channel is closed, and every accepted item was received.
            TimeoutError, TypeError, ValueError, RuntimeError: As for ``send()``.
        """
        seconds = None if timeout is None else as_seconds("timeout", timeout)
        buffer = self._buffer
        quick: Any = buffer.quick
        if quick:
            try:
                return quick.first_out
            except IndexError:
                pass  # another receiver was faster
        limit = self._limit(seconds)
        try:
            while True:
                item: T = buffer.take()
                if item is not EMPTY and item is not ENDED:
                    return item
                self._check_end(item, limit, seconds)
                park_thread(
                    self._clock, *_RECEIVING, (buffer,), self._recheck, limit, ends=buffer.is_timed
                )
        except BaseException:
            buffer.wake_receiver()
            raise

    async def receive_async(self, timeout: float | timedelta | None = None) -> T:
        """Receive an item in a coroutine, as ``receive()`` does in a thread."""
        seconds = None if timeout is None else as_seconds("timeout", timeout)
        if self._calls_left <= 0 or ("trio" in modules and trio_runs()):
            self._calls_left = CHECKPOINT_EVERY
            await checkpoint()
        self._calls_left -= 1
        buffer = self._buffer
        quick: Any = buffer.quick
        if quick:
            try:
                return quick.first_out
            except IndexError:
                pass  # another receiver was faster
        limit = self._limit(seconds)
        try:
            while True:
                item: T = buffer.take()
                if item is not EMPTY and item is not ENDED:
                    return item
                self._check_end(item, limit, seconds)
                await park_coroutine(self._clock, (buffer,), self._recheck, limit)
        except BaseException:
            buffer.wake_receiver()
            raise

    def _check_end(self, taken: object, limit: float, seconds: float | None) -> None:
        if taken is ENDED:
            raise ChannelClosed
        if limit != NO_DEADLINE and self._clock.monotonic() >= limit:
            raise TimeoutError(f"no item within {seconds} s")

    def __iter__(self) -> Self:
        return self

    __aiter__ = __iter__

    def __next__(self) -> T:
        try:
            return self.receive()
        except ChannelClosed:
            raise StopIteration from None

    async def __anext__(self) -> T:
        try:
            return await self.receive_async()
        except ChannelClosed:
            raise StopAsyncIteration from None

    @property
    def _ends_by_itself(self) -> bool:
        return self._buffer.is_timed

    def _wait_sets(self) -> tuple[WaitSet, ...]:
        return (self._buffer,)

    def _recheck(self, waiter: Waiter) -> float | None:
        return None if self._buffer.is_ready() else waiter.limit

    def _take_nowait(self, *, fresh: bool) -> object:
        return self._buffer.take()

    def _put_back(self, value: object) -> None:
        self._buffer.put_back(value)

    def _pass_on_wakeup(self) -> None:
        self._buffer.wake_receiver()

    def _drop_items(self) -> None:
        while (item := self._buffer.take()) is not EMPTY and item is not ENDED:
            pass

    def close(self) -> None:
        """Accept no more items, and wake everything that waits.

        Blocked senders raise ``ChannelClosed``; receivers get what was accepted before, and then
        the end. It never blocks, and may be called more than once.
        """
        carry_out(self._buffer.close)

    def __len__(self) -> int:
        return len(self._buffer.items)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        state = "closed" if self.closed else "open"
        capacity = safe_repr(self._capacity)
        return f"<Channel {state}, capacity={capacity}, {counted(len(self), 'item')}>"

"""Channels without locks, each but the first with a classic fault for the explorer to find."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from backoff_ticker import ChannelClosed, WouldBlock

if TYPE_CHECKING:
    from tests.channels.explorer_waits import ScheduledClock, ScheduledParker

NOTHING = object()


class Toy:
    """Right as long as nobody closes it; its capacity is infinite.

    An item stays in it until somebody takes it; who waits registers, then looks; who leaves wakes
    the next if there is anything.
    """

    def __init__(self, capacity: float, clock: ScheduledClock) -> None:
        self.capacity = capacity
        self.clock = clock
        self.items: list[Any] = []
        self.waiting: list[ScheduledParker] = []
        self.closed = False

    def __len__(self) -> int:
        return len(self.items)

    def send(self, item: Any, timeout: float | None = None) -> None:
        self.refuse_if_closed()
        self.items.append(item)
        self.wake()

    def refuse_if_closed(self) -> None:
        if self.closed:
            raise ChannelClosed

    def wake(self) -> None:
        for parker in self.waiting[:1]:
            parker.unpark()

    def take(self) -> Any:
        try:
            return self.items.pop(0)
        except IndexError:
            return NOTHING

    def receive(self, timeout: float | None = None) -> Any:
        deadline = None if timeout is None else self.clock.monotonic() + timeout
        parker = self.clock.parker("Toy.receive()")
        self.waiting.append(parker)
        try:
            return self.await_item(parker, deadline)
        finally:
            self.leave(parker)

    def await_item(self, parker: ScheduledParker, deadline: float | None) -> Any:
        woken = True
        while True:
            closed = self.closed
            item = self.take()
            if item is not NOTHING:
                return item
            if closed:
                raise ChannelClosed
            if not woken:
                raise TimeoutError
            woken = parker.park(deadline)

    def leave(self, parker: ScheduledParker) -> None:
        self.waiting.remove(parker)
        if self.items:
            self.wake()

    def receive_nowait(self) -> Any:
        item = self.take()
        if item is not NOTHING:
            return item
        raise ChannelClosed if self.closed else WouldBlock

    def close(self) -> None:
        self.closed = True
        for parker in list(self.waiting):
            parker.unpark()


class CountsThenAppends(Toy):
    """Two senders find room for one."""

    def send(self, item: Any, timeout: float | None = None) -> None:
        if len(self.items) < self.capacity:
            self.items.append(item)
            self.wake()
        else:
            raise WouldBlock


class LooksThenRegisters(Toy):
    """An item that comes between the look and the wait wakes nobody."""

    def receive(self, timeout: float | None = None) -> Any:
        item = self.take()
        return super().receive(timeout) if item is NOTHING else item

    def await_item(self, parker: ScheduledParker, deadline: float | None) -> Any:
        parker.park(deadline)
        return super().await_item(parker, deadline)


class ForgetsToPassOn(Toy):
    """Who was woken and is out of time keeps the wake-up, or one wake-up stands for two."""

    def leave(self, parker: ScheduledParker) -> None:
        self.waiting.remove(parker)


class HandsOver(Toy):
    """An item given to a receiver that is just leaving is lost."""

    def __init__(self, capacity: float, clock: ScheduledClock) -> None:
        super().__init__(capacity, clock)
        self.hands: dict[ScheduledParker, list[Any]] = {}

    def send(self, item: Any, timeout: float | None = None) -> None:
        if self.waiting:
            parker = self.waiting.pop(0)
            self.hands[parker].append(item)
            parker.unpark()
        else:
            self.items.append(item)

    def receive(self, timeout: float | None = None) -> Any:
        item = self.take()
        if item is not NOTHING:
            return item
        parker = self.clock.parker("HandsOver.receive()")
        self.hands[parker] = []
        self.waiting.append(parker)
        deadline = None if timeout is None else self.clock.monotonic() + timeout
        if not parker.park(deadline):
            raise TimeoutError
        return self.hands[parker][0]


class HandsOverInFutures(Toy):
    """An item in the result of a future is lost if the task is cancelled in the same turn."""

    def __init__(self, capacity: float, clock: ScheduledClock) -> None:
        super().__init__(capacity, clock)
        self.futures: list[asyncio.Future[Any]] = []

    def send(self, item: Any, timeout: float | None = None) -> None:
        try:
            future = self.futures.pop(0)
        except IndexError:
            self.items.append(item)
            return

        def fire() -> None:
            if future.done():
                self.items.append(item)
            else:
                future.set_result(item)

        try:
            future.get_loop().call_soon_threadsafe(fire)
        except RuntimeError:
            self.items.append(item)

    async def receive_async(self, timeout: float | None = None) -> Any:
        item = self.take()
        if item is not NOTHING:
            return item
        future = asyncio.get_running_loop().create_future()
        self.futures.append(future)
        return await future

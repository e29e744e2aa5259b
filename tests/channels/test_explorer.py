"""The explorer itself: it finds classic faults in toy channels without locks, and tells the way."""

from __future__ import annotations

import asyncio
import re
from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import ChannelClosed, WouldBlock
from tests.channels.explorer import ScheduleFailure, explore
from tests.channels.history import History
from tests.channels.test_schedules import (
    crowd,
    crowd_and_close,
    race,
    receive_in_time_and_send,
    sends,
)

if TYPE_CHECKING:
    from tests.channels.explorer_waits import ScheduledClock, ScheduledParker

NOTHING = object()


class Toy:
    """Right as long as nobody closes it; its capacity is infinite.

    An item stays in it until somebody takes it; who waits registers, then looks; who leaves wakes
    the next if there is anything.
    """

    def __init__(self, capacity: float, *, clock: ScheduledClock) -> None:
        self.capacity = capacity
        self.clock = clock
        self.items: list[Any] = []
        self.waiting: list[ScheduledParker] = []
        self.futures: list[asyncio.Future[Any]] = []
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
    def send(self, item: Any, timeout: float | None = None) -> None:
        if len(self.items) < self.capacity:
            self.items.append(item)
            self.wake()
        else:
            raise WouldBlock


class LooksThenRegisters(Toy):
    def await_item(self, parker: ScheduledParker, deadline: float | None) -> Any:
        parker.park(deadline)
        return super().await_item(parker, deadline)

    def receive(self, timeout: float | None = None) -> Any:
        item = self.take()
        return super().receive(timeout) if item is NOTHING else item


class ForgetsToPassOn(Toy):
    def leave(self, parker: ScheduledParker) -> None:
        self.waiting.remove(parker)


class HandsOverInFutures(Toy):
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


IMPATIENT = {
    "impatient": receive_in_time_and_send,
    "patient": History.receive,
    "sender": sends("a"),
}
CANCELLED = {"cancelled": History.receive_async, "sender": sends("a")}
FAULTS: dict[str, tuple[type[Toy], float, dict[str, Any], str]] = {
    "close comes between check and append": (
        *(Toy, inf, crowd_and_close(1, 1)),
        "refused and received|came after the end|drained, closed|accepted after close",
    ),
    "an item comes between look and wait": (
        *(LooksThenRegisters, inf, crowd(1, 1)),
        "nobody can go on: receiver 0 waits",
    ),
    "who was woken leaves and tells nobody": (
        *(ForgetsToPassOn, inf, IMPATIENT),
        "nobody can go on: patient waits",
    ),
    "an item is in the result of a cancelled future": (
        *(HandsOverInFutures, inf, CANCELLED),
        "accepted and lost",
    ),
    "two senders find room for one": (
        *(CountsThenAppends, 1, crowd(2, 0)),
        "2 items accepted where 1 could be",
    ),
}
GRAIN = pytest.mark.parametrize("grain", ["call", "opcode"])


@GRAIN
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str, grain: str) -> None:
    make, capacity, threads, message = FAULTS[fault]
    model = race(capacity, threads, make=make, full=False)
    with pytest.raises(ScheduleFailure, match=message) as raised:
        explore(model, (__file__,), grain=grain, schedules=3000)
    assert re.search(r"\n    sender( a)? +test_explorer\.py:\d+ +\S", str(raised.value))


@GRAIN
@pytest.mark.parametrize("threads", [crowd(1, 2), IMPATIENT])
def test_nothing_is_found_where_nothing_is_wrong(threads: dict[str, Any], grain: str) -> None:
    model = race(inf, threads, make=Toy, full=False)
    explore(model, (__file__,), grain=grain, schedules=100)

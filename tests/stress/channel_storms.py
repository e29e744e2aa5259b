"""Storms over channels: nothing lost, doubled, out of order, or more than there is room for."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from backoff_ticker import (
    Channel,
    ChannelClosed,
    WouldBlock,
)
from tests.stress.crew import cancel_soon

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.stress.crew import Crew

    Item = tuple[int, int]

ITEMS = 40
"""Items of each sender in a round."""

OBJECTS = 60
"""Made anew for each race of a few steps."""


class Flow:
    """One channel from its first item to its end, and what became of the items.

    Attributes:
        accepted: For each sender, its items whose send returned: when it began, and when it ended.
        refused: Items whose send raised.
        unsure: Items whose send was cancelled.
        got: For each receiver, what it received.
        begun: One entry for each receive that has begun.
        returned: One entry for each send that has returned.
    """

    def __init__(self, capacity: float, draw: Random, senders: int, receivers: int) -> None:
        self.channel: Channel[Item] = Channel(capacity)
        self.patient = draw.random() < 0.6  # a wake-up that is lost then stops everybody
        self.closes_at = draw.randrange(1, senders * ITEMS) if draw.random() < 0.5 else math.inf
        self.accepted: list[dict[Item, tuple[float, float]]] = [{} for _ in range(senders)]
        self.refused: list[Item] = []
        self.unsure: list[Item] = []
        self.got: list[list[Item]] = [[] for _ in range(receivers)]
        self.begun: list[None] = []
        self.returned: list[None] = []
        self._most = capacity or receivers
        self._ended: list[int] = []

    def timeout(self, draw: Random) -> float | None:
        return None if self.patient else draw.choice([None, 0, 1e-5, 1e-4])

    def sender_ended(self, name: int) -> None:
        self._ended.append(name)
        if len(self._ended) == len(self.accepted):
            self.channel.close()

    def has_sent(self, item: Item, began: float) -> None:
        self.accepted[item[0]][item] = began, time.perf_counter()
        self.returned.append(None)
        # In this order: what has returned was accepted for the room there is, or for a receiver.
        returned = len(self.returned)
        assert returned <= len(self.begun) + self.channel.capacity, "more accepted than room"
        self.look()

    def has_received(self, item: Item, got: list[Item]) -> None:
        got.append(item)
        if len(self.begun) >= self.closes_at:
            self.channel.close()
        self.look()

    def look(self) -> None:
        assert len(self.channel) <= self._most, "more items than the capacity"

    def check(self) -> None:
        assert len(self.channel) == 0, "items left"
        assert _is_at_its_end(self.channel), "not at its end"
        times = Counter(item for items in self.got for item in items)
        accepted = [item for items in self.accepted for item in items]
        assert [item for item in times if times[item] > 1] == [], "received twice"
        assert [item for item in accepted if item not in times] == [], "lost"
        assert [item for item in self.refused if item in times] == [], "refused, and received"
        assert set(times) <= {*accepted, *self.unsure}, "received, and never sent"
        for items in self.got:
            for sender in range(len(self.accepted)):
                numbers = [number for name, number in items if name == sender]
                assert numbers == sorted(numbers), "out of order"
        if len(self.got) == 1:
            self._check_order_of_all()

    def _check_order_of_all(self) -> None:
        """One receiver gets first what was accepted first, whoever sent it."""
        latest_begin = 0.0
        for item in self.got[0]:
            if item in self.accepted[item[0]]:
                began, ended = self.accepted[item[0]][item]
                assert ended >= latest_begin, "sent before, received after"
                latest_begin = max(latest_begin, began)


def _is_at_its_end(channel: Channel[Any]) -> bool:
    try:
        channel.receive_nowait()
    except ChannelClosed:
        return True
    return False


def _send(flow: Flow, name: int, draw: Random) -> None:
    channel = flow.channel
    for number in range(ITEMS):
        item, began = (name, number), time.perf_counter()
        try:
            if not flow.patient and draw.random() < 0.3:
                channel.send_nowait(item)
            else:
                channel.send(item, flow.timeout(draw))
        except ChannelClosed:
            flow.refused.append(item)
            break
        except (TimeoutError, WouldBlock):
            flow.refused.append(item)
        else:
            flow.has_sent(item, began)
    flow.sender_ended(name)


async def _send_async(flow: Flow, name: int, draw: Random) -> None:
    channel = flow.channel
    for number in range(ITEMS):
        item, began = (name, number), time.perf_counter()
        try:
            sending = channel.send_async(item, flow.timeout(draw))
            if not flow.patient and draw.random() < 0.2:
                await cancel_soon(sending, draw.randrange(4))
            else:
                await sending
        except asyncio.CancelledError:
            flow.unsure.append(item)
        except ChannelClosed:
            flow.refused.append(item)
            break
        except TimeoutError:
            flow.refused.append(item)
        else:
            flow.has_sent(item, began)
        if draw.random() < 0.2:
            await asyncio.sleep(0)
    flow.sender_ended(name)


def _receive(flow: Flow, got: list[Item], draw: Random) -> None:
    channel = flow.channel
    while True:
        flow.begun.append(None)
        try:
            if not flow.patient and draw.random() < 0.3:
                item = channel.receive_nowait()
            else:
                item = channel.receive(flow.timeout(draw))
        except (TimeoutError, WouldBlock):
            continue
        except ChannelClosed:
            break
        flow.has_received(item, got)
    assert _is_at_its_end(channel), "more after the end"


async def _receive_async(flow: Flow, got: list[Item], draw: Random) -> None:
    channel = flow.channel
    while True:
        flow.begun.append(None)
        try:
            receiving = channel.receive_async(flow.timeout(draw))
            if not flow.patient and draw.random() < 0.2:
                item = await cancel_soon(receiving, draw.randrange(4))
            else:
                item = await receiving
        except (TimeoutError, asyncio.CancelledError):
            await asyncio.sleep(0)
            continue
        except ChannelClosed:
            break
        flow.has_received(item, got)
        if draw.random() < 0.2:
            await asyncio.sleep(0)
    assert _is_at_its_end(channel), "more after the end"


def conserve(crew: Crew, draw: Random, capacity: float) -> int:
    """Up to four senders and four receivers, in threads, or half of them in two loops."""
    senders, receivers = draw.choice([(4, 4), (4, 4), (4, 1), (2, 2), (1, 1)])
    flow = Flow(capacity, draw, senders, receivers)
    sends, receives = [_send], [_receive]
    if draw.random() < 0.6:
        sends, receives = [_send, _send_async], [_receive_async, _receive]
    acts: list[Callable[[], Any]] = [
        *(partial(_any(sends, n), flow, n, Random(draw.random())) for n in range(senders)),
        *(
            partial(_any(receives, n), flow, got, Random(draw.random()))
            for n, got in enumerate(flow.got, draw.randrange(2))
        ),
    ]
    draw.shuffle(acts)
    crew.play(*acts)
    flow.check()
    return sum(map(len, flow.got))


def _any(kinds: list[Any], number: int) -> Any:
    return kinds[number % len(kinds)]


def permits(crew: Crew, draw: Random) -> int:
    """Use a channel as a semaphore: never more are inside than it has places."""
    places = draw.choice([1, 3])
    channel: Channel[None] = Channel(places)
    inside: list[None] = []
    most: list[int] = []

    def visit() -> None:
        inside.append(None)
        most.append(len(inside))
        inside.pop()

    def wait() -> None:
        for _ in range(ITEMS):
            channel.send(None)
            visit()
            channel.receive()

    def look() -> None:
        for _ in range(5 * ITEMS):
            with suppress(WouldBlock):
                channel.send_nowait(None)
                visit()
                channel.receive_nowait()

    async def wait_async() -> None:
        for _ in range(ITEMS):
            await channel.send_async(None)
            visit()
            await channel.receive_async()

    crew.play(*draw.choice([[look] * 2, [look] * (places + 1), [wait] * 4 + [wait_async] * 4]))
    assert max(most) <= places, "more inside than the capacity"
    assert len(channel) == 0, "a place was lost"
    return len(most)


def fill_in_step(crew: Crew, draw: Random) -> int:
    """Send to the last place, or take the last item, of one channel after the other, in step."""
    capacity = draw.choice([1, 3])
    channels: list[Channel[int]] = [Channel(capacity) for _ in range(OBJECTS)]
    fills = draw.random() < 0.5
    for channel in channels:
        for number in range(capacity - 1 if fills else 1):
            channel.send_nowait(number)
    succeeded: list[list[None]] = [[] for _ in channels]

    def act(number: int) -> None:
        with suppress(WouldBlock):
            if fills:
                channels[number].send_nowait(number)
            else:
                channels[number].receive_nowait()
            succeeded[number].append(None)

    crew.in_step(OBJECTS, act, act)
    assert [len(each) for each in succeeded] == [1] * OBJECTS, "not one, but two or none"
    return OBJECTS


def meet_in_step(crew: Crew, draw: Random) -> int:
    """Offer an item to one waiting receiver, in two threads, until one has got rid of it."""
    channels: list[Channel[int]] = [Channel() for _ in range(OBJECTS)]
    accepted: list[list[int]] = [[] for _ in channels]
    received: list[list[int]] = [[] for _ in channels]

    def offer(number: int, item: int) -> None:
        while not (accepted[number] or received[number]):
            with suppress(WouldBlock):
                channels[number].send_nowait(item)
                accepted[number].append(item)
            time.sleep(0)

    def receive(number: int) -> None:
        received[number].append(channels[number].receive())

    crew.in_step(OBJECTS, receive, partial(offer, item=1), partial(offer, item=2))
    for number, channel in enumerate(channels):
        channel.close()
        received[number] += channel
        assert sorted(accepted[number]) == received[number], "accepted for one receiver twice"
    return OBJECTS


def close_in_step(crew: Crew, draw: Random) -> int:
    """Send to one channel after the other while it is closed and drained."""
    channels: list[Channel[int]] = [Channel(draw.choice([1, math.inf])) for _ in range(OBJECTS)]
    accepted: list[list[int]] = [[] for _ in channels]
    received: list[list[int]] = [[] for _ in channels]

    def send(number: int) -> None:
        with suppress(ChannelClosed):
            channels[number].send(number)
            accepted[number].append(number)

    def close_and_drain(number: int) -> None:
        channels[number].close()
        received[number].extend(channels[number])

    crew.in_step(OBJECTS, send, close_and_drain)
    for channel in channels:
        assert [*channel] == [], "an item after the end"
    assert accepted == received, "accepted, and lost"
    return OBJECTS


def order_in_step(crew: Crew, draw: Random) -> int:
    """Send three items to one channel after the other, while another thread receives them."""
    capacity = draw.choice([0, 1, 1, 3])
    channels: list[Channel[int]] = [Channel(capacity) for _ in range(OBJECTS)]
    received: list[list[int]] = [[] for _ in channels]

    def send(number: int) -> None:
        for item in range(3):
            channels[number].send(item)

    def receive(number: int) -> None:
        for _ in range(3):
            received[number].append(channels[number].receive())

    crew.in_step(OBJECTS, send, receive)
    assert received == [[0, 1, 2]] * OBJECTS, "out of order"
    return OBJECTS


STORMS = {
    **{f"channel({each:g})": partial(conserve, capacity=each) for each in (0, 1, 3, math.inf)},
    "permits": permits,
    "room in step": fill_in_step,
    "rendezvous in step": meet_in_step,
    "close in step": close_in_step,
    "order in step": order_in_step,
}

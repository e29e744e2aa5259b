"""Storms over channels and ``select``: nothing lost, doubled, out of order or out of room."""

import asyncio
import math
import time
from collections import Counter
from functools import partial
from random import Random

from backoff_ticker import (
    CLOSED,
    AsyncTicker,
    CancellationToken,
    Channel,
    ChannelClosed,
    Ticker,
    WouldBlock,
    ZeroBackOff,
    select,
    select_async,
    with_max_retries,
)
from tests.stress.crew import cancel_soon, cast

ITEMS = 40
"""Items of each sender, or source, in a round."""


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

    def __init__(self, capacity, draw, senders, receivers):
        self.channel = Channel(capacity)
        self.patient = draw.random() < 0.6  # a wake-up that is lost then stops everybody
        self.closes_at = draw.randrange(1, senders * ITEMS) if draw.random() < 0.5 else math.inf
        self.accepted = [{} for _ in range(senders)]
        self.refused = []
        self.unsure = []
        self.got = [[] for _ in range(receivers)]
        self.begun = []
        self.returned = []
        self._ended = []

    async def _wait(self, face, draw, kind, *item):
        """Send or receive, for as long as it takes, or with an impatience that is drawn."""
        block, await_ = getattr(self.channel, kind), getattr(self.channel, f"{kind}_async")
        if self.patient:
            return await face.wait(block, await_, *item)
        if draw.random() < 0.25:
            if face.in_loop:
                return await cancel_soon(await_(*item), draw.randrange(4))
            return getattr(self.channel, f"{kind}_nowait")(*item)
        return await face.wait(block, await_, *item, draw.choice([None, 0, 1e-5, 1e-4]))

    async def send(self, face, *, name, draw):
        for number in range(ITEMS):
            item, began = (name, number), time.perf_counter()
            try:
                await self._wait(face, draw, "send", item)
            except asyncio.CancelledError:
                self.unsure.append(item)
            except ChannelClosed:
                self.refused.append(item)
                break
            except (TimeoutError, WouldBlock):
                self.refused.append(item)
            else:
                self.accepted[name][item] = began, time.perf_counter()
                self.returned.append(None)
                # In this order: what has returned was accepted for the room, or for a receiver.
                returned = len(self.returned)
                assert returned <= len(self.begun) + self.channel.capacity, "accepted without room"
            if draw.random() < 0.2:
                await face.give_way()
        self._ended.append(name)
        if len(self._ended) == len(self.accepted):
            self.channel.close()

    async def receive(self, face, *, got, draw):
        while True:
            self.begun.append(None)
            try:
                got.append(await self._wait(face, draw, "receive"))
            except (TimeoutError, WouldBlock, asyncio.CancelledError):
                await face.give_way()
                continue
            except ChannelClosed:
                break
            if len(self.begun) >= self.closes_at:
                self.channel.close()
            if draw.random() < 0.2:
                await face.give_way()
        assert [*self.channel] == [], "more after the end"

    def check(self):
        assert [*self.channel] == [], "items left"
        times = Counter(item for items in self.got for item in items)
        accepted = {item: when for items in self.accepted for item, when in items.items()}
        assert [item for item in times if times[item] > 1] == [], "received twice"
        assert [item for item in accepted if item not in times] == [], "lost"
        assert [item for item in self.refused if item in times] == [], "refused, and received"
        assert set(times) <= {*accepted, *self.unsure}, "received, and never sent"
        for items in self.got:
            for sender in range(len(self.accepted)):
                numbers = [number for name, number in items if name == sender]
                assert numbers == sorted(numbers), "out of order"
        if len(self.got) == 1:  # it gets first what was accepted first, whoever sent it
            latest_begin = 0.0
            for began, ended in (accepted[item] for item in self.got[0] if item in accepted):
                assert ended >= latest_begin, "sent before, received after"
                latest_begin = max(latest_begin, began)
        return len(times)


def conserve(crew, draw, capacity):
    """Up to four senders and four receivers, in threads, or half of them in two loops."""
    senders, receivers = draw.choice([(4, 4), (4, 4), (4, 1), (2, 2), (1, 1)])
    flow = Flow(capacity, draw, senders, receivers)
    sends = [partial(flow.send, name=n, draw=Random(draw.random())) for n in range(senders)]
    receives = [partial(flow.receive, got=got, draw=Random(draw.random())) for got in flow.got]
    in_loops = draw.choice([0, 1, 1])
    shift = draw.randrange(2)
    acts = []
    for each in (sends, receives[shift:] + receives[:shift]):
        for number, act in enumerate(each):
            loops = in_loops * (number % 2)
            acts += cast(act, 1 - loops, loops)
    draw.shuffle(acts)
    crew.play(*acts)
    return flow.check()


async def _fill(channel, face):
    for number in range(ITEMS):
        await face.wait(channel.send, channel.send_async, number)
        if number % 8 == 0:
            await face.give_way()
    channel.close()


def select_from_all(crew, draw):
    """Threads and loops select from the same channels, tickers and token until all have ended."""
    channels = [Channel(each) for each in (0, 1, 3, math.inf)]
    policy = with_max_retries(ZeroBackOff(), ITEMS - 1)
    sources, token = [*channels, Ticker(policy), AsyncTicker(policy)], CancellationToken()
    senders = []
    for number, channel in enumerate(channels):
        senders += cast(partial(_fill, channel), 1 - number % 2, number % 2)
    values = []
    done = []

    async def act(face):
        mine = [token, *sources]
        while True:
            source, value = await face.wait(select, select_async, *mine)
            if source is token:
                return value
            if value is not CLOSED:
                values.append((source, value))
                continue
            mine.remove(source)
            if len(mine) == 1:
                done.append(None)
                if len(done) == 4:
                    token.cancel("enough")

    results = crew.play(*cast(act, 1, 1), *senders, *cast(act, 1, 1))
    assert results.count("enough") == 4, results
    for source in sources:
        came = [value for each, value in values if each is source]
        numbers = [value if source in channels else value.number - 1 for value in came]
        assert sorted(numbers) == list(range(ITEMS)), f"lost or twice: {source}"
    return len(values)


STORMS = {
    **{f"channel({each:g})": partial(conserve, capacity=each) for each in (0, 1, 3, math.inf)},
    "select": select_from_all,
}

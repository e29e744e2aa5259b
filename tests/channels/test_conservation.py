"""Threads and two loops send, receive, give up, are cancelled and close at random.

No item is lost or comes twice, none that was refused comes at all, and those of one sender keep
their order.
"""

from __future__ import annotations

import asyncio
import faulthandler
import random
import time
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import CLOSED, Channel, ChannelClosed, WouldBlock, select, select_async
from tests import effort
from tests.helpers import LoopThread, in_thread
from tests.stress.tools import fast_switching

if TYPE_CHECKING:
    from collections.abc import Iterator

ITEMS = 100
"""Offered by each of four senders in one episode, unless it is closed before."""

ENOUGH = effort.rounds(1_000, 15_000)
"""Items offered in all, in one episode after the other."""

PATIENCE = 15.0

Item = tuple[int, int]
Draw = random.Random


@dataclass
class Episode:
    """One channel from its first item to its end, and what became of the items.

    In a patient one nobody looks again by himself, so a wake-up that is lost stops everybody.
    """

    channel: Channel[Item]
    patient: bool
    accepted: list[Item] = field(default_factory=list)
    refused: list[Item] = field(default_factory=list)
    unsure: list[Item] = field(default_factory=list)
    got: list[list[Item]] = field(default_factory=list)

    def offered(self) -> int:
        return len(self.accepted) + len(self.refused) + len(self.unsure)

    def timeout(self, draw: Draw) -> float | None:
        return None if self.patient else draw.choice([None, None, 0, 1e-5, 1e-4, 1e-3])

    def check(self) -> None:
        with pytest.raises(ChannelClosed):
            self.channel.receive_nowait()
        assert len(self.channel) == 0
        got = Counter(item for items in self.got for item in items)
        assert [item for item, times in got.items() if times > 1] == [], "received twice"
        assert [item for item in self.accepted if item not in got] == [], "lost"
        assert [item for item in self.refused if item in got] == [], "refused, and received"
        assert set(got) <= {*self.accepted, *self.unsure}
        for items in self.got:
            for sender in range(4):
                mine = [number for name, number in items if name == sender]
                assert mine == sorted(mine), "out of order"


# Threads


def send_in_thread(episode: Episode, name: int, draw: Draw) -> None:
    channel = episode.channel
    for number in range(ITEMS):
        item = name, number
        try:
            if not episode.patient and draw.random() < 0.3:
                channel.send_nowait(item)
            else:
                channel.send(item, episode.timeout(draw))
        except ChannelClosed:
            episode.refused.append(item)
            return
        except (TimeoutError, WouldBlock):
            episode.refused.append(item)
        else:
            episode.accepted.append(item)


def receive_in_thread(episode: Episode, got: list[Item], draw: Draw) -> None:
    channel, silent = episode.channel, Channel[Item]()
    while True:
        how = draw.random()
        try:
            if how < 0.2 and not episode.patient:
                got.append(channel.receive_nowait())
            elif how < 0.4:
                value = select(channel, silent, timeout=episode.timeout(draw))[1]
                if value is CLOSED:
                    raise ChannelClosed
                got.append(value)
            else:
                got.append(channel.receive(episode.timeout(draw)))
        except (TimeoutError, WouldBlock):
            pass
        except ChannelClosed:
            break
    with pytest.raises(ChannelClosed):
        got.append(channel.receive_nowait())


# Loops


async def begin_and_cancel(coroutine: Any, draw: Draw) -> Any:
    """Await a coroutine in a task that is cancelled after some turns."""
    task = asyncio.ensure_future(coroutine)
    for _ in range(draw.randrange(4)):
        await asyncio.sleep(0)
    if draw.random() < 0.2:
        await asyncio.sleep(draw.random() * 1e-4)
    task.cancel()
    return await task


async def send_in_loop(episode: Episode, name: int, draw: Draw) -> None:
    channel = episode.channel
    for number in range(ITEMS):
        item = name, number
        try:
            sending = channel.send_async(item, episode.timeout(draw))
            if draw.random() < 0.2:
                await begin_and_cancel(sending, draw)
            else:
                await sending
        except asyncio.CancelledError:
            episode.unsure.append(item)
        except ChannelClosed:
            episode.refused.append(item)
            return
        except TimeoutError:
            episode.refused.append(item)
        else:
            episode.accepted.append(item)
        await asyncio.sleep(0)


async def receive_in_loop(episode: Episode, got: list[Item], draw: Draw) -> None:
    channel, silent = episode.channel, Channel[Item]()

    async def take() -> Item:
        if draw.random() < 0.3:
            value = (await select_async(channel, silent, timeout=episode.timeout(draw)))[1]
            if value is CLOSED:
                raise ChannelClosed
            return value
        return await channel.receive_async(episode.timeout(draw))

    while True:
        try:
            cancels = draw.random() < 0.2
            got.append(await (begin_and_cancel(take(), draw) if cancels else take()))
        except (TimeoutError, asyncio.CancelledError):
            await asyncio.sleep(0)
        except ChannelClosed:
            break
    with pytest.raises(ChannelClosed):
        got.append(channel.receive_nowait())


# Episodes


def play(seed: int, capacity: float, loops: list[LoopThread]) -> Episode:
    """Play one episode to its end."""
    draw = Draw(seed)
    draws = [Draw(draw.random()) for _ in range(8)]
    episode = Episode(Channel(capacity), patient=draw.random() < 0.5)
    episode.got = [[] for _ in range(4)]
    sends = [in_thread(send_in_thread, episode, name, draws[name]) for name in (0, 1)]
    receives = [
        in_thread(receive_in_thread, episode, episode.got[name], draws[4 + name]) for name in (0, 1)
    ]
    for name, loop in zip((2, 3), loops, strict=True):
        sends.append(loop.submit(send_in_loop(episode, name, draws[name])))
        receives.append(loop.submit(receive_in_loop(episode, episode.got[name], draws[4 + name])))
    end = time.monotonic() + PATIENCE
    try:
        if draw.random() < 0.5:
            limit = draw.randrange(4 * ITEMS)
            while episode.offered() < limit and time.monotonic() < end:
                time.sleep(0.0002)
            episode.channel.close()
        for sending in sends:
            sending.result(end - time.monotonic())
        episode.channel.close()
        for receiving in receives:
            receiving.result(end - time.monotonic())
    except TimeoutError:
        faulthandler.dump_traceback(all_threads=True)
        raise
    episode.check()
    assert [loop.errors for loop in loops] == [[], []]
    return episode


@pytest.fixture
def loops() -> Iterator[list[LoopThread]]:
    made = [LoopThread(debug=False) for _ in range(2)]
    yield made
    for loop in made:
        loop.close()


@pytest.mark.parametrize("switching", ["usual", "fast"])
@pytest.mark.parametrize("capacity", [0, 1, 3, inf])
def test_what_is_accepted_is_received_once(
    capacity: float, switching: str, loops: list[LoopThread]
) -> None:
    seed = random.randrange(10**9)
    offered = accepted = 0
    with fast_switching() if switching == "fast" else nullcontext():
        # Where others take the processor, an impatient sender times out again and again.
        while offered < ENOUGH or accepted < ENOUGH / 4:
            try:
                episode = play(seed, capacity, loops)
            except BaseException as error:
                error.add_note(f"episode with seed {seed}, capacity {capacity}")
                raise
            offered += episode.offered()
            accepted += len(episode.accepted)
            seed += 1

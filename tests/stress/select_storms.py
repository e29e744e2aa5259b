"""Storms over ``select`` and ``merge``: each value is taken once, and each end is told."""

from __future__ import annotations

import asyncio
import math
from functools import partial
from typing import TYPE_CHECKING, Any

from backoff_ticker import (
    CLOSED,
    AsyncTicker,
    CancellationToken,
    Channel,
    Ticker,
    ZeroBackOff,
    merge,
    select,
    select_async,
    with_max_retries,
)

if TYPE_CHECKING:
    from random import Random

    from tests.stress.crew import Crew

ITEMS = 40
"""Values of each source in a round."""


class Sources:
    """Channels with a sender each, and a ticker of each kind.

    Attributes:
        all: The sources.
        senders: What sends, to be run.
        values: What was selected: the source and its value.
    """

    def __init__(self) -> None:
        self.channels: list[Channel[int]] = [Channel(each) for each in (0, 1, 3, math.inf)]
        policy = with_max_retries(ZeroBackOff(), ITEMS - 1)
        self.tickers: list[Any] = [Ticker(policy), AsyncTicker(policy)]
        self.all: list[Any] = [*self.channels, *self.tickers]
        self.senders = [
            partial(_fill_async if number % 2 else _fill, channel)
            for number, channel in enumerate(self.channels)
        ]
        self.values: list[tuple[Any, Any]] = []

    def check(self) -> int:
        """Each value came once; return their number."""
        for source in self.all:
            values = [value for each, value in self.values if each is source]
            if source in self.tickers:
                values = [tick.number - 1 for tick in values]
            assert sorted(values) == list(range(ITEMS)), f"lost or twice: {source}"
        return len(self.values)


def _fill(channel: Channel[int]) -> None:
    for number in range(ITEMS):
        channel.send(number)
    channel.close()


async def _fill_async(channel: Channel[int]) -> None:
    for number in range(ITEMS):
        await channel.send_async(number)
        if number % 8 == 0:
            await asyncio.sleep(0)
    channel.close()


def select_from_all(crew: Crew, draw: Random) -> int:
    """Threads and loops select from the same channels, tickers and token until all have ended."""
    sources, token = Sources(), CancellationToken()
    done: list[None] = []

    def note(mine: list[Any], source: Any, value: Any) -> None:
        if value is not CLOSED:
            sources.values.append((source, value))
            return
        mine.remove(source)
        if len(mine) == 1:
            done.append(None)
            if len(done) == 4:
                token.cancel("enough")

    def thread() -> object:
        mine = [token, *sources.all]
        while (found := select(*mine))[0] is not token:
            note(mine, *found)
        return found[1]

    async def coroutine() -> object:
        mine = [token, *sources.all]
        while (found := await select_async(*mine))[0] is not token:
            note(mine, *found)
        return found[1]

    results = crew.play(thread, coroutine, *sources.senders, thread, coroutine)
    assert results.count("enough") == 4, results
    return sources.check()


def share_a_merge(crew: Crew, draw: Random) -> int:
    """Threads and loops iterate over the same merge: each end is told once."""
    sources = Sources()
    merged = merge(*sources.all)
    found: list[tuple[Any, Any]] = []

    def thread() -> None:
        for source, value in merged:
            found.append((source, value))

    async def coroutine() -> None:
        async for source, value in merged:
            found.append((source, value))

    crew.play(thread, coroutine, *sources.senders, thread, coroutine)
    ends = [source for source, value in found if value is CLOSED]
    assert sorted(map(id, ends)) == sorted(map(id, sources.all)), "an end was told again, or never"
    sources.values = [each for each in found if each[1] is not CLOSED]
    return sources.check()


STORMS = {"select": select_from_all, "merge": share_a_merge}

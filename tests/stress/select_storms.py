"""Storms over ``select`` and ``merge``: each value is taken once, and each end is told."""

from __future__ import annotations

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
from tests.stress.crew import cast

if TYPE_CHECKING:
    from random import Random

    from tests.stress.crew import Crew, Face

ITEMS = 40
"""Values of each source in a round."""


class Sources:
    """Channels with a sender each, and a ticker of each kind.

    Attributes:
        all: The sources.
        senders: What sends, to be run.
    """

    def __init__(self) -> None:
        channels: list[Channel[int]] = [Channel(each) for each in (0, 1, 3, math.inf)]
        policy = with_max_retries(ZeroBackOff(), ITEMS - 1)
        self.all: list[Any] = [*channels, Ticker(policy), AsyncTicker(policy)]
        self.senders = [
            *(each for channel in channels[::2] for each in cast(partial(_fill, channel), 1, 0)),
            *(each for channel in channels[1::2] for each in cast(partial(_fill, channel), 0, 1)),
        ]

    def check(self, values: list[tuple[Any, Any]]) -> int:
        """Each value came once; return their number."""
        for source in self.all:
            mine = [value for each, value in values if each is source]
            if not isinstance(source, Channel):
                mine = [tick.number - 1 for tick in mine]
            assert sorted(mine) == list(range(ITEMS)), f"lost or twice: {source}"
        return len(values)


async def _fill(channel: Channel[int], face: Face) -> None:
    for number in range(ITEMS):
        await face.wait(channel.send, channel.send_async, number)
        if number % 8 == 0:
            await face.give_way()
    channel.close()


def select_from_all(crew: Crew, draw: Random) -> int:
    """Threads and loops select from the same channels, tickers and token until all have ended."""
    sources, token = Sources(), CancellationToken()
    values: list[tuple[Any, Any]] = []
    done: list[None] = []

    async def act(face: Face) -> object:
        mine = [token, *sources.all]
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

    results = crew.play(*cast(act, 1, 1), *sources.senders, *cast(act, 1, 1))
    assert results.count("enough") == 4, results
    return sources.check(values)


def share_a_merge(crew: Crew, draw: Random) -> int:
    """Threads and loops iterate over the same merge: each end is told once."""
    sources = Sources()
    merged = merge(*sources.all)
    found: list[tuple[Any, Any]] = []

    def thread() -> None:
        found.extend(merged)

    async def coroutine() -> None:
        async for each in merged:
            found.append(each)

    crew.play(thread, coroutine, *sources.senders, thread, coroutine)
    ends = [source for source, value in found if value is CLOSED]
    assert sorted(map(id, ends)) == sorted(map(id, sources.all)), "an end was told again, or never"
    return sources.check([each for each in found if each[1] is not CLOSED])


STORMS = {"select": select_from_all, "merge": share_a_merge}

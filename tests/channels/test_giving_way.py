"""When a coroutine that need not wait lets its loop run others: the same each time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import Channel, ConstantBackOff, Ticker, select_async

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from backoff_ticker.testing import VirtualClock

MANY = 200


def gives_way(coroutine: Coroutine[Any, Any, Any]) -> bool:
    """Run ``coroutine``, which need not wait; whether it gave way, once, on the way."""
    try:
        assert coroutine.send(None) is None
    except StopIteration:
        return False
    with pytest.raises(StopIteration):
        coroutine.send(None)
    return True


def times(step: Callable[[], Coroutine[Any, Any, Any]], between: Callable[[], object]) -> list[int]:
    """Return which of so many steps give way."""
    given = []
    for number in range(1, MANY + 1):
        if gives_way(step()):
            given.append(number)
        between()
    return given


def filled(capacity: float) -> Channel[int]:
    channel: Channel[int] = Channel(capacity)
    for number in range(MANY):
        channel.send_nowait(number)
    return channel


@pytest.mark.parametrize("capacity", [MANY, math.inf])
def test_a_channel_gives_way_at_each_64th(clock: VirtualClock, capacity: float) -> None:
    """Whatever goes on on other channels meanwhile."""
    other: Channel[int] = Channel(math.inf)

    def use_another() -> None:
        for wait in (other.send_async(0), other.send_async(0)):
            gives_way(wait)
        gives_way(other.__anext__())

    for between in (lambda: None, use_another):
        receiving, sending = filled(capacity), Channel[int](capacity)
        assert times(receiving.receive_async, between) == [64, 128, 192]
        assert times(lambda: sending.send_async(1), between) == [64, 128, 192]
        iterating = filled(capacity)
        assert times(iterating.__anext__, between) == [64, 128, 192]


def test_select_gives_way_each_time(clock: VirtualClock) -> None:
    channel = filled(MANY)
    ticker = Ticker(ConstantBackOff(0))
    for sources in ([channel], [Channel(), channel], [ticker, Channel()]):
        for _ in range(10):
            assert gives_way(select_async(*sources))

"""Of several sources that are ready each is chosen about equally often."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import CLOSED, AsyncTicker, CancellationToken, Channel, Ticker, ZeroBackOff

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backoff_ticker.testing import VirtualClock

EACH = 100


def endless(items: int) -> Channel[int]:
    channel: Channel[int] = Channel(math.inf)
    for number in range(items):
        channel.send_nowait(number)
    return channel


def even(counts: Sequence[int]) -> bool:
    """Whether counts are as even as chance would have them; a fair choice fails once in 10**11."""
    expected = sum(counts) / len(counts)
    return sum((count - expected) ** 2 for count in counts) / expected < 60


def test_the_measure_tells_chance_from_favour() -> None:
    assert even([EACH + 15, EACH - 15])
    assert not even([2 * EACH, 0])
    assert not even([3 * EACH // 2, 3 * EACH // 2, 0])
    assert not even([400, 25, 25, 25, 25])


@pytest.mark.parametrize("ready", [2, 3, 5])
def test_channels_that_are_ready_are_chosen_equally_often(
    receivers: Any, clock: VirtualClock, ready: int
) -> None:
    channels = [endless(EACH * ready) for _ in range(ready)]
    chosen = Counter(source for source, _ in receivers.select_times(EACH * ready, *channels))
    assert even([chosen[channel] for channel in channels])


@pytest.mark.parametrize("place", [0, 1, 2])
def test_sources_that_are_not_ready_change_nothing(
    receivers: Any, clock: VirtualClock, place: int
) -> None:
    channels = [endless(EACH * 2) for _ in range(2)]
    sources: list[Any] = list(channels)
    sources.insert(place, Channel())
    sources.insert(place, CancellationToken())
    chosen = Counter(source for source, _ in receivers.select_times(EACH * 2, *sources))
    assert even([chosen[channel] for channel in channels])


def test_each_kind_of_source_has_the_same_chance(receivers: Any, clock: VirtualClock) -> None:
    token = CancellationToken()
    token.cancel("over")
    ended: Channel[int] = Channel()
    ended.close()
    stopped = Ticker(ZeroBackOff())
    stopped.stop()
    sources = [endless(600), Ticker(ZeroBackOff()), AsyncTicker(ZeroBackOff())]
    sources += [token, ended, stopped]
    pairs = receivers.select_times(EACH * len(sources), *sources)
    chosen = Counter(source for source, _ in pairs)
    assert even([chosen[source] for source in sources])
    for source, got in pairs:
        if source is token:
            assert got == "over"
        elif source is ended or source is stopped:
            assert got is CLOSED


def test_chance_has_no_pattern(receivers: Any, clock: VirtualClock) -> None:
    """Taking turns would be even, too, and starve a source that is ready at each second turn."""
    channels = [endless(EACH * 4) for _ in range(2)]
    chosen = [source for source, _ in receivers.select_times(EACH * 4, *channels)]
    pairs = Counter(zip(chosen[::2], chosen[1::2], strict=True))
    assert even([pairs[one, other] for one in channels for other in channels])


def test_senders_at_a_rendezvous_are_chosen_equally_often(
    senders: Any, receivers: Any, clock: VirtualClock
) -> None:
    channels = [Channel[int](), Channel[int]()]
    sending = [senders.send_all(channel, range(EACH)) for channel in channels]
    clock.settle()
    chosen: Counter[Channel[int]] = Counter()
    for _ in range(EACH):
        [(source, _)] = receivers.select_times(1, *channels)
        chosen[source] += 1
        clock.settle()
    assert even([chosen[channel] for channel in channels])
    for channel in channels:
        channel.close()
    for each in sending:
        each.exception(1)

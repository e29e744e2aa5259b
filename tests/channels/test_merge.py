"""``merge``: many sources in one iteration, each end given once."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    CLOSED,
    AsyncTicker,
    CancellationToken,
    Channel,
    ConstantBackOff,
    DeadlineExceeded,
    Ticker,
    Timer,
    merge,
    select_async,
    with_max_retries,
)
from tests.channels.ends import drained, error, still_waits, value
from tests.tickers.made_policies import Scripted

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock
    from tests.helpers import LoopThread

EITHER = pytest.mark.parametrize("kind", [Ticker, AsyncTicker])


def ends_of(pairs: list[Any], *sources: Any) -> list[int]:
    """Return how many ends of each source are among ``pairs``; each must be its last word."""
    found = []
    for source in sources:
        mine = [got for each, got in pairs if each is source]
        assert CLOSED not in mine[:-1]
        found.append(mine.count(CLOSED))
    return found


@pytest.mark.parametrize("capacity", [0, 1, math.inf])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_everything_from_all_and_each_end_once(
    senders: Any, receivers: Any, clock: VirtualClock, capacity: float, count: int
) -> None:
    channels = [Channel[Any](capacity) for _ in range(count)]
    merging = receivers.merge(*channels)
    for number, channel in enumerate(channels):
        value(senders.send_all(channel, [(number, each) for each in range(4)]))
        still_waits(clock, merging)
        channel.close()
    pairs = value(merging)
    for number, channel in enumerate(channels):
        mine = [got for source, got in pairs if source is channel]
        assert mine == [*((number, each) for each in range(4)), CLOSED]
    assert clock.pending() == []


def test_sources_that_have_ended_are_told_and_left_out(receivers: Any, clock: VirtualClock) -> None:
    channel: Channel[int] = Channel(2)
    channel.send_nowait(1)
    channel.close()
    ticker = Ticker(ConstantBackOff(10))
    ticker.stop()
    token = CancellationToken()
    token.cancel("why")
    pairs = value(receivers.merge(channel, ticker, token))
    assert len(pairs) == 4
    assert ends_of(pairs, channel, ticker) == [1, 1]
    assert (channel, 1) in pairs
    assert (token, "why") in pairs


def test_a_token_ends_nothing_but_itself(senders: Any, receivers: Any, clock: VirtualClock) -> None:
    channel: Channel[str] = Channel()
    token = CancellationToken()
    merging = receivers.merge(token, channel)
    value(senders.send(channel, "a"))
    clock.settle()
    token.cancel()
    clock.settle()
    value(senders.send(channel, "b"))
    still_waits(clock, merging)
    channel.close()
    assert value(merging) == [(channel, "a"), (token, None), (channel, "b"), (channel, CLOSED)]


@EITHER
def test_tickers_and_deadlines_are_merged_by_time(
    receivers: Any, clock: VirtualClock, kind: Any
) -> None:
    ticker = kind(with_max_retries(ConstantBackOff(10), 2))
    token = CancellationToken().child(timeout=15)
    merging = receivers.merge(ticker, token)
    clock.settle()
    clock.advance(15)
    still_waits(clock, merging)
    clock.advance(5)
    pairs = value(merging)
    assert [source for source, _ in pairs] == [ticker, ticker, token, ticker, ticker]
    assert [got.due for _, got in (pairs[0], pairs[1], pairs[3])] == [1000, 1010, 1020]
    assert type(pairs[2][1]) is DeadlineExceeded
    assert pairs[4][1] is CLOSED
    assert clock.pending() == []


def test_a_timer_comes_as_often_as_it_is_started(receivers: Any, clock: VirtualClock) -> None:
    timer = Timer(clock=clock)
    done: Channel[int] = Channel()
    merging = receivers.merge(timer, done)
    for _ in range(3):
        timer.start(5)
        clock.settle()
        clock.advance(5)
    timer.c.close()
    done.close()
    pairs = value(merging)
    times = [clock.time() - 10, clock.time() - 5, clock.time()]
    assert [got for source, got in pairs if source is timer] == [*times, CLOSED]


def test_leaving_a_merge_leaves_the_rest(clock: VirtualClock) -> None:
    channels = [Channel[int](3), Channel[int](3)]
    for channel in channels:
        for number in range(3):
            channel.send_nowait(number)
    taken = []
    for pair in merge(*channels):
        taken.append(pair)
        if len(taken) == 4:
            break
    left = [(channel, item) for channel in channels for item in drained(channel)]
    for channel in channels:
        mine = [item for source, item in [*taken, *left] if source is channel]
        assert mine == [0, 1, 2]


def test_two_merges_share_what_comes_and_both_hear_the_end(
    senders: Any, receivers: Any, clock: VirtualClock
) -> None:
    channel: Channel[int] = Channel()
    merging = [end.merge(channel) for end in (senders, receivers)]
    still_waits(clock, *merging)
    value(senders.send_all(channel, range(10)))
    channel.close()
    lists = [value(each) for each in merging]
    assert [ends_of(pairs, channel) for pairs in lists] == [[1], [1]]
    items = [got for pairs in lists for _, got in pairs if got is not CLOSED]
    assert sorted(items) == list(range(10))


@EITHER
def test_the_error_of_a_policy_comes_out_of_the_iteration(
    receivers: Any, clock: VirtualClock, kind: Any
) -> None:
    failure = LookupError("the policy failed")
    assert error(receivers.merge(kind(Scripted(failure)), Channel())) is failure


def test_one_merge_goes_on_where_another_loop_over_it_left(clock: VirtualClock) -> None:
    """It remembers which ends it has told."""
    first, second = Channel[int](1), Channel[int](1)
    first.close()
    merging = merge(first, second)
    assert next(iter(merging)) == (first, CLOSED)
    second.send_nowait(1)
    second.close()
    assert list(merging) == [(second, 1), (second, CLOSED)]
    assert list(merging) == []


def test_an_item_that_looks_like_an_end_ends_nothing(receivers: Any, clock: VirtualClock) -> None:
    channel: Channel[Any] = Channel(3)
    for item in (CLOSED, 1, CLOSED):
        channel.send_nowait(item)
    channel.close()
    merging = receivers.merge(channel, CancellationToken().child(timeout=5))
    still_waits(clock, merging)
    clock.advance(5)
    items = [got for source, got in value(merging) if source is channel]
    assert items == [CLOSED, 1, CLOSED, CLOSED]


def test_what_is_always_ready_does_not_starve_the_loop(
    loop: LoopThread, clock: VirtualClock
) -> None:
    channel: Channel[int] = Channel(2000)
    for number in range(2000):
        channel.send_nowait(number)

    async def main(take: Any) -> int:
        others = 0

        async def count() -> None:
            nonlocal others
            while True:
                others += 1
                await asyncio.sleep(0)

        counting = asyncio.ensure_future(count())
        for _ in range(600):
            await take()
        counting.cancel()
        return others

    assert loop.run(main(channel.receive_async)) >= 4
    assert loop.run(main(lambda: select_async(Channel(), channel))) >= 4


def test_an_end_that_another_thread_has_given_meanwhile_is_not_given_again(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel: Channel[int] = Channel()
    channel.close()
    merging = merge(channel)
    given: list[Any] = []

    def draw() -> float:
        """Stand for another thread that takes a step between two of ours."""
        monkeypatch.undo()
        given.append(next(merging))
        return 0.0

    monkeypatch.setattr("backoff_ticker.channels._select.shared_random", draw)
    assert list(merging) == []
    assert given == [(channel, CLOSED)]

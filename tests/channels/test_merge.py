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
    from collections.abc import Coroutine

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


def test_an_unknown_source_is_refused(clock: VirtualClock) -> None:
    with pytest.raises(TypeError):
        next(iter(merge(Channel(), object())))  # type: ignore[call-overload]


SILENCE = 12


class Events:
    """Three channels, on which things happen each at its second."""

    def __init__(self) -> None:
        self.a, self.b, self.c = (Channel[float](4) for _ in range(3))

    def name(self, channel: Channel[float]) -> str:
        return "abc"[(self.a, self.b, self.c).index(channel)]

    async def happen(self, *plan: str) -> None:
        """Per second some letters: a small one is an item, a capital the end of its channel."""
        now = asyncio.get_running_loop().time
        for second, letters in enumerate(plan):
            for letter in letters:
                channel = getattr(self, letter.lower())
                if letter.isupper():
                    channel.close()
                else:
                    channel.send_nowait(second)
            end = now() + 1
            await asyncio.sleep(end - now())


ONE_BY_ONE = ("a", "b", "c", "a", "a", "c", "b", "A", "b", "C", "b", "B")


def run_plan(loop: LoopThread, clock: VirtualClock, main: Coroutine[Any, Any, Any]) -> Any:
    """Run ``main`` there while time passes, second by second."""
    outcome = loop.submit(main)
    for _ in range(40):
        if outcome.done():
            break
        clock.advance(1)
    return outcome.result(1)


def test_a_merge_follows_the_plan_and_ends_with_the_last(
    loop: LoopThread, clock: VirtualClock
) -> None:
    events = Events()

    async def main() -> list[tuple[str, Any, float]]:
        now = asyncio.get_running_loop().time
        start = now()
        plan = asyncio.ensure_future(events.happen(*ONE_BY_ONE))
        seen = []
        async for channel, got in merge(events.a, events.b, events.c):
            assert len(asyncio.all_tasks()) == 2
            seen.append((events.name(channel), got, now() - start))
        await plan
        assert len(asyncio.all_tasks()) == 1
        return seen

    seen = run_plan(loop, clock, main())
    assert seen == [
        (letters.lower(), CLOSED if letters.isupper() else second, second)
        for second, letters in enumerate(ONE_BY_ONE)
    ]


def test_all_that_are_ready_come_before_time_goes_on(loop: LoopThread, clock: VirtualClock) -> None:
    events = Events()
    plan = ("abc", "bc", "ac", "ab")

    async def main() -> tuple[list[set[str]], float]:
        now = asyncio.get_running_loop().time
        start = now()
        happening = asyncio.ensure_future(events.happen(*plan))
        seen: list[set[str]] = [set() for _ in plan]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SILENCE):
                async for channel, second in merge(events.a, events.b, events.c):
                    assert now() - start == second
                    seen[int(second)].add(events.name(channel))
        await happening
        return seen, now() - start

    seen, took = run_plan(loop, clock, main())
    assert seen == [set(letters) for letters in plan]
    assert took == SILENCE


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

    assert run_plan(loop, clock, main(channel.receive_async)) >= 4
    assert run_plan(loop, clock, main(lambda: select_async(Channel(), channel))) >= 4

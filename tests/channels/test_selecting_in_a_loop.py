"""``select_async`` and ``merge`` through a plan of events in one loop, second by second."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import CLOSED, Channel, merge, select_async

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from backoff_ticker.testing import VirtualClock
    from tests.helpers import LoopThread

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


def run(loop: LoopThread, clock: VirtualClock, main: Coroutine[Any, Any, Any]) -> Any:
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

    seen = run(loop, clock, main())
    assert seen == [
        (letters.lower(), CLOSED if letters.isupper() else second, second)
        for second, letters in enumerate(ONE_BY_ONE)
    ]


@pytest.mark.parametrize("stop_at", ["c", "b", "C"])
def test_one_merge_after_another_goes_on_where_the_first_left(
    loop: LoopThread, clock: VirtualClock, stop_at: str
) -> None:
    events = Events()

    async def main() -> list[str]:
        plan = asyncio.ensure_future(events.happen(*ONE_BY_ONE))
        seen: list[str] = []
        for _ in range(2):
            open_ones = [
                channel for channel in (events.a, events.b, events.c) if not channel.closed
            ]
            async for channel, got in merge(*open_ones):
                name = events.name(channel)
                seen.append(name.upper() if got is CLOSED else name)
                if seen[-1] == stop_at and seen.count(stop_at) == 1:
                    break
        await plan
        assert len(asyncio.all_tasks()) == 1
        return seen

    assert run(loop, clock, main()) == list(ONE_BY_ONE)


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

    seen, took = run(loop, clock, main())
    assert seen == [set(letters) for letters in plan]
    assert took == SILENCE


def test_select_tells_an_end_again_where_merge_tells_it_once(
    loop: LoopThread, clock: VirtualClock
) -> None:
    events = Events()

    async def main() -> None:
        events.a.close()
        for _ in range(3):
            assert await select_async(events.a, events.b) == (events.a, CLOSED)
        merging = merge(events.a, events.b)
        assert await anext(merging) == (events.a, CLOSED)
        events.b.send_nowait(1)
        assert await anext(merging) == (events.b, 1)
        events.b.close()
        assert await anext(merging) == (events.b, CLOSED)
        for _ in range(2):
            with pytest.raises(StopAsyncIteration):
                await anext(merging)

    run(loop, clock, main())


def test_leaving_leaves_no_task_and_no_wait(loop: LoopThread, clock: VirtualClock) -> None:
    events = Events()

    async def main() -> None:
        plan = asyncio.ensure_future(events.happen("abc", "bc", "ac", "ab"))
        async for channel, _ in merge(events.a, events.b, events.c):
            if channel is events.c:
                break
        plan.cancel()
        await asyncio.wait([plan])
        assert len(asyncio.all_tasks()) == 1

    run(loop, clock, main())
    assert clock.pending() == []


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

    assert run(loop, clock, main(channel.receive_async)) >= 4
    assert run(loop, clock, main(lambda: select_async(Channel(), channel))) >= 4

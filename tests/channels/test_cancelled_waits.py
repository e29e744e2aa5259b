"""Waits that are cancelled, or woken just before they begin, at every step: nothing is lost."""

from __future__ import annotations

import asyncio
from asyncio import futures
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import CLOSED, Channel, ChannelClosed, WouldBlock, select_async
from backoff_ticker.channels._buffer import PendingSend
from tests.channels.ends import ThreadEnd, drained, error, turns, value
from tests.helpers import PATIENCE, in_thread, pending_sends_of

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock
    from tests.helpers import LoopThread


ROOMY = pytest.mark.parametrize("capacity", [1, 3])


CAPACITY = pytest.mark.parametrize("capacity", [0, 1, 3])


LATER = pytest.mark.parametrize("later", [0, 1, 2, 3, 4])
"""How many turns of the loop lie between the wake-up and the cancel."""


def received(*tasks: asyncio.Task[Any]) -> list[Any]:
    return [task.result() for task in tasks if task.done() and not task.cancelled()]


async def waiting_tasks(channel: Channel[Any], count: int) -> list[asyncio.Task[Any]]:
    """Return tasks that stand in line for an item, in this order."""
    tasks = [asyncio.ensure_future(channel.receive_async()) for _ in range(count)]
    await turns(3)
    return tasks


async def cancelled_after(later: int, *tasks: asyncio.Task[Any]) -> None:
    """Cancel ``tasks`` so many turns from now, each before what is ready then."""
    for _ in range(later):
        await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await turns(6)


class CountedSend(PendingSend):
    """Counts how often it is looked at to find another."""

    __slots__ = ()
    looks = 0

    def __eq__(self, other: object) -> bool:
        CountedSend.looks += 1
        return self is other

    __hash__ = PendingSend.__hash__


@pytest.mark.parametrize("order", [1, -1], ids=["first to last", "last to first"])
def test_a_sender_that_leaves_does_not_look_for_its_place_in_line(
    monkeypatch: pytest.MonkeyPatch, order: int
) -> None:
    monkeypatch.setattr("backoff_ticker.channels._channel.PendingSend", CountedSend)
    channel: Channel[int] = Channel(1)
    channel.send_nowait(-1)

    async def main() -> None:
        tasks = [asyncio.ensure_future(channel.send_async(number)) for number in range(200)]
        await turns(3)
        for task in tasks[::order]:
            if task is not tasks[100]:
                task.cancel()
                await turns(2)
        assert (await channel.receive_async(), await channel.receive_async()) == (-1, 100)

    asyncio.run(main())
    assert CountedSend.looks <= 10
    assert not pending_sends_of(channel)


@CAPACITY
@LATER
@pytest.mark.parametrize("leaving", [1, 7])
def test_the_item_goes_to_the_next_when_the_first_are_cancelled(
    loop: LoopThread, clock: VirtualClock, capacity: int, later: int, leaving: int
) -> None:
    channel: Channel[str] = Channel(capacity)

    async def main() -> None:
        tasks = await waiting_tasks(channel, 8)
        channel.send_nowait("a")
        await cancelled_after(later, *tasks[:leaving])
        assert received(*tasks) + drained(channel) == ["a"]
        assert len(channel) == 0
        channel.close()
        await asyncio.gather(*tasks, return_exceptions=True)

    loop.run(main())
    assert clock.pending() == []


@CAPACITY
def test_a_cancel_just_before_the_send_loses_nothing(
    loop: LoopThread, clock: VirtualClock, capacity: int
) -> None:
    channel: Channel[str] = Channel(capacity)

    async def main() -> None:
        tasks = await waiting_tasks(channel, 8)
        for task in tasks[:3]:
            task.cancel()
        channel.send_nowait("a")
        await turns(6)
        assert received(*tasks) == ["a"]
        channel.close()
        await asyncio.gather(*tasks, return_exceptions=True)

    loop.run(main())


@CAPACITY
@pytest.mark.parametrize("send_first", [True, False])
def test_a_send_from_outside_and_a_cancel_meet(
    loop: LoopThread, clock: VirtualClock, capacity: int, send_first: bool
) -> None:
    """The item comes from a thread; the last to wait is a thread, too."""
    channel: Channel[str] = Channel(capacity)
    tasks: list[asyncio.Task[Any]] = []

    async def begin() -> None:
        tasks.extend(await waiting_tasks(channel, 4))

    loop.run(begin())
    last = in_thread(channel.receive)
    clock.settle()
    if send_first:
        channel.send_nowait("a")
    for task in tasks:
        loop.loop.call_soon_threadsafe(task.cancel)
    if not send_first:
        channel.send_nowait("a")
    clock.settle()
    got = received(*tasks)
    if last.done():
        got.append(last.result(PATIENCE))
    assert got == ["a"]
    channel.close()


@ROOMY
@LATER
def test_a_sender_cancelled_as_it_is_let_in_has_sent_or_has_not(
    loop: LoopThread, clock: VirtualClock, capacity: int, later: int
) -> None:
    """The next in line is let in either way."""
    channel: Channel[Any] = Channel(capacity)

    async def main() -> None:
        for number in range(capacity):
            channel.send_nowait(number)
        first = asyncio.ensure_future(channel.send_async("first"))
        second = asyncio.ensure_future(channel.send_async("second"))
        await turns(3)
        taken = [channel.receive_nowait()]
        await cancelled_after(later, first)
        while not second.done():
            taken.append(channel.receive_nowait())
            await turns(6)
        taken += drained(channel)
        sent = ["first", "second"] if "first" in taken else ["second"]
        assert taken == [*range(capacity), *sent]
        assert first.cancelled() or "first" in taken
        assert second.result() is None

    loop.run(main())
    assert clock.pending() == []


@LATER
def test_a_sender_cancelled_as_it_is_met_was_met(
    loop: LoopThread, clock: VirtualClock, later: int
) -> None:
    channel: Channel[str] = Channel()

    async def main() -> None:
        first = asyncio.ensure_future(channel.send_async("first"))
        second = asyncio.ensure_future(channel.send_async("second"))
        await turns(3)
        assert channel.receive_nowait() == "first"
        await cancelled_after(later, first)
        assert channel.receive_nowait() == "second"
        await second
        assert first.done()
        with pytest.raises(WouldBlock):
            channel.receive_nowait()

    loop.run(main())


@LATER
@pytest.mark.parametrize("capacity", [0, 1])
def test_a_select_cancelled_as_it_is_woken_leaves_the_item(
    loop: LoopThread, clock: VirtualClock, later: int, capacity: int
) -> None:
    first: Channel[str] = Channel(capacity)
    second: Channel[str] = Channel(capacity)

    async def main() -> None:
        selecting = asyncio.ensure_future(select_async(first, second))
        await turns(3)
        first.send_nowait("a")
        await cancelled_after(later, selecting)
        got = [selecting.result()] if not selecting.cancelled() else []
        assert got + [(first, item) for item in drained(first)] == [(first, "a")]
        assert len(second) == 0
        with pytest.raises(WouldBlock):
            second.receive_nowait()

    loop.run(main())


WAITS = {
    "receive": lambda channel, end: end.receive(channel),
    "receive with a limit": lambda channel, end: end.receive(channel, 60),
    "select": lambda channel, end: end.select(Channel(), channel, Channel()),
    "iterate": lambda channel, _: in_thread(next, iter(channel)),
}


@pytest.mark.parametrize("how", list(WAITS))
@pytest.mark.parametrize("news", ["item", "close"])
def test_what_comes_as_a_thread_is_about_to_wait_is_not_missed(
    clock: VirtualClock, how: str, news: str
) -> None:
    channel: Channel[str] = Channel(1)
    with clock.trap("parker") as trap:
        waiting = WAITS[how](channel, ThreadEnd())
        call = trap.wait()
        channel.send_nowait("a") if news == "item" else channel.close()
        call.release()
        outcome = error(waiting)
    if news == "item":
        assert value(waiting) == ((channel, "a") if how == "select" else "a")
    elif how == "select":
        assert value(waiting) == (channel, CLOSED)
    else:
        assert isinstance(outcome, StopIteration if how == "iterate" else ChannelClosed)


@pytest.mark.parametrize("capacity", [0, 1])
@pytest.mark.parametrize("news", ["room", "close"])
def test_room_that_comes_as_a_thread_is_about_to_wait_is_not_missed(
    clock: VirtualClock, capacity: int, news: str
) -> None:
    channel: Channel[str] = Channel(capacity)
    if capacity:
        channel.send_nowait("first")
    with clock.trap("parker") as trap:
        sending = in_thread(channel.send, "a")
        call = trap.wait()
        if news == "close":
            channel.close()
        elif capacity:
            assert channel.receive_nowait() == "first"
        call.release()
        clock.settle()
    if news == "close":
        assert isinstance(error(sending), ChannelClosed)
    else:
        if capacity:
            assert value(sending) is None
        assert channel.receive_nowait() == "a"
        assert value(sending) is None


@pytest.mark.parametrize("other", [False, True])
@pytest.mark.parametrize("how", ["receive", "select"])
def test_what_a_finalizer_sends_as_a_coroutine_is_about_to_wait_is_not_missed(
    clock: VirtualClock, loop: LoopThread, monkeypatch: pytest.MonkeyPatch, how: str, other: bool
) -> None:
    """It runs in the very task, as its future is made: the first, or the one after a wake-up."""
    channel: Channel[str] = Channel(2)
    make = loop.loop.create_future
    left = [other]

    def make_future() -> asyncio.Future[None]:
        if left.pop():
            left.append(False)
        else:
            monkeypatch.undo()
            channel.send_nowait("a")
        return make()

    async def main() -> object:
        monkeypatch.setattr(loop.loop, "create_future", make_future)
        if how == "receive":
            return await channel.receive_async()
        return (await select_async(channel, Channel()))[1]

    async def wake_in_vain() -> None:
        channel.send_nowait("taken")
        assert channel.receive_nowait() == "taken"

    waiting = loop.submit(main())
    if other:
        clock.settle()
        loop.run(wake_in_vain())
    assert waiting.result(PATIENCE) == "a"


def test_a_handler_that_wakes_a_coroutine_as_it_is_being_woken_does_no_harm(
    clock: VirtualClock, loop: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes after the look whether the future is done, before it is resolved."""
    channel, other = Channel[str](1), Channel[str](1)

    class Future(futures._PyFuture):  # type: ignore[name-defined, misc]
        def set_result(self, result: None) -> None:
            super().set_result(None)  # by the handler
            super().set_result(result)

    async def wake() -> None:
        channel.send_nowait("a")

    def make_future() -> Future:
        monkeypatch.undo()
        return Future(loop=loop.loop)

    async def main() -> object:
        monkeypatch.setattr(loop.loop, "create_future", make_future)
        return await select_async(channel, other)

    waiting = loop.submit(main())
    clock.settle()
    loop.run(wake())
    assert waiting.result(PATIENCE) == (channel, "a")


@pytest.mark.parametrize("capacity", [0, 1])
def test_a_select_passes_on_the_wake_up_of_the_channel_it_does_not_choose(
    loop: LoopThread, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch, capacity: int
) -> None:
    first, second = Channel[str](capacity), Channel[str](capacity)
    monkeypatch.setattr("backoff_ticker.channels._select.shared_random", lambda: 0.99)

    async def main() -> None:
        selecting = asyncio.ensure_future(select_async(first, second))
        await turns(3)
        receiving = asyncio.ensure_future(first.receive_async())
        await turns(3)
        first.send_nowait("a")
        second.send_nowait("b")
        await turns(6)
        assert selecting.result() == (second, "b")
        assert receiving.result() == "a"

    loop.run(main())

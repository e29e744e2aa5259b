"""News between the last look of a thread, or a coroutine, and its wait are not missed."""

from __future__ import annotations

from asyncio import futures
from typing import TYPE_CHECKING

import pytest

from backoff_ticker import CLOSED, Channel, ChannelClosed, select_async
from tests.channels.ends import ThreadEnd, error, value
from tests.helpers import PATIENCE, in_thread

if TYPE_CHECKING:
    import asyncio

    from backoff_ticker.testing import VirtualClock
    from tests.helpers import LoopThread

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

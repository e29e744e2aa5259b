"""Waits that are cancelled, or woken just before they begin, at every step: nothing is lost."""

import asyncio
from asyncio import futures
from functools import partial
from math import inf

import pytest

from backoff_ticker import CLOSED, Channel, ChannelClosed, WouldBlock, merge, select, select_async
from tests.channels.ends import drained, error, value
from tests.helpers import PATIENCE, eventually, in_thread, turns, waiters_of
from tests.stress.tools import Gate

CAPACITY = pytest.mark.parametrize("capacity", [0, 1, 3])


async def cancelled_after(later, *tasks):
    """Cancel ``tasks`` so many turns from now, each before what is ready then."""
    await turns(later)
    for task in tasks:
        task.cancel()
    await turns(6)


async def choose_async(channel):
    return (await select_async(Channel(), channel))[1]


async def step(merging):
    return (await anext(merging))[1]


WAITS = {
    "receive": lambda channel: channel.receive_async,
    "select": lambda channel: lambda: choose_async(channel),
    "merge": lambda channel: partial(step, merge(Channel(), channel)),
}


@CAPACITY
@pytest.mark.parametrize("wait", WAITS)
@pytest.mark.parametrize("later", ["before", 0, 1, 2, 3])
@pytest.mark.parametrize("leaving", [1, 8])
def test_the_item_goes_to_the_next_when_the_first_are_cancelled(
    loop, clock, capacity, wait, later, leaving
):
    """So many turns of the loop after the wake-up, or just before it. All eight may leave."""
    channel = Channel(capacity)
    receive = WAITS[wait](channel)

    async def main():
        tasks = [asyncio.ensure_future(receive()) for _ in range(8)]
        await turns(3)
        if later == "before":
            for task in tasks[:leaving]:
                task.cancel()
        channel.send_nowait("a")
        await cancelled_after(0 if later == "before" else later, *tasks[:leaving])
        received = [task.result() for task in tasks if task.done() and not task.cancelled()]
        assert received == ["a"] or leaving == 8
        await cancelled_after(0, *tasks)
        if capacity == 0:
            with pytest.raises(WouldBlock):
                channel.send_nowait("to nobody")
        assert received + drained(channel) == ["a"]

    loop.run(main())
    assert clock.pending() == []


@CAPACITY
@pytest.mark.parametrize("later", [0, 1, 2, 3, 4])
def test_a_sender_cancelled_as_it_is_let_in_has_sent_or_has_not(loop, clock, capacity, later):
    """So many turns after it was. The next in line is let in either way."""
    channel = Channel(capacity)

    async def main():
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


def send_nowait(channel):
    channel.send_nowait("a")


def send(channel):
    channel.send("a")


def choose(channel):
    return select(Channel(), channel, Channel())[1]


@pytest.mark.parametrize(
    ("wait", "news", "expected"),
    [
        (Channel.receive, send_nowait, "a"),
        (Channel.receive, Channel.close, ChannelClosed),
        (next, send_nowait, "a"),
        (next, Channel.close, StopIteration),
        (choose, send_nowait, "a"),
        (choose, Channel.close, CLOSED),
        (send, Channel.receive_nowait, None),
        (send, Channel.close, ChannelClosed),
    ],
)
def test_what_comes_as_a_thread_is_about_to_wait_is_not_missed(clock, wait, news, expected):
    channel = Channel(1)
    if wait is send:
        channel.send_nowait("first")
    with clock.trap("parker") as trap:
        waiting = in_thread(wait, channel)
        call = trap.wait()
        news(channel)
        call.release()
        outcome = type(error(waiting)) if error(waiting) else value(waiting)
    assert outcome == expected
    assert drained(channel) == (["a"] if expected is None else ["first"] * (wait is send))


@pytest.mark.parametrize("other", [False, True])
@pytest.mark.parametrize("wait", [Channel.receive_async, choose_async])
def test_what_a_finalizer_sends_as_a_coroutine_is_about_to_wait_is_not_missed(
    clock, loop, monkeypatch, wait, other
):
    """It runs in the very task, as its future is made: the first, or the one after a wake-up."""
    channel = Channel(2)
    make = loop.loop.create_future
    left = [other]

    def make_future():
        if left.pop():
            left.append(False)
        else:
            monkeypatch.undo()
            channel.send_nowait("a")
        return make()

    async def main():
        monkeypatch.setattr(loop.loop, "create_future", make_future)
        return await wait(channel)

    async def wake_in_vain():
        channel.send_nowait("taken")
        assert channel.receive_nowait() == "taken"

    waiting = loop.submit(main())
    if other:
        clock.settle()
        loop.run(wake_in_vain())
    assert waiting.result(PATIENCE) == "a"


def test_a_handler_that_wakes_a_coroutine_as_it_is_being_woken_does_no_harm(
    clock, loop, monkeypatch
):
    """It comes after the look whether the future is done, before it is resolved."""
    channel = Channel(1)

    class Future(futures._PyFuture):
        def set_result(self, result):
            super().set_result(None)  # by the handler
            super().set_result(result)

    async def wake():
        channel.send_nowait("a")

    def make_future():
        monkeypatch.undo()
        return Future(loop=loop.loop)

    async def main():
        monkeypatch.setattr(loop.loop, "create_future", make_future)
        return await channel.receive_async()

    waiting = loop.submit(main())
    clock.settle()
    loop.run(wake())
    assert waiting.result(PATIENCE) == "a"


@pytest.mark.parametrize("capacity", [0, 1])
def test_a_select_passes_on_the_wake_up_of_the_channel_it_does_not_choose(
    loop, clock, monkeypatch, capacity
):
    first, second = Channel[str](capacity), Channel[str](capacity)
    monkeypatch.setattr("backoff_ticker.channels._select.shared_random", lambda: 0.99)

    async def main():
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


@pytest.mark.parametrize("capacity", [inf, 2, 0])
@pytest.mark.parametrize("receive", [Channel.receive, lambda channel: select(channel)[1]])
def test_a_receiver_that_is_woken_for_two_items_wakes_the_next(monkeypatch, capacity, receive):
    """It was found by two senders; one of them is slow to take it out of its line."""
    found, looks = Gate(), Gate()
    kind = type(Channel(capacity)._buffer)
    remove, recheck = kind.remove, Channel._recheck

    def slow_remove(buffer, place):
        if not found.reached.is_set():
            found.stand()
        return remove(buffer, place)

    def slow_recheck(channel, waiter):
        if found.reached.is_set():
            looks.stand()
        return recheck(channel, waiter)

    monkeypatch.setattr(kind, "remove", slow_remove, raising=False)
    monkeypatch.setattr(Channel, "_recheck", slow_recheck)
    channel = Channel(capacity)
    received = []
    for count in (1, 2):
        received.append(in_thread(receive, channel))
        eventually(lambda count=count: len(waiters_of(channel._buffer)) == count)
    sent = in_thread(channel.send, "a")
    found.wait_until_reached()
    channel.send("b")  # takes the first receiver out of the line
    looks.wait_until_reached()  # it is in the line again
    found.open()  # where the slow sender takes it out
    sent.result(PATIENCE)
    looks.open()
    assert {each.result(PATIENCE) for each in received} == {"a", "b"}

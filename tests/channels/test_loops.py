"""Channels outlive loops: those that end, those that stand still; and they let loops run."""

import asyncio
import math

import pytest

from backoff_ticker import (
    CLOSED,
    Channel,
    ChannelClosed,
    ConstantBackOff,
    Ticker,
    WouldBlock,
    select_async,
)
from tests.channels.ends import drained, filled, still_waits, value, values
from tests.helpers import collect_garbage, turns
from tests.retries.faces import in_a_loop

GONE = pytest.mark.parametrize("how", ["stopped", "closed"])
CAPACITY = pytest.mark.parametrize("capacity", [0, 1, math.inf])


class LoopThatGoes:
    """An event loop in which one coroutine was left waiting."""

    def __init__(self, wait, how):
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(lambda *_: None)

        async def begin():
            task = asyncio.ensure_future(wait)
            await turns(3)
            assert not task.done()
            return task

        self.task = self.loop.run_until_complete(begin())
        if how == "closed":
            self.loop.close()

    def end(self):
        """Let its coroutine end, if the loop can still run, or collect what is left."""
        task, self.task = self.task, None
        if not self.loop.is_closed():
            task.cancel()
            self.loop.run_until_complete(asyncio.wait([task]))
            self.loop.close()
        del task
        collect_garbage()


@CAPACITY
@GONE
def test_an_item_does_not_wait_for_a_loop_that_does_not_run_while_others_wait(
    receivers, clock, capacity, how
):
    """One waiter of each loop, and a thread, are woken for it; those who find nothing wait on."""
    channel = Channel(capacity)
    gone = [LoopThatGoes(channel.receive_async(), how) for _ in range(2)]
    waiting = [receivers.receive(channel) for _ in range(2)]
    still_waits(clock, *waiting)
    for item in "ab":
        channel.send_nowait(item)
        clock.settle()
    assert sorted(values(waiting)) == ["a", "b"]
    if how == "stopped":
        channel.send_nowait("c")
        assert gone[1].loop.run_until_complete(gone[1].task) == "c"
    for each in gone:
        each.end()


@pytest.mark.parametrize("wait", ["receive", "select"])
def test_who_waits_in_a_closed_loop_is_nobody_to_meet(clock, wait):
    channel = Channel()
    waits = channel.receive_async() if wait == "receive" else select_async(channel, Channel())
    gone = LoopThatGoes(waits, "closed")
    for _ in range(2):
        with pytest.raises(WouldBlock):
            channel.send_nowait("a")
        gone.end()
    with pytest.raises(WouldBlock):
        channel.send_nowait("a")


@pytest.mark.parametrize("capacity", [0, 1])
def test_senders_of_a_closed_loop_hold_up_nobody_else(senders, receivers, clock, capacity):
    """Whether its item is still received is open; that of the next in line is."""
    channel = Channel(capacity)
    first = ["first"] * capacity
    for item in first:
        channel.send_nowait(item)
    gone = LoopThatGoes(channel.send_async("gone"), "closed")
    sending = senders.send(channel, "last")
    clock.settle()
    received = []
    while "last" not in received:
        received.append(value(receivers.receive(channel)))
    assert received in ([*first, "last"], [*first, "gone", "last"])
    assert value(sending) is None
    gone.end()
    assert drained(channel) == []


@GONE
def test_closing_wakes_the_others_when_a_loop_is_gone(senders, receivers, clock, how):
    channel = Channel()
    gone = LoopThatGoes(channel.receive_async(), how)
    collecting = [end.receive_all(channel) for end in (senders, receivers)]
    selecting = receivers.select(channel)
    still_waits(clock, *collecting, selecting)
    channel.close()
    assert values(collecting) == [[], []]
    assert value(selecting) == (channel, CLOSED)
    if how == "stopped":
        gone.loop.run_until_complete(asyncio.wait([gone.task]))
        assert isinstance(gone.task.exception(), ChannelClosed)
    gone.end()


def gives_way(coroutine):
    """Run ``coroutine``, which need not wait, in a loop; whether it gave way, once, on the way."""
    try:
        assert coroutine.send(None) is None
    except StopIteration:
        return False
    with pytest.raises(StopIteration):
        coroutine.send(None)
    return True


@pytest.mark.parametrize("capacity", [200, math.inf])
@pytest.mark.parametrize("uses_another", [False, True])
@in_a_loop
async def test_a_channel_gives_way_at_each_64th(capacity, uses_another):
    """Whatever goes on on other channels meanwhile."""
    other = Channel(math.inf)
    sending = Channel(capacity)
    for step in (
        filled(capacity, 200).receive_async,
        filled(capacity, 200).__anext__,
        lambda: sending.send_async(1),
    ):
        given = []
        for number in range(1, 201):
            if gives_way(step()):
                given.append(number)
            if uses_another:
                gives_way(other.send_async(0))
                gives_way(other.receive_async())
        assert given == [64, 128, 192]


@in_a_loop
async def test_select_gives_way_each_time():
    channel, ticker = filled(math.inf, 50), Ticker(ConstantBackOff(0))
    for sources in ([channel], [Channel(), channel], [ticker, Channel()]):
        for _ in range(10):
            assert gives_way(select_async(*sources))

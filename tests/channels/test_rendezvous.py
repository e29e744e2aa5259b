"""Capacity 0: sender and receiver meet."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import Channel, ChannelClosed, WouldBlock
from tests.channels.ends import drained, ended, error, in_turn, still_waits, value, values

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock
    from tests.helpers import LoopThread


def test_a_sender_waits_for_a_receiver(senders: Any, receivers: Any, clock: VirtualClock) -> None:
    channel: Channel[str] = Channel()
    sending = senders.send(channel, "a")
    still_waits(clock, sending)
    assert len(channel) == 0
    assert value(receivers.receive(channel)) == "a"
    assert value(sending) is None
    assert len(channel) == 0


def test_a_receiver_waits_for_a_sender(senders: Any, receivers: Any, clock: VirtualClock) -> None:
    channel: Channel[str] = Channel()
    receiving = receivers.receive(channel)
    still_waits(clock, receiving)
    sending = senders.send(channel, "a")
    clock.settle()
    assert value(sending) is None
    assert value(receiving) == "a"
    assert len(channel) == 0


@pytest.mark.parametrize("waiting", [1, 2, 5])
def test_without_waiting_as_many_are_sent_as_receivers_wait(
    receivers: Any, clock: VirtualClock, waiting: int
) -> None:
    channel: Channel[int] = Channel()
    receiving = [receivers.receive(channel) for _ in range(waiting)]
    still_waits(clock, *receiving)
    for number in range(waiting):
        channel.send_nowait(number)
    with pytest.raises(WouldBlock):
        channel.send_nowait(-1)
    assert sorted(values(receiving)) == list(range(waiting))
    clock.settle()
    with pytest.raises(WouldBlock):
        channel.send_nowait(-1)


def test_nobody_there_nothing_moves(senders: Any, clock: VirtualClock) -> None:
    channel: Channel[int] = Channel()
    with pytest.raises(WouldBlock):
        channel.send_nowait(1)
    with pytest.raises(WouldBlock):
        channel.receive_nowait()
    sending = senders.send(channel, 2)
    still_waits(clock, sending)
    with pytest.raises(WouldBlock):
        channel.send_nowait(3)
    assert channel.receive_nowait() == 2
    assert value(sending) is None
    with pytest.raises(WouldBlock):
        channel.receive_nowait()


def test_blocked_senders_are_met_in_the_order_they_came(senders: Any, clock: VirtualClock) -> None:
    channel: Channel[int] = Channel()
    sending = in_turn(clock, senders.send, channel, *range(6))
    for number in range(6):
        assert channel.receive_nowait() == number
        assert ended(clock, sending) == sending[: number + 1]


def test_several_are_taken_before_any_of_their_senders_runs(
    senders: Any, clock: VirtualClock
) -> None:
    channel: Channel[int] = Channel()
    sending = in_turn(clock, senders.send, channel, *range(4))
    assert [channel.receive_nowait() for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(WouldBlock):
        channel.receive_nowait()
    assert values(sending) == [None] * 4


def test_a_receiver_whose_time_is_up_is_no_receiver(receivers: Any, clock: VirtualClock) -> None:
    channel: Channel[int] = Channel()
    receiving = receivers.receive(channel, 3)
    clock.settle()
    clock.advance(3)
    assert type(error(receiving)) is TimeoutError
    with pytest.raises(WouldBlock):
        channel.send_nowait(1)
    assert len(channel) == 0


def test_a_sender_whose_time_is_up_is_no_sender(senders: Any, clock: VirtualClock) -> None:
    channel: Channel[int] = Channel()
    sending = senders.send(channel, 1, 3)
    clock.settle()
    clock.advance(3)
    assert type(error(sending)) is TimeoutError
    with pytest.raises(WouldBlock):
        channel.receive_nowait()


def test_a_receiver_with_a_time_limit_is_one_to_meet(
    senders: Any, receivers: Any, clock: VirtualClock
) -> None:
    channel: Channel[int] = Channel()
    receiving = receivers.receive(channel, 10)
    clock.settle()
    clock.advance(9)
    assert value(senders.send(channel, 4, 0)) is None
    assert value(receiving) == 4
    assert clock.pending() == []


def test_two_talk_in_both_directions(senders: Any, receivers: Any, clock: VirtualClock) -> None:
    channel: Channel[int] = Channel()
    for number in range(20):
        listening = receivers.receive(channel)
        value(senders.send(channel, number))
        assert value(listening) == number
        answering = receivers.send(channel, -number)
        assert value(senders.receive(channel)) == -number
        assert value(answering) is None
    assert clock.pending() == []


@pytest.mark.parametrize(("sending", "receiving"), [(1, 4), (4, 1), (3, 3), (5, 2)])
def test_a_crowd_meets_and_each_item_is_received_once(
    senders: Any, receivers: Any, clock: VirtualClock, sending: int, receiving: int
) -> None:
    channel: Channel[Any] = Channel()
    collecting = [receivers.collect(channel) for _ in range(receiving)]
    sent = [
        senders.send_all(channel, [(number, each) for each in range(8)])
        for number in range(sending)
    ]
    values(sent)
    channel.close()
    lists = values(collecting)
    assert Counter(sum(lists, [])) == Counter(
        (number, each) for number in range(sending) for each in range(8)
    )
    for items in lists:
        for number in range(sending):
            mine = [each for sender, each in items if sender == number]
            assert mine == sorted(mine)
    assert clock.pending() == []


@pytest.mark.parametrize("cancel_first", [False, True])
def test_an_accepted_item_whose_receiver_leaves_stays_readable(
    loop: LoopThread, clock: VirtualClock, cancel_first: bool
) -> None:
    """The receiver may have it, or the channel; an item that was refused is nowhere."""
    channel: Channel[str] = Channel()

    async def main() -> tuple[bool, list[str], list[str]]:
        receiver = asyncio.ensure_future(channel.receive_async())
        await asyncio.sleep(0)
        accepted = True
        if cancel_first:
            receiver.cancel()
        try:
            channel.send_nowait("a")
        except WouldBlock:
            accepted = False
        receiver.cancel()
        await asyncio.wait([receiver])
        received = [] if receiver.cancelled() else [receiver.result()]
        return accepted, received, drained(channel)

    accepted, received, left = loop.run(main())
    assert received + left == ["a"] * accepted
    assert accepted or cancel_first
    channel.close()
    with pytest.raises(ChannelClosed):
        channel.receive_nowait()

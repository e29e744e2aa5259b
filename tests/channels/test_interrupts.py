"""An interrupt at every place where CPython may raise one in a channel: nothing is lost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from backoff_ticker import ChannelClosed, WouldBlock
from tests.channels.traffic import NO_DEADLINE, Traffic
from tests.helpers import PATIENCE
from tests.stress.places import InterruptAt, Interrupted, each_place

if TYPE_CHECKING:
    from collections.abc import Callable

CAPACITIES = pytest.mark.parametrize("capacity", [NO_DEADLINE, 2, 0])
LIMITED = pytest.mark.parametrize("capacity", [2, 0])


def check(
    capacity: float,
    prepare: Callable[[Traffic], object],
    act: Callable[[Traffic], object],
    *,
    ready: int = 0,
    least: int = 1,
) -> None:
    """Interrupt ``act`` at each place, and look at the sum of what went in and came out."""
    faults: list[object] = []

    def run(interrupt: InterruptAt) -> None:
        traffic = Traffic(capacity, ready)
        prepare(traffic)
        try:
            with interrupt:
                act(traffic)
        except (Interrupted, WouldBlock, ChannelClosed, TimeoutError, StopIteration):
            pass
        faults.extend((interrupt.where, fault) for fault in traffic.faults())

    places = each_place(run)
    assert faults == []
    assert places >= least


nothing = Traffic._waiting


def receivers_wait(traffic: Traffic) -> None:
    for count in (1, 2):
        traffic.other(traffic.receive)
        traffic.wait_for(count)


def senders_wait(traffic: Traffic) -> None:
    for count in (1, 2):
        traffic.other(traffic.send, f"waiting {count}")
        traffic.wait_for(count)


# Sending


@CAPACITIES
def test_sending_without_a_wait_to_nobody(capacity: float) -> None:
    check(capacity, nothing, lambda traffic: traffic.send_nowait("item"))


@CAPACITIES
def test_sending_without_a_wait_to_those_who_wait(capacity: float) -> None:
    check(capacity, receivers_wait, lambda traffic: traffic.send_nowait("item"), least=3)


def test_sending_without_a_wait_behind_those_who_wait_for_room() -> None:
    check(2, senders_wait, lambda traffic: traffic.send_nowait("item"), ready=2)


@CAPACITIES
@pytest.mark.parametrize("timeout", [None, PATIENCE])
def test_sending_to_those_who_wait(capacity: float, timeout: float | None) -> None:
    check(capacity, receivers_wait, lambda traffic: traffic.send("item", timeout), least=3)


@LIMITED
def test_sending_that_waits_until_somebody_takes_it(capacity: int) -> None:
    def prepare(traffic: Traffic) -> None:
        traffic.once_waiting(1, traffic.receive, PATIENCE)

    check(capacity, prepare, lambda traffic: traffic.send("item"), ready=capacity, least=20)


@LIMITED
def test_sending_that_waits_behind_others(capacity: int) -> None:
    def prepare(traffic: Traffic) -> None:
        senders_wait(traffic)

        def take_all() -> None:
            for _ in range(3 + capacity):
                traffic.receive(0.02)

        traffic.once_waiting(3, take_all)

    check(capacity, prepare, lambda traffic: traffic.send("item"), ready=capacity, least=20)


@LIMITED
def test_sending_that_runs_out_of_time(capacity: int) -> None:
    check(capacity, nothing, lambda traffic: traffic.send("item", 0.0005), ready=capacity, least=20)


@LIMITED
def test_sending_that_meets_the_end(capacity: int) -> None:
    def prepare(traffic: Traffic) -> None:
        traffic.once_waiting(1, traffic.channel.close)

    check(capacity, prepare, lambda traffic: traffic.send("item"), ready=capacity, least=20)


# Receiving

WAYS = pytest.mark.parametrize("way", ["receive", "receive_nowait", "next"])


@WAYS
@pytest.mark.parametrize("capacity", [NO_DEADLINE, 2])
def test_receiving_what_is_there(capacity: float, way: str) -> None:
    def act(traffic: Traffic) -> None:
        getattr(traffic, way)()
        getattr(traffic, way)()

    check(capacity, nothing, act, ready=2, least=0)


@WAYS
@LIMITED
def test_receiving_from_senders_who_wait(capacity: int, way: str) -> None:
    def act(traffic: Traffic) -> None:
        getattr(traffic, way)()
        getattr(traffic, way)()

    check(capacity, senders_wait, act, ready=capacity, least=5)


@CAPACITIES
@pytest.mark.parametrize("way", ["next", "receive in time"])
@pytest.mark.parametrize("blocking", [False, True])
def test_receiving_that_waits_for_a_sender(capacity: float, way: str, *, blocking: bool) -> None:
    def prepare(traffic: Traffic) -> None:
        send = traffic.send if blocking else traffic.send_nowait
        traffic.once_waiting(1, send, "item")

    def act(traffic: Traffic) -> None:
        traffic.next() if way == "next" else traffic.receive(PATIENCE)

    check(capacity, prepare, act, least=10)


@CAPACITIES
def test_receiving_beside_others_who_wait(capacity: float) -> None:
    def prepare(traffic: Traffic) -> None:
        receivers_wait(traffic)

        def send_all() -> None:
            for number in range(4):
                traffic.send(f"item {number}")

        traffic.once_waiting(3, send_all)

    check(capacity, prepare, lambda traffic: traffic.receive(), least=3)


@CAPACITIES
def test_receiving_that_runs_out_of_time_or_meets_the_end(capacity: float) -> None:
    check(capacity, nothing, lambda traffic: traffic.receive(0.0005), least=10)

    def prepare(traffic: Traffic) -> None:
        traffic.once_waiting(1, traffic.channel.close)

    check(capacity, prepare, Traffic.next, least=10)


# The end


@CAPACITIES
@pytest.mark.parametrize("who", [receivers_wait, senders_wait])
def test_closing_while_others_wait(capacity: float, who: Callable[[Traffic], None]) -> None:
    """Interrupted, it has closed the channel, or a second call does."""
    if who is senders_wait and capacity == NO_DEADLINE:
        return
    faults: list[object] = []

    def run(interrupt: InterruptAt) -> None:
        traffic = Traffic(capacity, int(capacity) if who is senders_wait else 0)
        who(traffic)
        try:
            with interrupt:
                traffic.channel.close()
        except Interrupted:
            traffic.channel.close()
        faults.extend((interrupt.where, fault) for fault in traffic.faults())

    assert each_place(run) >= 5
    assert faults == []


# In a loop


@CAPACITIES
def test_sending_and_receiving_in_a_loop(capacity: float) -> None:
    """What runs for both tasks is interrupted; not their loop, which would not run on."""
    faults: list[object] = []

    def run(interrupt: InterruptAt) -> None:
        traffic = Traffic(capacity)

        async def send() -> None:
            for number in range(3):
                try:
                    await traffic.send_async(number)
                except Interrupted:
                    pass
            try:
                traffic.channel.close()
            except Interrupted:
                traffic.channel.close()

        async def receive() -> None:
            while True:
                try:
                    traffic.received.append(await traffic.channel.receive_async())
                except Interrupted:
                    pass
                except ChannelClosed:
                    return

        async def main() -> None:
            async with asyncio.timeout(PATIENCE):
                with interrupt:
                    await asyncio.gather(receive(), send())

        asyncio.run(main())
        faults.extend((interrupt.where, fault) for fault in traffic.faults())

    assert each_place(run, but=("_fire_all", "fire")) >= 20
    assert faults == []

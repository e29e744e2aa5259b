"""An interrupt at every place of select, merge and timers: nothing is taken, nothing is lost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    CLOSED,
    CancellationToken,
    Channel,
    ConstantBackOff,
    Ticker,
    WouldBlock,
    merge,
    select,
    select_async,
)
from tests.channels.traffic import NO_DEADLINE, Traffic
from tests.helpers import PATIENCE, eventually, in_thread
from tests.stress.places import InterruptAt, Interrupted, each_place

if TYPE_CHECKING:
    from collections.abc import Callable

CAPACITIES = pytest.mark.parametrize("capacity", [2, 0])
HOUR = 3600.0


def select_from(traffics: list[Traffic], timeout: float | None = None) -> None:
    source, item = select(*[traffic.channel for traffic in traffics], timeout=timeout)
    if item is not CLOSED:
        next(t for t in traffics if t.channel is source).received.append(item)


def check_select(
    capacity: float,
    prepare: Callable[[list[Traffic]], object],
    *,
    ready: int = 0,
    timeout: float | None = PATIENCE,
    least: int = 10,
) -> None:
    """Interrupt a ``select`` from two channels at each place, and look at the sum of both."""
    faults: list[object] = []

    def run(interrupt: InterruptAt) -> None:
        traffics = [Traffic(capacity, ready), Traffic(capacity)]
        prepare(traffics)
        try:
            with interrupt:
                select_from(traffics, timeout)
        except (Interrupted, TimeoutError):
            pass
        for traffic in traffics:
            faults.extend((interrupt.where, fault) for fault in traffic.faults())

    assert each_place(run) >= least
    assert faults == []


@pytest.mark.parametrize("capacity", [NO_DEADLINE, 2])
def test_selecting_what_is_there(capacity: float) -> None:
    check_select(capacity, lambda _: None, ready=2)


@pytest.mark.parametrize("capacity", [2, 0])
def test_selecting_from_senders_who_wait(capacity: int) -> None:
    def prepare(traffics: list[Traffic]) -> None:
        traffics[0].other(traffics[0].send, "waiting")
        traffics[0].wait_for(1)

    check_select(capacity, prepare, ready=capacity)


@CAPACITIES
def test_selecting_from_one_that_gets_an_item(capacity: float) -> None:
    check_select(capacity, lambda ts: ts[1].once_waiting(1, ts[1].send_nowait, "item"))


@CAPACITIES
def test_selecting_when_all_get_items_at_once(capacity: float) -> None:
    """The wake-ups of those that are not chosen, or of all, go on to the others who wait."""

    def prepare(traffics: list[Traffic]) -> None:
        def send_to_all() -> None:
            for traffic in traffics:
                try:
                    traffic.send_nowait("item")
                except WouldBlock:
                    pass  # the rendezvous is over

        traffics[0].once_waiting(1, send_to_all)

    check_select(capacity, prepare)


@CAPACITIES
def test_selecting_before_another_receiver(capacity: float) -> None:
    """Whoever comes after an interrupted ``select`` gets the item that it was woken for."""

    def prepare(traffics: list[Traffic]) -> None:
        def send_behind() -> None:
            receiver = traffics[0].other(traffics[0].receive)
            eventually(lambda: traffics[0]._waiting() == 2 or receiver.done(), "it waits")
            traffics[0].send_nowait("item")

        traffics[0].once_waiting(1, send_behind)

    def run(interrupt: InterruptAt) -> None:
        traffics = [Traffic(capacity), Traffic(capacity)]
        prepare(traffics)
        try:
            with interrupt:
                select_from(traffics, 0.005)
        except (Interrupted, TimeoutError):
            pass
        for traffic in traffics:
            faults.extend((interrupt.where, fault) for fault in traffic.faults())

    faults: list[object] = []
    assert each_place(run) >= 10
    assert faults == []


@CAPACITIES
def test_selecting_that_runs_out_of_time_or_meets_an_end(capacity: float) -> None:
    check_select(capacity, lambda _: None, timeout=0.0005)
    check_select(capacity, lambda ts: ts[0].once_waiting(1, ts[0].channel.close))


@pytest.mark.parametrize("delay", [0.0, 0.001])
def test_selecting_from_a_ticker_loses_no_tick(delay: float) -> None:
    lost: list[object] = []

    def run(interrupt: InterruptAt) -> None:
        ticker = Ticker(ConstantBackOff(delay), token=CancellationToken())
        taken: list[int] = []
        try:
            with interrupt:
                for _ in range(2):
                    taken.append(select(ticker, Channel(), timeout=PATIENCE)[1].number)
        except Interrupted:
            pass
        taken.append(in_thread(ticker.receive, PATIENCE).result(PATIENCE).number)
        if taken != list(range(1, len(taken) + 1)):
            lost.append((interrupt.where, taken))

    assert each_place(run) >= 20
    assert lost == []


def test_merging_gives_each_item_and_each_end_once() -> None:
    wrong: list[object] = []

    def run(interrupt: InterruptAt) -> None:
        channels: list[Channel[int]] = [Channel(2), Channel(1)]
        token = CancellationToken()
        token.cancel("cause")
        for number, channel in enumerate(channels):
            channel.send_nowait(number)
            channel.close()
        merged = merge(*channels, token)
        got: list[Any] = []
        while True:
            try:
                with interrupt:
                    got.append(next(merged))
            except Interrupted:
                pass
            except StopIteration:
                break
        expected = [(channels[0], 0), (channels[0], CLOSED), (channels[1], 1)]
        expected += [(channels[1], CLOSED), (token, "cause")]
        if sorted(got, key=repr) != sorted(expected, key=repr):
            wrong.append((interrupt.where, got))

    assert each_place(run) >= 20
    assert wrong == []


def test_merging_gives_the_one_end_that_there_is() -> None:
    lost: list[object] = []

    def run(interrupt: InterruptAt) -> None:
        channel: Channel[int] = Channel()
        channel.close()
        merged = merge(channel)
        try:
            with interrupt:
                assert next(merged) == (channel, CLOSED)
        except Interrupted:
            if next(merged, None) != (channel, CLOSED):
                lost.append(interrupt.where)
        assert list(merged) == []

    assert each_place(run) >= 5
    assert lost == []


def test_selecting_in_a_loop() -> None:
    faults: list[object] = []

    def run(interrupt: InterruptAt) -> None:
        traffics = [Traffic(2), Traffic(0)]

        async def send(traffic: Traffic) -> None:
            for number in range(1):
                try:
                    await traffic.send_async(number)
                except Interrupted:
                    pass

        async def main() -> None:
            channels = [traffic.channel for traffic in traffics]
            sending = [asyncio.create_task(send(traffic)) for traffic in traffics]
            end = asyncio.get_running_loop().time() + PATIENCE
            while not all(task.done() for task in sending):
                assert asyncio.get_running_loop().time() < end
                try:
                    source, item = await select_async(*channels, timeout=0.002)
                    traffics[channels.index(source)].received.append(item)
                except (Interrupted, TimeoutError):
                    pass

        with interrupt:
            asyncio.run(main())
        for traffic in traffics:
            faults.extend((interrupt.where, fault) for fault in traffic.faults())

    assert each_place(run, but=("_fire_all", "fire", "_fire")) >= 20
    assert faults == []

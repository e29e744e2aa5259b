"""An interrupt at every place of channels and ``select``: nothing is taken, nothing is lost."""

from __future__ import annotations

import asyncio
import ctypes
import math
import signal
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    CLOSED,
    CancellationToken,
    Channel,
    ChannelClosed,
    ConstantBackOff,
    Ticker,
    Timer,
    WouldBlock,
    merge,
    select,
    select_async,
)
from backoff_ticker.channels._buffer import PendingSend
from backoff_ticker.channels._select import _Selection
from tests.channels.ends import drained
from tests.channels.traffic import NO_DEADLINE, Traffic
from tests.helpers import PATIENCE, eventually, in_thread
from tests.stress.places import InterruptAt, Interrupted, each_place

if TYPE_CHECKING:
    from collections.abc import Callable

    from backoff_ticker.testing import VirtualClock

CAPACITIES = pytest.mark.parametrize("capacity", [NO_DEADLINE, 2, 0])


LIMITED = pytest.mark.parametrize("capacity", [2, 0])


def check_channel(
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
    check_channel(capacity, nothing, lambda traffic: traffic.send_nowait("item"))


@CAPACITIES
def test_sending_without_a_wait_to_those_who_wait(capacity: float) -> None:
    check_channel(capacity, receivers_wait, lambda traffic: traffic.send_nowait("item"), least=3)


def test_sending_without_a_wait_behind_those_who_wait_for_room() -> None:
    check_channel(2, senders_wait, lambda traffic: traffic.send_nowait("item"), ready=2)


@CAPACITIES
@pytest.mark.parametrize("timeout", [None, PATIENCE])
def test_sending_to_those_who_wait(capacity: float, timeout: float | None) -> None:
    check_channel(capacity, receivers_wait, lambda traffic: traffic.send("item", timeout), least=3)


@LIMITED
def test_sending_that_waits_until_somebody_takes_it(capacity: int) -> None:
    def prepare(traffic: Traffic) -> None:
        traffic.once_waiting(1, traffic.receive, PATIENCE)

    check_channel(capacity, prepare, lambda traffic: traffic.send("item"), ready=capacity, least=20)


@LIMITED
def test_sending_that_waits_behind_others(capacity: int) -> None:
    def prepare(traffic: Traffic) -> None:
        senders_wait(traffic)

        def take_all() -> None:
            for _ in range(3 + capacity):
                traffic.receive(0.02)

        traffic.once_waiting(3, take_all)

    check_channel(capacity, prepare, lambda traffic: traffic.send("item"), ready=capacity, least=20)


@LIMITED
def test_sending_that_runs_out_of_time(capacity: int) -> None:
    check_channel(
        capacity, nothing, lambda traffic: traffic.send("item", 0.0005), ready=capacity, least=20
    )


@LIMITED
def test_sending_that_meets_the_end(capacity: int) -> None:
    def prepare(traffic: Traffic) -> None:
        traffic.once_waiting(1, traffic.channel.close)

    check_channel(capacity, prepare, lambda traffic: traffic.send("item"), ready=capacity, least=20)


# Receiving


WAYS = pytest.mark.parametrize("way", ["receive", "receive_nowait", "next"])


@WAYS
@pytest.mark.parametrize("capacity", [NO_DEADLINE, 2])
def test_receiving_what_is_there(capacity: float, way: str) -> None:
    def act(traffic: Traffic) -> None:
        getattr(traffic, way)()
        getattr(traffic, way)()

    check_channel(capacity, nothing, act, ready=2, least=0)


@WAYS
@LIMITED
def test_receiving_from_senders_who_wait(capacity: int, way: str) -> None:
    def act(traffic: Traffic) -> None:
        getattr(traffic, way)()
        getattr(traffic, way)()

    check_channel(capacity, senders_wait, act, ready=capacity, least=5)


@CAPACITIES
@pytest.mark.parametrize("way", ["next", "receive in time"])
@pytest.mark.parametrize("blocking", [False, True])
def test_receiving_that_waits_for_a_sender(capacity: float, way: str, *, blocking: bool) -> None:
    def prepare(traffic: Traffic) -> None:
        send = traffic.send if blocking else traffic.send_nowait
        traffic.once_waiting(1, send, "item")

    def act(traffic: Traffic) -> None:
        traffic.next() if way == "next" else traffic.receive(PATIENCE)

    check_channel(capacity, prepare, act, least=10)


@CAPACITIES
def test_receiving_beside_others_who_wait(capacity: float) -> None:
    def prepare(traffic: Traffic) -> None:
        receivers_wait(traffic)

        def send_all() -> None:
            for number in range(4):
                traffic.send(f"item {number}")

        traffic.once_waiting(3, send_all)

    check_channel(capacity, prepare, lambda traffic: traffic.receive(), least=3)


@CAPACITIES
def test_receiving_that_runs_out_of_time_or_meets_the_end(capacity: float) -> None:
    check_channel(capacity, nothing, lambda traffic: traffic.receive(0.0005), least=10)

    def prepare(traffic: Traffic) -> None:
        traffic.once_waiting(1, traffic.channel.close)

    check_channel(capacity, prepare, Traffic.next, least=10)


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


@LIMITED
def test_selecting_from_one_that_gets_an_item(capacity: float) -> None:
    check_select(capacity, lambda ts: ts[1].once_waiting(1, ts[1].send_nowait, "item"))


@LIMITED
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


@LIMITED
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


@LIMITED
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


def interrupted_once_taken(
    *sources: Any,
    news: Any,
    clock: VirtualClock,
    patch: pytest.MonkeyPatch,
    meanwhile: Callable[[], object] = int,
) -> None:
    """Select in a thread; it is interrupted_once_taken once it has taken what ``news`` brings.

    In between, ``meanwhile`` is called.
    """

    def interrupt(*_: object) -> None:
        patch.undo()
        meanwhile()
        raise KeyboardInterrupt

    def run() -> None:
        with pytest.raises(KeyboardInterrupt):
            select(*sources)

    patch.setattr(_Selection, "pass_on_wakeups", interrupt)
    selecting = in_thread(run)
    clock.settle()
    news()
    assert selecting.result(20) is None


def test_an_end_is_no_item_to_give_back(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel: Channel[Any] = Channel()
    interrupted_once_taken(channel, news=channel.close, clock=clock, patch=monkeypatch)
    assert list(channel) == []


@pytest.mark.parametrize("capacity", [0, 1, math.inf])
def test_an_item_is_given_back_once_though_its_channel_was_named_twice(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch, capacity: float
) -> None:
    channel: Channel[str] = Channel(capacity)
    interrupted_once_taken(
        channel,
        channel,
        news=lambda: channel.send_nowait("a"),
        clock=clock,
        patch=monkeypatch,
    )
    assert drained(channel) == ["a"]


def test_the_time_of_a_timer_is_given_back(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    timer = Timer(clock=clock)
    timer.start(5)
    interrupted_once_taken(
        timer, Channel(), news=lambda: clock.advance(5), clock=clock, patch=monkeypatch
    )
    assert timer.c.receive_nowait() == clock.time()
    assert len(timer.c) == 0


@pytest.mark.parametrize("act", ["start", "stop"])
def test_the_time_of_a_start_that_is_over_is_not_given_back(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    timer = Timer(clock=clock)
    timer.start(5)
    interrupted_once_taken(
        timer,
        Channel(),
        news=lambda: clock.advance(5),
        clock=clock,
        patch=monkeypatch,
        meanwhile=(lambda: timer.start(60)) if act == "start" else timer.stop,
    )
    with pytest.raises(WouldBlock):
        timer.c.receive_nowait()
    clock.advance(60)
    assert drained(timer.c) == ([clock.time()] if act == "start" else [])


def test_no_room_is_lost_between_two_senders_that_are_let_in() -> None:
    """A signal falls just as the second permit is taken."""
    channel: Channel[str] = Channel(2)
    channel.send_nowait("taken")
    channel.send_nowait("taken")
    for item in ("a", "b"):
        channel._buffer.line_up(PendingSend(item))
    # As two receivers leave it that are about to let somebody in.
    channel._buffer.items.clear()
    channel._buffer.room += [None]
    raise_in_c = ctypes.PyDLL(None)["raise"]
    channel._buffer._unused = map(raise_in_c, [signal.SIGINT])  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        channel._buffer.admit_pending()
    assert drained(channel) == ["a", "b"]
    channel.send_nowait("c")
    channel.send_nowait("d")
    with pytest.raises(WouldBlock):
        channel.send_nowait("e")


def test_a_sender_let_in_before_a_handler_closed_the_channel_was_let_in(
    clock: VirtualClock,
) -> None:
    """The handler closes and raises as the item of a blocked sender has been accepted."""
    channel: Channel[str] = Channel(1)
    channel.send_nowait("a")
    sending = in_thread(channel.send, "b")
    clock.settle()
    append = channel._buffer.accept

    def interrupt_after(item: str) -> None:
        append(item)
        channel.close()
        raise KeyboardInterrupt

    channel._buffer.accept = interrupt_after
    with pytest.raises(KeyboardInterrupt):
        channel.receive_nowait()
    assert sending.result(20) is None
    assert list(channel) == ["a", "b"]

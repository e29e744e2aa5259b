"""send_nowait, receive_nowait and close in signal handlers: nothing is lost, nobody hangs."""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from backoff_ticker import (
    CLOSED,
    Channel,
    ChannelClosed,
    WouldBlock,
    select,
    select_async,
)
from tests.channels.traffic import NO_DEADLINE, Traffic
from tests.helpers import PATIENCE
from tests.stress.places import each_place
from tests.stress.tools import run_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


CAPACITIES = pytest.mark.parametrize("capacity", [NO_DEADLINE, 2, 0])


# A handler at every place, in turn


DOES = ["send", "receive", "close", "send and close", "close and raise"]


@CAPACITIES
@pytest.mark.parametrize("does", DOES)
@pytest.mark.parametrize("act", ["send", "receive", "close"])
@pytest.mark.parametrize("others", ["receivers", "senders"])
def test_a_handler_at_every_place(capacity, does, act, others):
    if others == "senders" and capacity == NO_DEADLINE:
        return
    faults: list[object] = []

    def run(interrupt):
        ready = int(capacity) if others == "senders" else 0
        traffic = Traffic(capacity, ready)
        for count in (1, 2):
            if others == "receivers":
                traffic.other(traffic.receive)
            else:
                traffic.other(traffic.send, f"waiting {count}")
            traffic.wait_for(count)
        interrupt.handler = traffic.handler(does)
        try:
            with interrupt:
                if act == "send":
                    traffic.send("item", 0.0005)
                elif act == "receive":
                    traffic.receive(0.0005)
                else:
                    traffic.channel.close()
        except (WouldBlock, ChannelClosed, TimeoutError, KeyboardInterrupt):
            pass
        faults.extend((interrupt.where, fault) for fault in traffic.faults())

    each_place(run)
    assert faults == []


# Real signals


@contextmanager
def on_alarm(act: Callable[[], object], seconds: float = 0.01) -> Iterator[None]:
    """Call ``act`` in a signal handler after so long, and again while nobody waits for it yet."""

    def handle(*_: object) -> None:
        try:
            act()
        except WouldBlock:
            signal.setitimer(signal.ITIMER_REAL, seconds)

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@CAPACITIES
def test_a_handler_ends_the_wait_it_interrupts(capacity):
    channel: Channel[str] = Channel(capacity)
    for wait in (channel.receive, lambda timeout: select(channel, timeout=timeout)[1]):
        with on_alarm(lambda: channel.send_nowait("item")):
            assert wait(PATIENCE) == "item"
    if capacity != NO_DEADLINE:
        for _ in range(int(capacity)):
            channel.send_nowait("filler")
        with on_alarm(channel.receive_nowait):
            channel.send("let in", PATIENCE)
        with on_alarm(channel.close), pytest.raises(ChannelClosed):
            channel.send("refused", PATIENCE)
        assert list(channel).count("let in") == min(capacity, 1)
    with on_alarm(channel.close):
        assert list(channel) == []
    other: Channel[str] = Channel()
    with on_alarm(other.close):
        assert select(other, Channel(), timeout=PATIENCE) == (other, CLOSED)


@CAPACITIES
@pytest.mark.parametrize("does", ["send", "close", "receive"])
def test_a_handler_wakes_a_coroutine_whose_loop_sleeps(capacity, does):
    """The loop is in its ``select`` call and runs no task."""
    if does == "receive" and capacity == NO_DEADLINE:
        return

    async def main():
        channel: Channel[str] = Channel(capacity)
        loop = asyncio.get_running_loop()
        acted: list[float] = []
        sends = does == "receive"
        for _ in range(int(capacity) if sends else 0):
            channel.send_nowait("filler")

        def act():
            acted[:] = [loop.time()]
            if does == "send":
                channel.send_nowait("item")
            elif does == "close":
                channel.close()
            else:
                channel.receive_nowait()

        limit = 2 * PATIENCE
        waits = channel.send_async("item", limit) if sends else select_async(channel, timeout=limit)
        with on_alarm(act, 0.02):
            got = await waits
        assert got == {"send": (channel, "item"), "close": (channel, CLOSED)}.get(does)
        return loop.time() - acted[0]

    assert run_loop(main()) < PATIENCE

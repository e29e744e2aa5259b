"""Signal handlers that use channels, or raise, at every place: nothing is lost, nobody hangs."""

import asyncio
import signal
from contextlib import contextmanager, suppress
from math import inf

import pytest

from backoff_ticker import CLOSED, Channel, ChannelClosed, WouldBlock, select, select_async
from tests.channels.traffic import CAPACITIES, Traffic
from tests.helpers import PATIENCE, slow
from tests.stress.places import check_each_place
from tests.stress.tools import run_loop

HANDLERS = ["send", "receive", "close and raise", slow("close"), slow("send and close")]
WAITING = [("receivers_wait", capacity) for capacity in (inf, 2, 0)]
WAITING += [("senders_wait", capacity) for capacity in (2, 0)]


@pytest.mark.parametrize(("who", "capacity"), WAITING)
@pytest.mark.parametrize("does", HANDLERS)
@pytest.mark.parametrize("act", ["send", "receive", "close"])
def test_a_handler_at_every_place(who, capacity, does, act):
    def run(interrupt):
        traffic = Traffic(capacity, int(capacity) if who == "senders_wait" else 0)
        getattr(traffic, who)()
        interrupt.handler = traffic.handler(does)
        with suppress(KeyboardInterrupt), interrupt:
            if act == "send":
                traffic.send("item", 0.0005)
            elif act == "receive":
                traffic.receive(0.0005)
            else:
                traffic.close()
        return traffic.faults()

    check_each_place(run, at_least=0)


@contextmanager
def on_alarm(act):
    """Call ``act`` in a signal handler after so long, and again while nobody waits for it yet."""

    def handle(*_):
        try:
            act()
        except WouldBlock:
            signal.setitimer(signal.ITIMER_REAL, 0.01)

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@CAPACITIES
def test_a_handler_ends_the_wait_it_interrupts(capacity):
    channel = Channel(capacity)
    for wait in (channel.receive, lambda timeout: select(channel, timeout=timeout)[1]):
        with on_alarm(lambda: channel.send_nowait("item")):
            assert wait(PATIENCE) == "item"
    if capacity != inf:
        for _ in range(int(capacity)):
            channel.send_nowait("filler")
        with on_alarm(channel.receive_nowait):
            channel.send("let in", PATIENCE)
        with on_alarm(channel.close), pytest.raises(ChannelClosed):
            channel.send("refused", PATIENCE)
        assert list(channel).count("let in") == min(capacity, 1)
    with on_alarm(channel.close):
        assert list(channel) == []
    other = Channel()
    with on_alarm(other.close):
        assert select(other, Channel(), timeout=PATIENCE) == (other, CLOSED)


def send_item(channel):
    channel.send_nowait("item")


@CAPACITIES
@pytest.mark.parametrize("does", [send_item, Channel.close, Channel.receive_nowait])
def test_a_handler_wakes_a_coroutine_whose_loop_sleeps(capacity, does):
    """The loop is in its ``select`` call and runs no task."""
    channel = Channel(capacity)
    limit = 2 * PATIENCE
    if does is not Channel.receive_nowait:
        wait = select_async(channel, timeout=limit)
        expected = channel, ("item" if does is send_item else CLOSED)
    elif capacity == inf:
        return
    else:
        for _ in range(int(capacity)):
            channel.send_nowait("filler")
        wait, expected = channel.send_async("item", limit), None

    async def main():
        acted = []
        now = asyncio.get_running_loop().time
        with on_alarm(lambda: acted.append(now()) or does(channel)):
            assert await wait == expected
        return now() - acted[-1]

    assert run_loop(main()) < PATIENCE

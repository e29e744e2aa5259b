"""Channels, tokens and tickers in finalizers, channels in forked children: no hang, no loss."""

from __future__ import annotations

import weakref

import pytest

from backoff_ticker import (
    CancellationToken,
    Channel,
    ChannelClosed,
    Ticker,
    WouldBlock,
    ZeroBackOff,
    select,
)
from tests.channels.traffic import CAPACITIES, Traffic
from tests.helpers import PATIENCE, collect_garbage, eventually, in_thread
from tests.stress.tools import Finalized, gc_threshold, run_silently


@pytest.mark.parametrize("threshold", [1, 5])
@CAPACITIES
def test_finalizers_use_channels_tokens_and_tickers_wherever_a_collection_runs(capacity, threshold):
    def one_round():
        traffic = Traffic(capacity)
        closing: Channel[int] = Channel(1)
        token, called = CancellationToken(), []
        child = token.child(timeout=3600)
        child.on_cancel(lambda: called.append(1))
        ticker = Ticker(ZeroBackOff(), token=token)
        Finalized(traffic.handler("send"))
        Finalized(token.cancel)
        weakref.finalize(Finalized(int), token.child().cancel)
        Finalized(ticker.stop)
        weakref.finalize(Finalized(traffic.handler("receive")), closing.close)
        for number in range(3):
            next(ticker, None)
            try:
                traffic.send(number, 0)
                traffic.receive_nowait()
                select(traffic.channel, closing, child, timeout=0)
                traffic.receive(0)
            except (TimeoutError, WouldBlock, ChannelClosed):
                pass
        collect_garbage()
        traffic.channel.close()
        eventually(lambda: closing.closed and called)  # another thread may run the finalizers
        token.cancel()
        assert called == [1]

    with gc_threshold(threshold):
        for _ in range(15):
            in_thread(one_round).result(PATIENCE)


def test_a_child_uses_its_copy_of_channels_on_which_threads_wait():
    """It has neither the receivers nor the senders of its parent."""
    run_silently(
        """
from tests.helpers import pending_sends_of, waiters_of
inf = float("inf")
channels = [Channel(inf), Channel(2), Channel()]
full = Channel(1); full.send_nowait("kept")
heard = []
started = [thread for channel in channels
           for thread in threads(3, lambda channel=channel: heard.extend(channel))]
started += threads(2, lambda: full.send("of the parent"))
started += threads(1, lambda: select(*channels))
timer = Timer(clock=SystemClock()); timer.start(0.3)
waiting = lambda channel: waiters_of(channel._buffer)
while len(waiting(channels[2])) < 4 or len(pending_sends_of(full)) < 2: time.sleep(0.001)

def in_child():
    for send in lambda: channels[2].send_nowait(0), lambda: channels[2].send(0, 0.01):
        try: send()
        except (WouldBlock, TimeoutError): pass
        else: raise AssertionError("accepted")
    assert full.receive(10) == "kept"
    try: assert full.receive_nowait() is None
    except WouldBlock: pass
    for channel in channels:
        own = threads(1, lambda: channel.receive(10))
        while not any(waiter.generation for waiter in waiting(channel)): time.sleep(0.001)
        channel.send("item", 10)
        own[0].join(10); assert not own[0].is_alive()
    sent = []
    own = threads(1, lambda: sent.append(select(*channels, timeout=10)))
    while not any(waiter.generation for waiter in waiting(channels[2])): time.sleep(0.001)
    channels[2].send("selected", 10)
    own[0].join(10); assert sent == [(channels[2], "selected")], sent
    own = []
    for channel in channels: own += threads(2, lambda channel=channel: list(channel))
    time.sleep(0.01)
    for channel in channels: channel.close()
    for thread in own: thread.join(10); assert not thread.is_alive()

for _ in range(5): assert collect(fork(in_child)) == 0
for item in range(12): channels[item % 3].send(item, 10)
for channel in channels: channel.close()
assert [full.receive(10) for _ in range(3)] == ["kept", "of the parent", "of the parent"]
for thread in started: thread.join(10); assert not thread.is_alive()
assert set(heard) <= set(range(12)) and len(heard) >= 11, heard
"""
    )


@pytest.mark.slow
def test_timers_and_tickers_with_a_timer_work_in_a_child():
    """Made before the fork, and not used, or with a delay that runs. No reader has a time limit."""
    run_silently(
        """
class Fake:
    def __init__(self): self.c = Channel(1)
    def start(self, delay):
        threading.Thread(target=lambda: (time.sleep(delay), self.c.send_nowait(5.0))).start()
    def stop(self): pass
old = Timer(clock=SystemClock()); old.start(0.2)
tickers = [
    kind(ConstantBackOff(0.05), timer=timer, pace=pace)
    for kind in (Ticker, AsyncTicker)
    for pace in Pace
    for timer in (Timer(clock=SystemClock()), Fake())
]
begun = tickers[1::3]
for ticker in begun:
    assert ticker.receive_nowait().number == 1
    try: ticker.receive_nowait()
    except WouldBlock: pass
def read(ticker):
    if isinstance(ticker, Ticker): return ticker.receive().number
    return asyncio.run(ticker.receive()).number
def child():
    timer = Timer(clock=SystemClock())
    for _ in range(3):
        timer.start(0.001); assert timer.c.receive(10) > 0
    timer.start(0); assert select(Channel(), timer, timeout=10)[0] is timer
    old.start(0.001); assert old.c.receive(10) > 0
    ticks = Channel(float("inf"))
    Ticker(ConstantBackOff(0.001), timer=timer).send_to(ticks)
    assert [ticks.receive(10).number for _ in range(3)] == [1, 2, 3]
    for ticker in tickers:
        assert [read(ticker) for _ in range(3)] == ([2, 3, 4] if ticker in begun else [1, 2, 3])
for _ in range(2): assert collect(fork(child)) == 0
assert old.c.receive(10) > 0
for ticker in tickers: assert read(ticker) == (2 if ticker in begun else 1)
"""
    )

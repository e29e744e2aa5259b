"""Who sends: what keeps a ticker alive, several senders and readers, wrong sinks."""

from __future__ import annotations

import asyncio
import gc
import queue
import weakref
from typing import TYPE_CHECKING, Any

import janus
import pytest

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    ConstantBackOff,
    Ticker,
    WouldBlock,
    with_token,
)
from tests.helpers import PATIENCE, in_thread, wait_until_collected
from tests.tickers.made_policies import Blocking, Scripted, first_done
from tests.tickers.test_forwarding import EITHER, ShutdownSink, Sink

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock


def test_stopping_the_handle_before_the_first_delay_is_over_leaves_no_timer(
    clock: VirtualClock,
) -> None:
    handle = Ticker(ConstantBackOff(3600), clock=clock).send_to(Sink())
    clock.settle()
    assert [timer.when for timer in clock.pending()] == [4600]
    handle.stop()
    clock.settle()
    assert len(clock.pending()) == 0


@EITHER
def test_stopping_the_ticker_before_the_first_delay_is_over_leaves_no_timer(
    clock: VirtualClock, kind: Any
) -> None:
    ticker = kind(ConstantBackOff(3600), clock=clock)
    ticker.send_to(Sink())
    clock.settle()
    assert [timer.when for timer in clock.pending()] == [4600]
    ticker.stop()
    clock.settle()
    assert len(clock.pending()) == 0


@EITHER
def test_sending_keeps_the_ticker_alive_until_it_is_stopped(clock: VirtualClock, kind: Any) -> None:
    sink = Sink()
    ticker = kind(ConstantBackOff(10), clock=clock)
    handle = ticker.send_to(sink)
    alive = weakref.ref(ticker)
    del ticker
    gc.collect()
    clock.advance(10)
    assert sink.numbers == [1, 2]
    assert alive() is not None
    handle.stop()
    clock.settle()
    del handle
    wait_until_collected(alive)


def test_the_handle_need_not_be_kept(clock: VirtualClock) -> None:
    sink = Sink()
    Ticker(ConstantBackOff(10), clock=clock).send_to(sink)
    gc.collect()
    clock.advance(20)
    assert sink.numbers == [1, 2, 3]


def test_a_stopped_handle_lets_go_of_its_sink(clock: VirtualClock) -> None:
    ticker = Ticker(ConstantBackOff(10), clock=clock)
    sink = Sink()
    alive = weakref.ref(sink)
    handle = ticker.send_to(sink)
    clock.advance(10)
    handle.stop()
    clock.settle()
    del handle, sink
    wait_until_collected(alive)
    assert not ticker.closed


def test_a_ticker_that_ended_is_kept_by_nobody(clock: VirtualClock) -> None:
    ticker = Ticker(ConstantBackOff(10), clock=clock)
    alive = weakref.ref(ticker)
    ticker.send_to(Sink())
    clock.settle()
    ticker.stop()
    clock.settle()
    del ticker
    wait_until_collected(alive)


@EITHER
@pytest.mark.parametrize("senders", [2, 3])
def test_of_several_sinks_each_tick_goes_to_one(
    clock: VirtualClock, kind: Any, senders: int
) -> None:
    ticker = kind(ConstantBackOff(10), clock=clock)
    sinks = [ShutdownSink() for _ in range(senders)]
    for sink in sinks:
        ticker.send_to(sink)
    clock.advance(500)
    assert sorted(number for sink in sinks for number in sink.numbers) == list(range(1, 52))
    ticker.stop()
    clock.settle()
    assert [sink.ended for sink in sinks] == [["shutdown"]] * senders
    assert len(clock.pending()) == 0


def test_one_of_two_senders_goes_on_when_the_other_stops(clock: VirtualClock) -> None:
    ticker = Ticker(ConstantBackOff(10), clock=clock)
    first, second = Sink(), Sink()
    handle = ticker.send_to(first)
    ticker.send_to(second)
    clock.advance(20)
    handle.stop()
    sent = list(first.numbers)
    clock.advance(30)
    assert first.numbers == sent
    assert sorted(first.numbers + second.numbers) == [1, 2, 3, 4, 5, 6]


def test_readers_and_senders_share_the_ticks(face: Any, clock: VirtualClock) -> None:
    ticker = face.ticker(ConstantBackOff(10), clock=clock)
    sinks = [Sink(), Sink()]
    for sink in sinks:
        ticker.send_to(sink)
    waiting = []
    for _ in range(2):
        waiting += [face.start_receive(ticker) for _ in range(3)]
        clock.advance(100)
    ticker.stop()
    read = [future.result().number for future in waiting if future.exception(PATIENCE) is None]
    sent = [number for sink in sinks for number in sink.numbers]
    total = len(read) + len(sent)
    assert sorted(read + sent) == list(range(1, total + 1))
    assert total >= 20
    assert read
    assert sent


@EITHER
def test_a_token_inside_the_policy_ends_the_sending_at_once(clock: VirtualClock, kind: Any) -> None:
    token = CancellationToken()
    sink = ShutdownSink()
    ticker = kind(with_token(ConstantBackOff(300), token), clock=clock)
    ticker.send_to(sink)
    clock.settle()
    assert (sink.numbers, sink.ended) == ([1], [])
    token.cancel()
    clock.settle()
    assert (sink.numbers, sink.ended) == ([1], ["shutdown"])
    assert len(clock.pending()) == 0


def test_a_token_of_a_policy_given_by_reset_ends_the_sending_at_once(clock: VirtualClock) -> None:
    token = CancellationToken()
    sink = ShutdownSink()
    ticker = Ticker(ConstantBackOff(300), clock=clock)
    ticker.send_to(sink)
    clock.settle()
    ticker.reset(with_token(ConstantBackOff(300), token))
    clock.settle()
    assert sink.ended == []
    token.cancel()
    clock.settle()
    assert sink.ended == ["shutdown"]


def test_a_reset_is_followed_by_a_sender(clock: VirtualClock) -> None:
    sink = Sink()
    ticker = Ticker(ConstantBackOff(100), clock=clock)
    ticker.send_to(sink)
    clock.advance(1)
    ticker.reset(ConstantBackOff(5))
    clock.advance(10)
    assert [tick.due for tick in sink.items] == [1000, 1006, 1011]


def test_a_success_is_followed_by_a_sender(clock: VirtualClock) -> None:
    sink = Sink()
    ticker = Ticker(Scripted(100.0, 5.0, 50.0), clock=clock)
    ticker.send_to(sink)
    clock.settle()
    ticker.success()
    clock.advance(5)
    assert [tick.due for tick in sink.items] == [1000, 1005]


def test_a_slow_policy_does_not_hold_up_senders_of_the_ticker_at_its_end(
    clock: VirtualClock,
) -> None:
    policy = Blocking(then=0.0)
    ticker = Ticker(policy, clock=clock)
    taking = in_thread(ticker.receive)
    clock.settle()
    assert policy.entered.is_set()
    sink = ShutdownSink()
    ticker.send_to(sink)
    clock.settle()
    assert sink.ended == []
    ticker.stop()
    clock.settle()
    assert sink.ended == ["shutdown"]
    assert not taking.done()
    policy.release.set()
    taking.exception(PATIENCE)
    clock.settle()
    assert sink.items == []


@EITHER
@pytest.mark.parametrize(
    "sink", [None, 3, "queue", object(), queue.Queue, Sink, [], {"put_nowait": 1}]
)
def test_what_is_no_sink_is_a_type_error(kind: Any, sink: Any) -> None:
    ticker = kind(ConstantBackOff(10))
    with pytest.raises(TypeError, match="sink"):
        ticker.send_to(sink)
    assert ticker.receive_nowait().number == 1


@EITHER
def test_a_queue_of_a_loop_needs_that_a_loop_runs(kind: Any) -> None:
    ticker = kind(ConstantBackOff(10))
    with pytest.raises(RuntimeError):
        ticker.send_to(asyncio.Queue())
    with pytest.raises(RuntimeError):
        ticker.send_to(janus.Queue().async_q)
    assert ticker.receive_nowait().number == 1


@pytest.mark.parametrize(
    ("maxsize", "kind"), [(-1, ValueError), ("1", TypeError), (1.0, TypeError), (True, TypeError)]
)
def test_a_wrong_maxsize_is_refused(maxsize: Any, kind: type[Exception]) -> None:
    ticker = AsyncTicker(ConstantBackOff(10))
    with pytest.raises(kind, match="maxsize"):
        ticker.queue(maxsize)
    assert ticker.receive_nowait().number == 1


def test_a_reader_that_finds_a_tick_sent_waits_for_the_next(face: Any, clock: VirtualClock) -> None:
    ticker = face.ticker(ConstantBackOff(10), clock=clock)
    sink = Sink()
    handle = ticker.send_to(sink)
    clock.settle()
    with pytest.raises(WouldBlock):
        ticker.receive_nowait()
    waiting = face.start_receive(ticker)
    clock.settle()
    handle.stop()
    clock.advance(10)
    assert first_done([waiting]).result().number == 2

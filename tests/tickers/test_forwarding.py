"""``send_to(sink)``: what is sent, what is dropped, how it ends, who else reads; loops."""

import asyncio
import queue
import threading
import weakref

import janus
import pytest

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    CloseReason,
    ConstantBackOff,
    Ticker,
    with_max_retries,
)
from tests.helpers import (
    PATIENCE,
    LoopThread,
    collect_garbage,
    in_thread,
    turns,
    wait_until_collected,
    waiters_of,
)
from tests.tickers.made_policies import Blocking, Counting, Scripted
from tests.tickers.made_timers import WatchedClock

EITHER = pytest.mark.parametrize("kind", [Ticker, AsyncTicker])


class Sink:
    """A user's sink, with what it is told to raise; notes its ends."""

    def __init__(self):
        self.items = []
        self.ended = []
        self.error = None

    def put_nowait(self, item):
        if self.error is not None:
            raise self.error
        self.items.append(item)

    def shutdown(self):
        self.ended.append("shutdown")

    def close(self):
        self.ended.append("close")

    @property
    def numbers(self):
        return [item.number for item in self.items]


class CloseSink(Sink):
    shutdown = None


def items(sink):
    return [sink.get_nowait() for _ in range(sink.qsize())]


@EITHER
@pytest.mark.parametrize("make", [queue.Queue, queue.SimpleQueue, queue.LifoQueue, Sink])
def test_ticks_are_sent_as_they_fall_due(clock, kind, make):
    sink = make()
    ticker = kind(Counting(), clock=clock)
    ticker.send_to(sink)
    for _ in range(4):
        clock.advance(0.75)
    clock.advance(3)
    ticks = sorted(sink.items if make is Sink else items(sink))
    assert [(tick.number, tick.due, tick.delay, tick.lateness) for tick in ticks] == [
        (1, 1000, 0, 0),
        (2, 1001, 1, 0),
        (3, 1003, 2, 0),
        (4, 1006, 3, 0),
    ]
    ticker.stop()
    clock.settle()
    assert len(clock.pending()) == 0


# No room


def test_a_tick_that_finds_the_sink_full_is_dropped_and_counted(clock):
    sink = queue.Queue(1)
    policy = Scripted(then=10.0)
    ticker = Ticker(policy, clock=clock)
    handle = ticker.send_to(sink)
    assert handle.dropped == 0
    for dropped in (1, 2, 3):
        clock.advance(10.0 if dropped == 1 else 10.001)
        assert handle.dropped == dropped
    assert policy.asked == 4
    assert sink.get_nowait().number == 1
    clock.advance(10.001)
    tick = sink.get_nowait()
    assert (tick.number, tick.missed, handle.dropped) == (5, 3, 3)
    clock.advance(10.001)
    tick = sink.get_nowait()
    assert (tick.number, tick.missed, handle.dropped) == (6, 0, 3)


@pytest.mark.parametrize("delay", [0.0, 1e-9, 1e-4])
def test_a_short_delay_onto_a_full_sink_waits_a_millisecond(clock, delay):
    sink = queue.Queue(1)
    handle = Ticker(ConstantBackOff(delay), clock=clock).send_to(sink)
    clock.advance(delay)
    assert handle.dropped == 1
    first = clock.monotonic()
    for pauses in range(1, 11):
        clock.advance_to(first + 0.001 * pauses - 0.0002)
        assert handle.dropped == pauses
        clock.advance_to(first + 0.001 * pauses + 0.0002)
        assert handle.dropped == pauses + 1


@pytest.mark.parametrize("name", ["Full", "QueueFull", "WouldBlock"])
def test_a_sink_of_any_kind_may_say_that_it_is_full(clock, name):
    sink = Sink()
    sink.error = type(name, (Exception,), {"__module__": "culsans"})()
    handle = Ticker(ConstantBackOff(10), clock=clock).send_to(sink)
    clock.settle()
    assert (handle.dropped, sink.ended) == (1, [])
    sink.error = None
    clock.advance(10)
    assert [(tick.number, tick.missed) for tick in sink.items] == [(2, 1)]


def test_an_error_that_only_has_such_a_name_is_an_error(clock, unraisable):
    sink = Sink()
    sink.error = type("Full", (Exception,), {})("the disk")
    ticker = Ticker(ConstantBackOff(10), clock=clock)
    handle = ticker.send_to(sink)
    clock.settle()
    assert (handle.dropped, ticker.closed) == (0, True)
    assert [shown.exc_value for shown in unraisable] == [sink.error]


# Endings


@pytest.mark.parametrize("ending", ["stop", "cancel", "exhaust"])
@pytest.mark.parametrize(("make", "told"), [(Sink, "shutdown"), (CloseSink, "close")])
def test_the_sink_is_told_once_that_nothing_more_comes(clock, ending, make, told):
    token = CancellationToken()
    sink = make()
    policy = Scripted(10.0) if ending == "exhaust" else ConstantBackOff(10)
    ticker = Ticker(policy, token=token, clock=clock)
    ticker.send_to(sink)
    clock.settle()
    assert sink.ended == []
    if ending == "exhaust":
        clock.advance(10)
    else:
        token.cancel() if ending == "cancel" else ticker.stop()
        clock.settle()
    assert sink.ended == [told]
    clock.advance(100)
    ticker.stop()
    assert sink.ended == [told]
    assert len(clock.pending()) == 0


@EITHER
@pytest.mark.parametrize("replaced", [False, True])
def test_a_token_inside_the_policy_ends_the_sending_at_once(clock, kind, replaced):
    policy, sink = Scripted(then=10.0), Sink()
    policy.token = CancellationToken()
    ticker = kind(ConstantBackOff(10) if replaced else policy, clock=clock)
    ticker.send_to(sink)
    clock.settle()
    if replaced:
        ticker.reset(policy)
    clock.advance(10)
    assert (sink.numbers, sink.ended) == ([1, 2], [])
    policy.token.cancel()
    clock.settle()
    assert (sink.ended, ticker.close_reason) == (["shutdown"], CloseReason.CANCELLED)
    clock.advance(50)
    assert sink.numbers == [1, 2]


@pytest.mark.parametrize("answer", [ValueError("oh"), SystemExit(3), KeyboardInterrupt(), "10"])
def test_an_error_of_the_policy_is_shown_and_shuts_the_sink_down(clock, unraisable, answer):
    sink = Sink()
    ticker = Ticker(Scripted(10.0, answer), clock=clock)
    ticker.send_to(sink)
    other = Sink()
    Ticker(ConstantBackOff(10), clock=clock).send_to(other)
    clock.advance(10)
    assert len(unraisable) == 1
    assert isinstance(unraisable[0].exc_value, TypeError if answer == "10" else type(answer))
    assert unraisable[0].exc_type is type(unraisable[0].exc_value)
    assert sink.ended == ["shutdown"]
    assert ticker.closed
    clock.advance(20)
    assert other.numbers == [1, 2, 3, 4]
    assert len(unraisable) == 1


def test_an_error_of_the_shutdown_is_shown(clock, unraisable):
    sink = Sink()
    sink.shutdown = lambda: 1 / 0
    Ticker(Scripted(), clock=clock).send_to(sink)
    clock.settle()
    assert [shown.exc_type for shown in unraisable] == [ZeroDivisionError]


def test_a_standard_queue_is_shut_down_where_it_can_be(clock):
    """From Python 3.13 on."""
    sink = queue.Queue()
    Ticker(Scripted(), clock=clock).send_to(sink)
    clock.settle()
    assert sink.get_nowait().number == 1
    with pytest.raises(getattr(queue, "ShutDown", queue.Empty)):
        sink.get_nowait()


@pytest.mark.parametrize("name", ["ShutDown", "QueueShutDown", "SyncQueueShutDown"])
def test_a_sink_that_was_shut_down_ends_the_sending_quietly(clock, unraisable, name):
    sink = Sink()
    ticker = Ticker(ConstantBackOff(10), clock=clock)
    ticker.send_to(sink)
    clock.settle()
    sink.error = type(name, (Exception,), {"__module__": "culsans"})()
    clock.advance(15)
    assert (unraisable, ticker.closed) == ([], False)
    assert ticker.receive_nowait().number == 2, "the sink did not take it"
    clock.advance_to(1020)
    assert ticker.receive_nowait().number == 3


# The handle


def test_stopping_the_handle_leaves_ticker_and_sink_as_they_are(clock):
    sink = Sink()
    ticker = Ticker(ConstantBackOff(10), clock=clock)
    handle = ticker.send_to(sink)
    clock.advance(10)
    handle.stop()
    handle.stop()
    clock.advance(20)
    assert (sink.numbers, sink.ended) == ([1, 2], [])
    assert not ticker.closed
    assert ticker.receive_nowait().number == 3
    assert len(clock.pending()) == 0


@pytest.mark.parametrize("end", ["the handle", "the ticker", "a cancel"])
def test_a_sending_that_ended_lets_go_of_its_ticker_and_its_sink(clock, end):
    token = CancellationToken()
    ticker, sink = Ticker(ConstantBackOff(10), token=token, clock=clock), Sink()
    gone = weakref.ref(ticker), weakref.ref(sink)
    handle = ticker.send_to(sink)
    clock.advance(10)
    if end == "a cancel":
        token.cancel()
    else:
        (handle if end == "the handle" else ticker).stop()
    clock.settle()
    assert clock.pending() == []
    del handle, sink, ticker
    wait_until_collected(*gone)


# Several senders and readers


@pytest.mark.parametrize("many", [2, 30])
def test_a_cancel_costs_its_caller_the_same_however_many_are_sent(clock, many):
    """One call into the thread that serves them wakes all; it is set twice, as one may be lost."""
    watched, token = WatchedClock(clock), CancellationToken()
    sinks = [Sink() for _ in range(many)]
    for sink in sinks:
        Ticker(ConstantBackOff(10), clock=watched, token=token).send_to(sink)
    clock.settle()
    watched.calls = 0
    token.cancel()
    assert watched.calls == 2
    clock.settle()
    assert [sink.ended for sink in sinks] == [["shutdown"]] * many
    assert waiters_of(token._wait_set()) == []


def test_readers_and_senders_share_the_ticks(face, clock):
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


def test_a_reset_is_followed_by_a_sender(clock):
    sink = Sink()
    ticker = Ticker(ConstantBackOff(100), clock=clock)
    ticker.send_to(sink)
    clock.advance(1)
    ticker.reset(ConstantBackOff(5))
    clock.advance(10)
    assert [tick.due for tick in sink.items] == [1000, 1006, 1011]


def test_a_slow_policy_does_not_hold_up_senders_of_the_ticker_at_its_end(clock):
    policy = Blocking(then=0.0)
    ticker = Ticker(policy, clock=clock)
    taking = in_thread(ticker.receive)
    clock.settle()
    assert policy.entered.is_set()
    sink = Sink()
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
def test_what_is_no_sink_is_a_type_error(kind, sink):
    ticker = kind(ConstantBackOff(10))
    with pytest.raises(TypeError, match="sink"):
        ticker.send_to(sink)
    assert ticker.receive_nowait().number == 1


@EITHER
def test_a_queue_of_a_loop_needs_that_a_loop_runs(kind):
    ticker = kind(ConstantBackOff(10))
    with pytest.raises(RuntimeError):
        ticker.send_to(asyncio.Queue())
    with pytest.raises(RuntimeError):
        ticker.send_to(janus.Queue().async_q)
    assert ticker.receive_nowait().number == 1


# Queues of janus, and those that an event loop reads


@EITHER
def test_threads_read_the_sync_side(clock, kind):
    ticker = kind(with_max_retries(ConstantBackOff(10), 2), clock=clock)
    ticks = ticker.queue()
    assert isinstance(ticks, janus.Queue)
    assert ticks.maxsize == 1
    clock.settle()
    for number in (1, 2, 3):
        assert ticks.sync_q.get(timeout=PATIENCE).number == number
        clock.advance(10)
    with pytest.raises(janus.SyncQueueShutDown):
        ticks.sync_q.get(timeout=PATIENCE)
    assert ticker.close_reason is CloseReason.EXHAUSTED


class Noting(asyncio.Queue):
    """Notes the threads in which it is used."""

    def put_nowait(self, item):
        self.threads = {*getattr(self, "threads", ()), threading.get_ident()}
        super().put_nowait(item)


@EITHER
@pytest.mark.parametrize(
    ("make", "ended"),
    [
        (Noting, getattr(asyncio, "QueueShutDown", asyncio.QueueEmpty)),  # from Python 3.13 on
        (lambda: janus.Queue().async_q, janus.AsyncQueueShutDown),
    ],
    ids=["asyncio", "janus"],
)
def test_a_queue_of_a_loop_is_served_in_that_loop_and_shut_down(loop, clock, kind, make, ended):
    ticker = kind(with_max_retries(ConstantBackOff(10), 3), clock=clock)

    async def begin():
        sink = make()
        ticker.send_to(sink)
        return sink, threading.get_ident()

    sink, ident = loop.run(begin())
    clock.settle()
    for number in (1, 2, 3, 4):
        tick = loop.run(sink.get())
        assert (tick.number, tick.due, tick.lateness) == (number, 990 + 10 * number, 0)
        clock.advance(10)
    assert ticker.close_reason is CloseReason.EXHAUSTED
    with pytest.raises(ended):
        sink.get_nowait()
    assert make is not Noting or sink.threads == {ident}


def test_the_handle_of_a_loops_queue_is_stopped_from_a_thread(loop, clock):
    ticker = Ticker(ConstantBackOff(10), clock=clock)

    async def begin():
        sink = asyncio.Queue()
        return sink, ticker.send_to(sink)

    sink, handle = loop.run(begin())
    clock.settle()
    handle.stop()
    clock.settle()
    assert len(clock.pending()) == 0
    clock.advance(50)
    assert sink.qsize() == 1
    assert ticker.receive_nowait().number == 2


def test_a_sender_in_a_loop_that_does_not_watch_the_time_is_kept_by_its_loop(loop, clock):
    ticker = Ticker(ConstantBackOff(10), clock=clock)

    async def begin():
        sinks = asyncio.Queue(), asyncio.Queue()
        first, _ = [ticker.send_to(sink) for sink in sinks]
        await turns(3)
        return sinks, first

    sinks, first = loop.run(begin())
    clock.settle()
    collect_garbage()
    first.stop()
    clock.settle()
    clock.advance(10)
    assert [sink.qsize() for sink in sinks] == [1, 1]


def test_a_zero_delay_onto_a_queue_of_a_loop_starves_nobody(loop):
    async def main():
        ticker = Ticker(ConstantBackOff(0))
        sink = asyncio.Queue()
        ticker.send_to(sink)
        await turns(50)
        ticker.stop()
        return sink.qsize()

    assert loop.run(main()) > 64


def test_an_interrupt_in_a_loop_that_sends_ends_the_run_of_the_loop_and_not_the_sending():
    async def begin():
        ticker.send_to(ticks)
        await asyncio.sleep(PATIENCE)

    async def receive(count):
        return [(await asyncio.wait_for(ticks.get(), PATIENCE)).number for _ in range(count)]

    ticker, ticks = Ticker(Scripted(0.001, KeyboardInterrupt(), then=0.001)), asyncio.Queue()
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(begin())
        assert loop.run_until_complete(receive(3)) == [1, 2, 3]
        ticker.stop()


def test_a_policy_that_raises_a_cancelled_error_ends_what_a_loop_sends(unraisable):
    async def main():
        ticker.send_to(asyncio.Queue())
        while not ticker.closed:
            await asyncio.sleep(0)

    ticker = Ticker(Scripted(asyncio.CancelledError()))
    asyncio.run(asyncio.wait_for(main(), PATIENCE))
    assert [shown.exc_type for shown in unraisable] == [asyncio.CancelledError]


def test_the_sender_outlives_the_loop_that_read_the_queue(clock):
    """Ticks still reach the sync side when the loop of the async side is closed."""
    ticks = Ticker(ConstantBackOff(10), clock=clock).queue(0)
    clock.settle()
    gone = LoopThread()
    assert gone.run(ticks.async_q.get()).number == 1
    gone.close()
    clock.advance(200)
    numbers = [ticks.sync_q.get_nowait().number for _ in range(ticks.sync_q.qsize())]
    assert numbers == list(range(2, 22))


def test_a_sender_whose_loop_closed_holds_up_nobody(clock):
    gone = LoopThread()
    ticker = Ticker(ConstantBackOff(10), clock=clock)

    async def begin():
        sink = asyncio.Queue()
        ticker.send_to(sink)
        await sink.get()

    gone.run(begin())
    waiting = in_thread(ticker.receive)
    clock.settle()
    gone.close()
    clock.advance(10)
    assert waiting.result(PATIENCE).number == 2

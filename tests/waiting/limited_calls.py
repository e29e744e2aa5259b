"""Calls that fall short of memory, or of stack: whatever fails, nothing is lost or done by half."""

import asyncio
from functools import partial
from itertools import product
from math import inf

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    Channel,
    CircuitBreaker,
    CircuitOpen,
    ConstantBackOff,
    Pace,
    Schedule,
    Ticker,
    Timer,
    WouldBlock,
    ZeroBackOff,
    merge,
    select,
)
from backoff_ticker.clock import PendingCall
from backoff_ticker.waiting import Waiter, _claim

CLAIMS = _claim._CLAIMS
ENDS = (MemoryError, RecursionError, WouldBlock, CircuitOpen, StopIteration, KeyboardInterrupt)
ENDS += (asyncio.CancelledError, SystemError)  # CPython: no memory for the frame of a traceback


def limited(call, nth):
    """Call it with so little; who runs these calls replaces this."""
    raise NotImplementedError


class Clock:
    """Stands still; a thread that parks calls ``park(deadline)`` of the test."""

    def __init__(self):
        self.now, self.calls, self.parker = 1000.0, [], lambda what: self

    def monotonic(self):
        return self.now

    time = monotonic

    def call_at(self, when, callback, *, loop=None):
        self.calls.append(PendingCall(when, callback))
        return self.calls[-1]

    def advance(self):
        self.now += 50.0
        while self.calls:
            self.calls.pop().fire()

    def unpark(self):
        self.is_woken = True


class Second(Waiter):
    """Stands in line behind the wait that fails."""

    is_woken = False

    def wake(self):
        self.is_woken = True
        return True


def outcome(call, nth=None):
    """Return a list of what ``call()`` returns; an empty one if it raises."""
    kept = [None]
    try:
        kept[0] = limited(call, nth)
    except ENDS:
        kept.clear()
    assert [claim for claim in CLAIMS if len(claim) != 2] == []
    return kept


def shown(value):
    """Return an item, the number of a tick, or the key of a job, which leaves."""
    value = value[1] if type(value) is tuple else value
    if hasattr(value, "leave"):
        value.leave()
    return getattr(value, "number", getattr(value, "key", value))


def full_sources():
    """Yield sources, and the values that they give."""
    for capacity, count, waiting in (inf, 6, 0), (300, 6, 0), (32, 32, 1), (0, 0, 6):
        channel = Channel(capacity)
        for number in range(count):
            channel.send_nowait(number)
        senders = [channel.send_async(number) for number in range(count, count + waiting)]
        futures = [sender.send(None) for sender in senders]
        yield channel, [*range(count + waiting)]
        assert all(future.done() for future in futures)
        assert [outcome(partial(sender.send, None)) for sender in senders] == [[]] * waiting
        assert channel._buffer.room in (None, capacity)
    for kind, pace in product((Ticker, AsyncTicker), Pace):
        yield kind(ZeroBackOff(), pace=pace), [*range(1, 7)]
    schedule = Schedule()
    schedule.add_all(range(6))
    yield schedule, [*range(6)]
    timer = Timer(clock=(clock := Clock()))
    timer.start(50)
    clock.advance()
    yield timer.c, [1050.0]


def take(nth):
    for way in range(4):
        for source, values in full_sources():
            now, step = source.receive_nowait, merge(source).__next__
            receive = now if type(source) is AsyncTicker else partial(source.receive, timeout=0)
            call, got = [now, receive, partial(select, source), step][way], []
            for _ in values[:6]:
                got += map(shown, outcome(call, nth))
            while len(got) < len(values):
                got.append(shown(select(source, timeout=0)))
            assert (sorted(got) if type(source) is Schedule else got) == values, (source, got)


def send(nth):
    for capacity in 0, 300, inf:
        channel = Channel(capacity)
        for number in range(6):
            second = Second(None, (channel._buffer,))
            second.register()
            is_sent = bool(outcome(partial(channel.send_nowait, number), nth))
            assert second.is_woken == is_sent
            second.unregister()
            assert outcome(channel.receive_nowait) == [number] * is_sent
            assert channel._buffer.room in (None, capacity)


def end(nth):
    token, channel, ticker = CancellationToken(), Channel(1), Ticker(ConstantBackOff(50))
    schedule, queue = Schedule(), Schedule()
    ticker.receive_nowait()
    for source, act, has_happened in (
        (token, token.cancel, lambda: token.cancelled),
        (channel, channel.close, lambda: channel.closed),
        (ticker, ticker.stop, lambda: ticker.closed),
        (schedule, schedule.close, lambda: schedule.closed),
        (queue, partial(queue.add, "key"), lambda: "key" in queue),
    ):
        second = Second(None, source._wait_sets())
        second.register()
        outcome(act, nth)
        if not has_happened():
            act()
        assert second.is_woken, (nth, source)


def give_back(nth):
    channel = Channel(300)
    for number in range(6):
        channel.send_nowait(number)
    item = channel.receive_nowait()
    outcome(partial(channel._buffer.put_back, item), nth)
    assert channel._buffer.room + len(channel) == 300


def send_late(nth):
    """A sender finds the end after it has sent, as others do: all are refused."""
    buffer = Channel(inf)._buffer
    buffer.close()
    buffer.take()
    for item in "first", "second":
        buffer.accept(item)
    outcome(partial(buffer.take_out_late, "second"), nth)
    assert buffer.take_out_late("first")


def reset(nth):
    ticker = Ticker(ConstantBackOff(50))
    ticker._resets = 300
    outcome(partial(ticker._defer, lambda pending, now: pending, resets=True), nth)
    assert len(ticker._deferred or ()) == ticker._resets - 300


def crowd(nth):
    """CPython makes numbers over 256 each time anew."""
    channels = [Channel() for _ in range(260)]
    seconds = [Second(None, (channels[0]._buffer,)) for _ in channels]
    for second in seconds:
        second.register()
    for act in seconds[0].unregister, seconds[0].register:
        outcome(act, nth)
        act()
    assert channels[0]._buffer.room == 260
    for channel in channels:
        channel.close()
    call, ends = merge(*channels).__next__, []
    for limit in [nth] * 3 + [None] * 260:
        ends += outcome(call, limit)
    assert sorted(map(id, channels)) == sorted(id(channel) for channel, _ in ends)


def end_job(nth):
    ends = ("succeed", ()), ("fail", ()), ("retry_in", (5,)), ("__exit__", (None, None, None))
    for end, args in ends:
        schedule = Schedule(every=5, notify=lambda *_: None)
        schedule.add("key")
        job = schedule.receive_nowait()
        if not outcome(partial(getattr(job, end), *args), nth):
            job.succeed()  # unless it has ended
        assert (schedule.in_flight, len(schedule)) == (0, 1)
        is_removed = bool(outcome(partial(schedule.remove, "key"), nth))
        assert not is_removed or "key" not in schedule


def permit(nth):
    for enter in CircuitBreaker.allow, lambda breaker: breaker.guard().__enter__():
        clock = Clock()
        breaker = CircuitBreaker(failures=1, backoff=ConstantBackOff(10), probes=3, clock=clock)
        for limit in [nth, None] * 8:
            outcome(lambda: breaker.record(breaker.allow(), OSError()), limit)
            clock.advance()
        permits = sum([outcome(partial(enter, breaker), nth) for _ in range(3)], [])
        while more := outcome(breaker.allow):
            permits += more
        assert len(permits) == 3


ACTS = [take, send, end, give_back, send_late, reset, crowd, end_job, permit]

"""Calls without memory for one allocation, then for the next; ``test_claims.py`` runs them."""

import asyncio
import gc
import sys
import threading
from _testcapi import remove_mem_hooks, set_nomemory
from functools import partial
from itertools import product
from math import inf
from types import FunctionType

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
    select_async,
)
from backoff_ticker.clock import PendingCall
from backoff_ticker.waiting import Waiter

CLAIMS = []  # all of them
ENDS = (MemoryError, WouldBlock, CircuitOpen, StopIteration, asyncio.CancelledError)
ENDS += (KeyboardInterrupt, SystemError)  # CPython: no memory for the frame of a traceback

# CPython 3.13 counts one reference too few to the code of a function for which it has no memory.
CODES = [thing.__code__ for thing in gc.get_objects() if type(thing) is FunctionType]
PARTS = [part for code in CODES if "backoff_ticker" in code.co_filename for part in code.co_consts]
SPARE = [part for part in PARTS if hasattr(part, "co_code")] * 9999


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
        if nth is not None:
            set_nomemory(nth, nth + 1)
        kept[0] = call()
    except ENDS:
        kept.clear()
    finally:
        remove_mem_hooks()
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


def step(nth):
    """The dict of what is ready has to grow at times."""
    ticker = Ticker(ConstantBackOff(50), clock=(clock := Clock()))
    call, got = merge(ticker).__next__, []
    for _ in range(8):
        parks = iter([clock.advance])
        clock.park = lambda deadline, parks=parks: next(parks)()
        got += map(shown, outcome(call, nth) or outcome(call))
    assert got == [*range(1, 9)]


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
    for end, args in ("succeed", ()), ("fail", ()), ("__exit__", (None, None, None)):
        schedule = Schedule(every=5, notify=lambda *_: None)
        schedule.add("key")
        job = schedule.receive_nowait()
        if not outcome(partial(getattr(job, end), *args), nth):
            job.succeed()  # unless it has ended
        assert (schedule.in_flight, len(schedule)) == (0, 1)


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


def empty_sources():
    """Yield clocks, sources, what gives them a value, and the value."""
    for kind, pace in product((Ticker, AsyncTicker), (Pace.RECEIPT, Pace.SKIP)):
        ticker = kind(ConstantBackOff(50), pace=pace, clock=(clock := Clock()))
        assert outcome(ticker.receive_nowait)
        assert not outcome(ticker.receive_nowait)  # which asks for the next one
        yield clock, ticker, clock.advance, 2
    for capacity in 0, 1, inf:
        channel = Channel(capacity, clock=(clock := Clock()))
        yield clock, channel, partial(channel.send_nowait, "item"), "item"
    schedule = Schedule(clock=(clock := Clock()))
    yield clock, schedule, partial(schedule.add, "key"), "key"
    timer = Timer(clock=(clock := Clock()))
    timer.start(50)
    yield clock, timer.c, clock.advance, 1050.0


def wait_in_thread(call, clock, meanwhile, enters, leaves, is_cut):
    def park(deadline):
        remove_mem_hooks()
        clock.is_woken = False
        meanwhile()
        if leaves is not None:
            set_nomemory(leaves, leaves + 1)
        if is_cut:
            raise KeyboardInterrupt
        return clock.is_woken

    clock.park = park
    return outcome(call, enters)


def wait_in_loop(call, clock, meanwhile, enters, leaves, is_cut):
    kept = [None]

    async def keep(coroutine):
        kept[0] = await coroutine

    def enter():
        while (future := coroutine.send(None)) is None:
            pass
        return future

    coroutine, error = keep(call()), asyncio.CancelledError()
    if outcome(enter, enters):
        meanwhile()
        leave = partial(coroutine.throw, error) if is_cut else partial(coroutine.send, None)
        assert outcome(leave, leaves) == []
    return [value for value in kept if value is not None]


def wait(nth, loop=None):
    run = wait_in_loop if loop else wait_in_thread
    for phase, way in product(("enters", "leaves", "is cut"), range(3)):
        for clock, source, act, value in empty_sources():
            reader = merge(source) if way == 2 else source
            if way == 0:
                call = getattr(source, "receive_async" if loop else "", source.receive)
                if type(source) is (Ticker if loop else AsyncTicker):
                    continue
            elif way == 1:
                call = partial(select_async if loop else select, source)
            else:
                call = reader.__anext__ if loop else reader.__next__
            sets = (reader._readers,) if way == 2 else source._wait_sets()
            second, given = Second(None, sets), []
            second.domain = id(loop) if loop else 0

            def meanwhile():
                second.register()
                if phase != "is cut":
                    given.append(act())

            limits = (nth, None) if phase == "enters" else (None, nth)
            got = run(call, clock, meanwhile, *limits, phase == "is cut")
            where = nth, phase, way, source
            for line in [line for one in sets for line in [one, *(one.others or {}).values()]]:
                assert not line.first or (line.first() is second and not line.first.after), where
            assert not second.place or second.is_woken or reader._recheck(second) == inf, where
            second.unregister()
            if given or outcome(act):  # else no receiver waits at the rendezvous
                got = got or [select(source, timeout=0)]
            assert [*map(shown, got)] == [value] * len(got), where
            assert len(got) == 1 or source.capacity == 0, where


def wait_for_room(nth, loop=None):
    run = wait_in_loop if loop else wait_in_thread
    for enters, leaves, is_cut in (nth, None, False), (None, nth, False), (None, nth, True):
        channel, taken = Channel(1, clock=(clock := Clock())), []
        channel.send_nowait("first")

        def meanwhile():
            if not is_cut:
                taken.append(channel.receive_nowait())

        call = partial(channel.send_async if loop else channel.send, "second")
        run(call, clock, meanwhile, enters, leaves, is_cut)
        is_sent = bool(taken)
        while more := outcome(channel.receive_nowait):
            taken += more
        assert taken in (["first", "second"], ["first"])
        assert len(taken) == 1 + is_sent or is_cut  # which may have sent
        assert channel._buffer.room == 1


def run_all(claims):
    CLAIMS.extend(claims)
    gc.disable()  # a collection would also free what CPython keeps for new objects
    sys.unraisablehook = lambda _: None  # CPython reports objects that it could not clear
    sys.setswitchinterval(60)

    def in_thread():  # others than the main one wake each other
        for nth in range(70):
            step(nth)
            wait(nth)
            wait_for_room(nth)

    async def in_loop():
        loop = asyncio.get_running_loop()
        for nth in range(70):
            for test in take, send, end, give_back, send_late, reset, crowd, end_job, permit:
                test(nth)
            wait(nth, loop)
            wait_for_room(nth, loop)

    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    asyncio.run(in_loop())

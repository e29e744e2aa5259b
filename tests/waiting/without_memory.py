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
    Channel,
    ConstantBackOff,
    Pace,
    Schedule,
    Ticker,
    Timer,
    merge,
    select,
    select_async,
)
from tests.waiting import limited_calls
from tests.waiting.limited_calls import Clock, Second, outcome, shown

# CPython 3.13 counts one reference too few to the code of a function for which it has no memory.
CODES = [thing.__code__ for thing in gc.get_objects() if type(thing) is FunctionType]
PARTS = [part for code in CODES if "backoff_ticker" in code.co_filename for part in code.co_consts]
SPARE = [part for part in PARTS if hasattr(part, "co_code")] * 9999


def limited(call, nth):
    try:
        if nth is not None:
            set_nomemory(nth, nth + 1)
        return call()
    finally:
        remove_mem_hooks()


limited_calls.limited = limited


def step(nth):
    """The dict of what is ready has to grow at times."""
    ticker = Ticker(ConstantBackOff(50), clock=(clock := Clock()))
    call, got = merge(ticker).__next__, []
    for _ in range(8):
        parks = iter([clock.advance])
        clock.park = lambda deadline, parks=parks: next(parks)()
        got += map(shown, outcome(call, nth) or outcome(call))
    assert got == [*range(1, 9)]


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


def run_all():
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
            for act in limited_calls.ACTS:
                act(nth)
            wait(nth, loop)
            wait_for_room(nth, loop)

    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    asyncio.run(in_loop())

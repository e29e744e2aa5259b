"""``merge`` stays registered with its sources: what a value costs, and whom that must not harm."""

import gc
import sys
import weakref
from collections import Counter
from contextlib import suppress
from math import inf

import pytest

from backoff_ticker import (
    CLOSED,
    AsyncTicker,
    CancellationToken,
    Channel,
    ConstantBackOff,
    Merge,
    Pace,
    Ticker,
    WouldBlock,
    merge,
    with_token,
)
from backoff_ticker.channels import _merge
from backoff_ticker.testing import VirtualClock
from backoff_ticker.waiting import WaitLine, WaitSet
from tests.channels.ends import End, ended, still_waits, value, value_after, values
from tests.channels.test_loops import LoopThatGoes
from tests.channels.test_select import of
from tests.helpers import PATIENCE, eventually, in_thread, slow, waiters_of
from tests.stress.places import PACKAGE, Interrupted, check_each_place
from tests.stress.tools import Gate, run_silently

CAPACITY = pytest.mark.parametrize("capacity", [0, 1, inf])
KIND = pytest.mark.parametrize("kind", [Ticker, AsyncTicker])


class Calls:
    """Counts how many functions of the waiting part of the package are called in a block."""

    def __init__(self):
        self.count = 0

    def __enter__(self):
        def called(frame, event, _):
            if event == "call":
                file = frame.f_code.co_filename
                self.count += file.startswith(PACKAGE) and "/testing/" not in file

        sys.setprofile(called)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)


def idle_tickers(kind, count):
    tickers = [kind(ConstantBackOff(3600)) for _ in range(count)]
    for ticker in tickers:
        ticker.receive_nowait()
    return tickers


def waits_for_ticks(count):
    """Return how many calls a value costs for which a merge of so many tickers waits."""
    with VirtualClock(auto=True):
        busy = Ticker(ConstantBackOff(1))
        merging = merge(busy, *idle_tickers(Ticker, count))
        assert [next(merging)[0] for _ in range(3)] == [busy] * 3
        with Calls() as calls:
            assert [next(merging)[0] for _ in range(20)] == [busy] * 20
    return calls.count


def takes_items(count):
    channel = of(*range(9000))
    merging = merge(channel, *[Channel(number % 3) for number in range(count)])
    next(merging)
    while merging._size > 1:  # until it has looked at all of them once
        next(merging)
    with Calls() as calls:
        assert [next(merging)[0] for _ in range(20)] == [channel] * 20
    return calls.count


@pytest.mark.parametrize("cost", [waits_for_ticks, takes_items])
def test_a_value_costs_the_same_however_many_sources_have_none(cost):
    few, many = cost(10), cost(400)
    assert 0 < many <= few * 1.02


@pytest.mark.parametrize("end", ["a token", "their ends"])
def test_the_ends_of_all_cost_as_much_as_there_are(clock, end):
    def cost(count):
        token = CancellationToken()
        sources = [Ticker(ConstantBackOff(3600), token=token) for _ in range(count)]
        sources = sources if end == "a token" else [Channel() for _ in range(count)]
        merging = merge(*sources)
        if end == "a token":
            assert {next(merging)[0] for _ in sources} == {*sources}
        with Calls() as calls:
            token.cancel()
            for source in sources:
                source.stop() if end == "a token" else source.close()
            assert {source for source, _ in merging} == {*sources}
        return calls.count

    assert cost(400) <= 4.1 * cost(100)


# Other readers of the same sources


@CAPACITY
@pytest.mark.parametrize("used", [True, False])
def test_a_merge_that_nobody_reads_takes_nothing_from_others(
    senders, receivers, clock, capacity, used
):
    channel, other = Channel(capacity), of("first")
    merging = merge(channel, other)
    if used:
        assert next(merging) == (other, "first")
    for number in range(3):
        receiving = [receivers.receive(channel), receivers.select(channel, Channel())]
        still_waits(clock, *receiving)
        value(senders.send(channel, number))
        value(senders.send(channel, number))
        assert values(receiving) == [number, (channel, number)]
    assert [len(channel), len(other)] == [0, not used]


@KIND
def test_a_merge_that_nobody_reads_watches_no_time_for_others(receivers, clock, kind):
    ticker = kind(ConstantBackOff(10))
    merging = merge(ticker, of("first"))
    assert {next(merging)[1], next(merging)[1]} >= {"first"}
    for number in range(2, 5):
        waiting = receivers.select(ticker)
        still_waits(clock, waiting)
        clock.advance(10)
        assert value(waiting)[1].number == number
    waiting = receivers.select(ticker)
    still_waits(clock, waiting)
    ticker.stop()
    assert value(waiting) == (ticker, CLOSED)


def test_a_merge_counts_as_a_receiver_only_while_a_reader_waits(receivers, clock):
    meeting, other = Channel(), of("first")
    merging = merge(meeting, other)
    assert next(merging) == (other, "first")
    with pytest.raises(WouldBlock):
        meeting.send_nowait("to nobody")
    for number in range(3):
        step = receivers.step(merging)
        still_waits(clock, step)
        meeting.send_nowait(number)
        assert value(step) == (meeting, number)
        with pytest.raises(WouldBlock):
            meeting.send_nowait("to nobody")
        assert len(meeting) == 0
    sending = in_thread(meeting.send, "waits")
    still_waits(clock, sending)
    assert value(receivers.step(merging)) == (meeting, "waits")
    assert value(sending) is None


# Several readers of one merge


@CAPACITY
def test_threads_and_loops_that_share_one_get_each_value_and_each_end_once(clock, capacity):
    channels = [Channel(capacity) for _ in range(3)]
    merging = merge(*channels)
    ends = [End("thread"), End("loop"), End("loop")]
    readers = [end.receive_all(merging) for end in ends for _ in range(3)]
    still_waits(clock, *readers)
    senders = [in_thread(send_and_close, channel, range(20)) for channel in channels]
    values(senders)
    got = [pair for pairs in values(readers) for pair in pairs]
    expected = [(channel, item) for channel in channels for item in (*range(20), CLOSED)]
    assert Counter(got) == Counter(expected)
    for end in ends:
        end.close()


def send_and_close(channel, items):
    for item in items:
        channel.send(item)
    channel.close()


@KIND
def test_ticks_do_not_wait_for_a_loop_that_does_not_run(clock, kind):
    """Its reader came first, and would have been the one that watches the time."""
    ticker = kind(ConstantBackOff(10))
    merging = merge(ticker, Channel())
    ticker.receive_nowait()
    stopped = LoopThatGoes(merging.__anext__(), "stopped")
    waiting = in_thread(next, merging)
    still_waits(clock, waiting)
    clock.advance(10)
    assert value(waiting)[1].number == 2
    stopped.end()


# Forced races


def test_what_comes_between_the_look_and_the_registration_is_found(receivers, clock, monkeypatch):
    channel = Channel(1)
    merging = merge(channel, Channel())
    register = _merge._Case.register
    left = [1]

    def send_and_register(case):
        if case.given is channel and left:
            channel.send_nowait(left.pop())
        register(case)

    monkeypatch.setattr(_merge._Case, "register", send_and_register)
    assert value(receivers.step(merging)) == (channel, 1)


def test_what_comes_after_the_last_look_is_found(receivers, clock, monkeypatch):
    """It is taken by another reader, who leaves a second item and finds the case still ready."""
    channel = Channel(2)
    merging = merge(channel, Channel())
    put_aside = Merge._put_aside
    taken = []

    def send_and_put_aside(merged, case, *args):
        if case.given is channel and not taken:
            taken.append(None)
            channel.send_nowait("a")
            taken.append(next(merging))
            channel.send_nowait("b")
        return put_aside(merged, case, *args)

    monkeypatch.setattr(Merge, "_put_aside", send_and_put_aside)
    assert value(receivers.step(merging)) == (channel, "b")
    assert taken == [None, (channel, "a")]


def test_a_wake_up_that_is_under_way_hides_no_other(clock, monkeypatch):
    """One thread has told the readers; before it notes that, they have looked and wait again."""
    channel = Channel(1)
    merging = merge(channel, Channel())
    readers = merging._readers
    gate = Gate()
    wake_firsts = WaitLine.wake_firsts

    def slow(line):
        wake_firsts(line)
        if line is readers and not gate.reached.is_set():
            gate.stand()

    reading = in_thread(lambda: [next(merging) for _ in range(2)])
    clock.settle()
    monkeypatch.setattr(WaitLine, "wake_firsts", slow)
    sending = in_thread(channel.send_nowait, 1)
    gate.wait_until_reached()
    eventually(lambda: not len(channel) and waiters_of(readers), "it waits again")
    gate.open()
    value(sending)
    channel.send_nowait(2)
    assert value(reading) == [(channel, 1), (channel, 2)]


def test_two_readers_that_register_a_case_at_once_register_it_once(clock, monkeypatch):
    channel, silent = Channel(1), Channel(1)
    merging = merge(channel, silent)
    add = WaitSet.add
    left = [True]

    def add_twice(wait_set, place, *args):
        add(wait_set, place, *args)
        if wait_set is channel._buffer:
            add(wait_set, place, *args)
            left.clear()

    reading = in_thread(next, merging)
    clock.settle()
    channel.send_nowait(1)
    assert value(reading) == (channel, 1)
    monkeypatch.setattr(WaitSet, "add", add_twice)
    reading = in_thread(next, merging)
    clock.settle()
    assert not left
    assert len(waiters_of(channel._buffer)) == 1
    channel.send_nowait(2)
    assert value(reading) == (channel, 2)


# Times


def test_a_reset_moves_what_a_merge_waits_for_and_leaves_nothing_behind(receivers, clock):
    ticker, others = Ticker(ConstantBackOff(3600)), idle_tickers(Ticker, 3)
    merging = merge(ticker, *others)
    assert value(receivers.step(merging))[1].number == 1
    for number in range(2, 30):
        step = receivers.step(merging)
        still_waits(clock, step)
        for seconds in (7200, 7200, 20, 3600, 10, 1800):
            ticker.reset(ConstantBackOff(seconds))
            clock.settle()
        ticker.reset(ConstantBackOff(15))
        still_waits(clock, step)
        assert value_after(clock, 15, step)[1].number == number
        assert len(merging._heap) <= 8


def test_another_token_after_a_reset_ends_a_ticker_that_waits(receivers, clock):
    first, second = CancellationToken(), CancellationToken()
    ticker = Ticker(with_token(ConstantBackOff(10), first))
    merging = merge(ticker, Channel())
    assert value(receivers.step(merging))[1].number == 1
    step = receivers.step(merging)
    still_waits(clock, step)
    ticker.reset(with_token(ConstantBackOff(10), second))
    still_waits(clock, step)
    assert waiters_of(first._wait_set()) == []
    first.cancel()
    still_waits(clock, step)
    second.cancel()
    assert value(step) == (ticker, CLOSED)


def test_ticks_are_skipped_when_they_are_taken(receivers, clock):
    """A reader that comes late drops them; one that has waited gets the tick, late as it is."""
    ticker = Ticker(ConstantBackOff(10), pace=Pace.SKIP)
    merging = merge(ticker, Channel())
    assert value(receivers.step(merging))[1].number == 1
    clock.advance(25)
    step = receivers.step(merging)
    still_waits(clock, step)
    clock.advance(7)
    _, tick = value(step)
    assert (tick.due, tick.missed) == (1030, 2)


def test_a_tick_for_which_a_reader_has_waited_is_not_skipped(clock):
    ticker = Ticker(ConstantBackOff(10), pace=Pace.SKIP)
    merging = merge(ticker, Channel())
    next(merging)
    with clock.trap("parker") as trap:
        reading = in_thread(next, merging)
        call = trap.wait()
        clock.advance(25)
        call.release()
        _, tick = value(reading)
    assert (tick.number, tick.due, tick.lateness, tick.missed) == (2, 1010, 15, 0)


def test_one_of_several_readers_watches_the_time(receivers, clock):
    ticker = Ticker(ConstantBackOff(10))
    merging = merge(ticker, Channel())
    next(merging)
    steps = [receivers.step(merging) for _ in range(3)]
    for number in range(2, 5):
        still_waits(clock, *steps)
        assert len(clock.pending()) == 1
        clock.advance(10)
        [done] = [step for step in steps if step in ended(clock, steps)]
        steps.remove(done)
        assert value(done)[1].number == number


def test_a_reader_that_comes_late_for_a_time_does_not_take_the_next_one(clock):
    """It has seen the first time, which another reader takes out before it."""
    tickers = Ticker(ConstantBackOff(10), clock=clock), Ticker(ConstantBackOff(20), clock=clock)
    for ticker in tickers:
        ticker.receive_nowait()
    merging = merge(*tickers)
    reading = clock.spawn(next, merging)
    clock.settle()
    seen = merging._heap[0]
    clock.advance(10)
    assert reading.result()[0] is tickers[0]
    merging._note(seen[2], seen)  # as the late reader does
    reading = clock.spawn(lambda: {next(merging)[0] for _ in tickers})
    clock.settle()
    clock.advance(10)
    assert reading.result() == {*tickers}


# The end of a merge


@pytest.mark.parametrize("used", [True, False])
def test_a_merge_that_is_dropped_is_freed_at_once_and_registered_nowhere(clock, used):
    channels = [Channel(capacity) for capacity in (0, 1, inf)]
    token, ticker = CancellationToken(), Ticker(ConstantBackOff(10))
    merging = merge(*channels, token, ticker)
    if used:
        assert next(merging)[0] is ticker
        reading = in_thread(next, merging)
        still_waits(clock, reading)
        channels[1].send_nowait("a")
        assert value(reading) == (channels[1], "a")
    link = weakref.ref(merging)
    gc.disable()
    try:
        del merging
        eventually(lambda: link() is None, "its end without a collection")
    finally:
        gc.enable()
    assert [waiters_of(channel._buffer) for channel in channels] == [[], [], []]
    assert waiters_of(ticker._readers) == waiters_of(token._wait_set()) == []
    assert not any(channel._buffer.others for channel in channels)


def test_a_child_goes_on_with_the_merge_of_its_parent():
    """Threads of the parent wait in it at the fork, and others have just been woken."""
    run_silently(
        """
from tests.helpers import waiters_of
inf = float("inf")
channels = [Channel(capacity) for capacity in (0, 1, inf)]
ticker = Ticker(ConstantBackOff(0.01)); ticker.receive_nowait(); ticker.stop()
merging = merge(*channels, ticker)
assert next(merging) == (ticker, CLOSED)
heard = []
readers = threads(3, lambda: heard.extend(merging))
while len(waiters_of(merging._readers)) < 3: time.sleep(0.001)

def in_child():
    try: channels[0].send_nowait("to nobody")
    except WouldBlock: pass
    else: raise AssertionError("accepted")
    got = []
    own = threads(2, lambda: got.extend(merging))
    for number in range(9): channels[number % 3].send(number, 10)
    for channel in channels: channel.close()
    for thread in own: thread.join(10); assert not thread.is_alive()
    expected = [(channels[number % 3], number) for number in range(9)]
    expected += [(channel, CLOSED) for channel in channels]
    assert sorted(got, key=repr) == sorted(expected, key=repr), got

for _ in range(3): assert collect(fork(in_child)) == 0
for number in range(9): channels[number % 3].send(number, 10)
for channel in channels: channel.close()
for thread in readers: thread.join(10); assert not thread.is_alive()
assert len(heard) == 12, heard
"""
    )


# Interrupts


@pytest.mark.parametrize(
    ("act", "capacity"), [("waits", 1), slow("waits", 0), slow("is ready", 0), slow("is ready", 1)]
)
def test_an_interrupt_of_a_reader_loses_nothing(act, capacity):
    """Two readers share a merge; the one that goes on gets what the other did not."""

    def run(interrupt):
        channels = [Channel(capacity), Channel(capacity)]
        ticker = Ticker(ConstantBackOff(0.0005))
        merging = merge(*channels, ticker)
        got = []
        sending = [in_thread(send_and_close, channel, "ab") for channel in channels]
        if act == "is ready":
            eventually(lambda: all(channel._buffer.is_ready() for channel in channels))
        with suppress(Interrupted, StopIteration), interrupt:
            while len(got) < 12:
                got.append(next(merging))
        ticker.stop()
        got += in_thread(list, merging).result(PATIENCE)
        values(sending)
        seen = sorted(str(each) for source, each in got if source is not ticker)
        ticks = [tick.number for source, tick in got if source is ticker and tick is not CLOSED]
        expected = sorted(["a", "a", "b", "b", str(CLOSED), str(CLOSED)])
        is_right = seen == expected and ticks == list(range(1, len(ticks) + 1))
        return [] if is_right else [(seen, ticks)]

    check_each_place(run, at_least=20)


def test_a_handler_takes_a_step_of_the_merge_that_it_interrupts():
    def run(interrupt):
        channel, other = of(*range(4)), of(*range(4))
        merging = merge(channel, other, Channel(1))
        got = []
        interrupt.handler = lambda: got.append(next(merging))
        with interrupt:
            for _ in range(4):
                got.append(next(merging))
        while len(channel) or len(other):
            got.append(next(merging))
        expected = [(source, number) for source in (channel, other) for number in range(4)]
        return [] if Counter(got) == Counter(expected) else [got]

    check_each_place(run, at_least=10)

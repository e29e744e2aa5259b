"""Runs that have ended, in whatever way: they stop nobody. Ctrl-C, and storms of cancels."""

import _imp
import itertools
import math
import queue
import signal
import sys
import threading
from contextlib import suppress
from functools import partial

import pytest
import trio
import trio.testing

from backoff_ticker import (
    CLOSED,
    AsyncTicker,
    CancellationToken,
    Cancelled,
    Channel,
    ConstantBackOff,
    Schedule,
    WouldBlock,
    ZeroBackOff,
    attempts,
    hedge_call_async,
    merge,
    retry_call_async,
    select_async,
    with_max_retries,
)
from backoff_ticker.types import Job
from backoff_ticker.waiting import checkpoint, current_loop
from tests.helpers import PATIENCE, collect_garbage, eventually, in_thread, python, waiters_of
from tests.schedules.workers import take_all
from tests.stress.places import is_in_finalizer
from tests.trio.runs import faces, run


@pytest.fixture(autouse=True, scope="module")
def _loaded():
    """Load what the first wait loads: each Ctrl-C in it would have pytest load it once more."""
    run(AsyncTicker(ZeroBackOff()).receive)


# Runs that ended while something waited in them


def crash(function):
    """Run a task in trio until it waits; then the run crashes."""

    async def main():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(function)
            await trio.testing.wait_all_tasks_blocked()

            async def broken():
                raise ValueError

            trio.lowlevel.spawn_system_task(broken)

    with pytest.raises(trio.TrioInternalError):
        trio.run(main)


def interrupt(function):
    async def main():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(function)
            await trio.testing.wait_all_tasks_blocked()
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(BaseExceptionGroup) as caught:
        trio.run(main)
    assert caught.group_contains(KeyboardInterrupt)


@pytest.mark.parametrize("end", [crash, interrupt])
def test_an_ended_run_stops_nobody(end):
    token, channel, ticker = CancellationToken(), Channel(0), AsyncTicker(ConstantBackOff(0.01))
    taken, runs = [], []

    async def wait():
        runs.append(current_loop())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(token.wait_async)
            nursery.start_soon(channel.receive_async)
            nursery.start_soon(select_async, token, channel)
            taken.append((await ticker.receive()).number)
            await trio.sleep_forever()

    end(wait)
    assert runs[0].is_closed()
    with pytest.raises(RuntimeError, match="the run of trio has ended"):
        runs[0].call_soon_threadsafe(print)
    with pytest.raises(WouldBlock):
        channel.send_nowait("nobody waits")
    receives = in_thread(channel.receive)
    channel.send("item", PATIENCE)
    assert receives.result(PATIENCE) == "item"
    waits = in_thread(token.wait)
    assert run(ticker.receive).number == 2
    assert token.cancel()
    assert waits.result(PATIENCE)
    assert waiters_of(token._wait_set()) == []


@pytest.mark.parametrize("end", [crash, interrupt])
def test_runs_that_end_beside_threads_loops_and_other_runs_stop_none_of_them(end):
    """All share a ticker and a schedule; each tick, and each key, comes once."""
    ticker, numbers = AsyncTicker(with_max_retries(ConstantBackOff(0.001), 399)), []
    schedule, keys = Schedule(), []
    schedule.add_all(range(400), over=0.4)

    def note(value):
        if isinstance(value, Job):
            with value:
                keys.append(value.key)
        elif value is not CLOSED:
            numbers.append(value.number)

    async def take(source):
        async for value in source:
            note(value)

    def take_here(source):
        for _, value in merge(source):
            note(value)

    takes = [partial(take, source) for source in (ticker, schedule)]
    taking = [future for function in takes for future in faces(function)]
    taking += [in_thread(take_here, source) for source in (ticker, schedule) for _ in range(2)]
    for function in takes * 3:
        end(function)
    eventually(lambda: len(schedule) == 0)
    schedule.close()
    for future in taking:
        future.result(PATIENCE)
    assert sorted(numbers) == list(range(1, 401))
    assert sorted(keys) == list(range(400))


PROGRAM = """
import asyncio, sys, threading, warnings
import trio, trio.testing
from backoff_ticker import CancellationToken, Channel, WouldBlock
from backoff_ticker.waiting import current_loop

warnings.simplefilter("ignore")  # trio warns of the guest
sys.unraisablehook = threading.excepthook = lambda _: None  # and reports what is left
token, channel, kept = CancellationToken(), Channel(0), []

async def wait():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(token.wait_async)
        nursery.start_soon(channel.receive_async)
        await trio.testing.wait_all_tasks_blocked()
        kept.append(current_loop())
        assert not kept[0].is_closed()
        await in_the_end()

def fail(_):
    raise ValueError

async def hang():
    with trio.move_on_after(0.001):
        await trio.lowlevel.wait_task_rescheduled(fail)  # an error that trio cannot handle

async def be_host():
    global in_the_end
    loop, waits = asyncio.get_running_loop(), asyncio.Event()

    async def in_the_end():
        waits.set()
        await trio.sleep_forever()

    trio.lowlevel.start_guest_run(
        wait,
        run_sync_soon_threadsafe=loop.call_soon_threadsafe,
        run_sync_soon_not_threadsafe=loop.call_soon,
        done_callback=kept.append,
    )
    await waits.wait()

if sys.argv[1] == "crash":
    in_the_end = hang
    try:
        trio.run(wait)
    except trio.TrioInternalError as error:
        kept.append(error)
else:
    asyncio.run(be_host())
assert kept[0].is_closed()
try:
    channel.send_nowait("nobody waits")
except WouldBlock:
    assert token.cancel()
    print("done", flush=True)
"""


@pytest.mark.parametrize("end", ["crash", "end of the host"])
def test_a_run_that_never_ends_its_tasks_stops_nobody(end):
    """In a process of its own, since trio leaves much behind."""
    ran = python("-c", PROGRAM, end)
    assert "done" in ran.stdout, ran.stderr


# Ctrl-C


def test_ctrl_c_ends_a_wait():
    async def main():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, signal.raise_signal, signal.SIGINT)
            await token.wait_async()

    token = CancellationToken()
    with pytest.raises(BaseExceptionGroup) as caught:
        trio.run(main)
    assert caught.group_contains(KeyboardInterrupt)
    assert waiters_of(token._wait_set()) == []


class AtCall:
    """A block that calls ``action`` at the start of the call of this number in it.

    In a finalizer it does so at the next call that is none.
    Calls of Python's import system do not count: an error that a handler raises there may leave its
    lock locked, and then no other thread of the process can import anything.
    """

    def __init__(self, number, action):
        self.left, self._action = number, action
        self._frames = set()  # one that goes on after an `await` is no new call

    def __enter__(self):
        self._frames.add(sys._getframe(1))
        sys.setprofile(self._profile)
        return self

    def _profile(self, frame, event, arg):
        imports = frame.f_code.co_filename.startswith("<frozen importlib")
        if event == "call" and frame not in self._frames and not imports:
            self._frames.add(frame)
            self.left -= 1
            if self.left <= 0 and not is_in_finalizer(frame):
                sys.setprofile(None)
                self._action()

    def __exit__(self, *exc_info):
        sys.setprofile(None)
        self._frames.clear()


def ctrl_c():
    signal.raise_signal(signal.SIGINT)


async def at_each_call(work, action=ctrl_c):
    """Await ``work()`` again and again, each time with an action at a later call inside of it."""
    for number in range(1, 2000):
        try:
            # trio finds a scope that was left open inside of this one.
            with trio.CancelScope() as scope, AtCall(number, action) as at_call:
                await work(scope)
        except* KeyboardInterrupt:
            pass
        try:
            await trio.lowlevel.checkpoint()
        except* KeyboardInterrupt:
            pass
        assert not _imp.lock_held()
        if at_call.left > 0:
            return number
    raise AssertionError("it does not end")


async def at_a_checkpoint(scope):
    scope.cancel()
    await checkpoint()


async def in_a_scope(_):
    async with CancellationToken(timeout=60).scope():
        await trio.lowlevel.checkpoint()


async def in_an_attempt(_):
    await retry_call_async(trio.lowlevel.checkpoint, ZeroBackOff(), attempt_timeout=60)


async def in_a_block(_):
    async for attempt in attempts(ZeroBackOff(), attempt_timeout=60):
        async with attempt:
            await trio.lowlevel.checkpoint()


async def in_a_hedged_call(_):
    await hedge_call_async(trio.lowlevel.checkpoint, ZeroBackOff(), max_attempts=2)


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")  # if it comes in between
@pytest.mark.parametrize(
    ("work", "at_least"),
    [
        (at_a_checkpoint, 5),
        (in_a_scope, 20),
        (in_an_attempt, 20),
        (in_a_block, 20),
        (in_a_hedged_call, 50),
    ],
)
def test_ctrl_c_leaves_no_scope_of_trio_open(work, at_least):
    assert trio.run(at_each_call, work) > at_least


def test_ctrl_c_loses_no_tick():
    ticker, numbers = AsyncTicker(ConstantBackOff(0.001)), []

    async def work(scope):
        tick = await ticker.receive()
        numbers.append(tick.number)

    assert trio.run(at_each_call, work) > 20
    assert numbers == list(range(1, len(numbers) + 1))
    assert waiters_of(ticker._readers) == []


def test_ctrl_c_in_the_first_wait_of_a_process_leaves_nothing_unprotected():
    """Only then are functions marked that trio protects."""
    script = """
import trio
from tests.trio import test_ends
test_ends.test_ctrl_c_loses_no_tick()
trio.run(test_ends.at_each_call, test_ends.in_a_scope)
"""
    ran = python("-c", script)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(("sources", "at_least"), [(1, 5), (2, 50)])
def test_ctrl_c_loses_no_item(sources, at_least):
    """Neither of a channel, nor of two in a select."""
    channels, received = [Channel(math.inf) for _ in range(sources)], []
    numbers = [*range(2000 * sources)]
    for number in numbers:
        channels[number // 2000].send_nowait(number)

    async def work(scope):
        if sources == 1:
            received.append(await channels[0].receive_async())
        else:
            received.append((await select_async(*channels, CancellationToken()))[1])

    assert trio.run(at_each_call, work) > at_least
    received += [channel.receive_nowait() for channel in channels for _ in range(len(channel))]
    assert sorted(received, key=lambda number: number // 2000) == numbers


@pytest.mark.filterwarnings("ignore:.* was dropped before its end:ResourceWarning")
def test_ctrl_c_in_a_job_loses_no_key():
    """As it is taken, in its block, and as it ends: what has not been done comes again."""
    schedule = Schedule(backoff=ZeroBackOff(), notify=lambda *_: None)
    done, ended = set(), set()
    schedule.add_all(range(2000))

    async def work(scope):
        with await schedule.receive_async() as job:
            await trio.lowlevel.checkpoint()
            done.add(job.key)
        ended.add(job.key)

    assert trio.run(at_each_call, work) > 50
    collect_garbage()
    assert schedule.in_flight == 0
    left = take_all(schedule)
    assert done | {*left} == {*range(2000)}
    assert len(left) == len({*left} - ended) < 2000


def test_a_signal_handler_wakes_a_task_at_each_call_of_its_wait():
    """Also just before it sleeps; and it never wakes it twice."""
    tokens = [CancellationToken() for _ in range(2000)]

    came = {}

    async def work(scope):
        token, began = tokens[-1], trio.current_time()
        with trio.move_on_at(began + 0.05) as limit:
            await token.wait_async()
        is_early = came.get(token, math.inf) < began + 0.01
        assert not (is_early and limit.cancelled_caught), "it was not woken"

    def cancel():
        token = tokens.pop()
        came[token] = trio.current_time()
        assert token.cancel()

    assert trio.run(at_each_call, work, cancel) == 2001 - len(tokens) > 50


@pytest.mark.parametrize("is_first", [True, False])
def test_a_signal_handler_wakes_and_cancels_a_task_at_each_call_of_its_wait(is_first):
    """It runs on once: ``is_first`` is whether the cancel comes before what wakes it."""
    scopes, tokens = [trio.CancelScope()], [CancellationToken()]

    async def work(scope):
        scopes.append(scope)
        tokens.append(CancellationToken())
        await tokens[-1].wait_async(60)

    def act():
        ends = [scopes[-1].cancel, tokens[-1].cancel]
        for end in ends if is_first else reversed(ends):
            end()

    clock = trio.testing.MockClock(autojump_threshold=0)
    assert trio.run(at_each_call, work, act, clock=clock) > 50


# Storms


async def receive_in_a_storm(receive, until, received=None):
    """Receive under cancels at moments of chance; return what was received, by all who do so."""
    received, number = [] if received is None else received, 0
    while len(received) < until:
        number += 1
        with trio.move_on_after(0.0001 * (number % 7)):
            while len(received) < until:
                received.append(await receive())
    return received


@pytest.mark.parametrize("capacities", [(0,), (1,), (math.inf,), (1, 1)])
def test_a_storm_of_cancels_loses_no_item(capacities):
    """Neither of a channel, nor of two in a select, to which a thread sends as fast as it can."""
    channels, enough = [Channel(capacity) for capacity in capacities], threading.Event()

    def send():
        for number in itertools.count():
            if enough.is_set():
                break
            channels[number % len(channels)].send(number, PATIENCE)
        for channel in channels:
            channel.close()
        return number

    async def receive():
        if len(channels) == 1:
            return await channels[0].receive_async()
        return (await select_async(*channels))[1]

    async def main():
        received = await receive_in_a_storm(receive, 1000)
        enough.set()
        return received + [item async for _, item in merge(*channels) if item is not CLOSED]

    sending = in_thread(send)
    received = run(main)
    sent = [*range(sending.result(PATIENCE))]
    assert received == sent or (len(channels) > 1 and sorted(received) == sent)


def test_a_storm_of_cancels_loses_no_key():
    """Also where one strikes in a job."""
    schedule, done = Schedule(), []

    def add():
        for key in range(1000):
            schedule.add(key, delay=0.0001 * (key % 3))

    async def work():
        with await schedule.receive_async() as job:
            await trio.lowlevel.checkpoint()
            return job.key

    async def main():
        adding = in_thread(add)
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(receive_in_a_storm, work, 1000, done)
        adding.result(PATIENCE)

    run(main)
    assert sorted(done) == list(range(1000))
    assert (len(schedule), schedule.in_flight) == (0, 0)


async def be_in_scope(token):
    with suppress(Cancelled):
        async with token.scope():
            await trio.sleep_forever()


@pytest.mark.parametrize("wait", [CancellationToken.wait_async, be_in_scope])
def test_a_storm_of_cancels_beside_that_of_a_token_leaves_nobody_asleep(wait):
    parent, tokens = CancellationToken(), queue.SimpleQueue()
    cancelling = in_thread(lambda: [token.cancel() for token in iter(tokens.get, None)])

    async def main():
        for number in range(1000):
            token = parent.child()
            tokens.put(token)
            with trio.move_on_after(0.0001 * (number % 7)) as limit:
                await wait(token)
            assert token.cancelled or limit.cancelled_caught
            await trio.lowlevel.checkpoint()  # no cancel is left
            assert await token.wait_async(PATIENCE)
            assert waiters_of(token._wait_set()) == []

    run(main)
    tokens.put(None)
    assert cancelling.result(PATIENCE) == [True] * 1000


@pytest.mark.parametrize("backoff", [ZeroBackOff(), ConstantBackOff(0.0005)])
def test_a_storm_of_cancels_loses_no_tick(backoff):
    async def main():
        ticker = AsyncTicker(backoff)
        return [tick.number for tick in await receive_in_a_storm(ticker.receive, 500)]

    assert run(main) == list(range(1, 501))

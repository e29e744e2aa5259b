"""What once went wrong: each race forced, each wrong time asked for."""

from __future__ import annotations

import asyncio
import gc
import queue
import sys
import threading
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from textwrap import dedent

import pytest

from backoff_ticker import CancellationToken
from backoff_ticker._clock import resolve_clock
from backoff_ticker.testing import (
    ClockLeakError,
    ClockUsageError,
    SettleTimeout,
    VirtualClock,
    VirtualDeadlockError,
    VirtualTimeError,
)
from backoff_ticker.testing._errors import Unwind
from tests.stress.tools import run_script

from .real_threads import in_real_thread


@pytest.fixture
def auto():
    with VirtualClock(auto=True, settle_timeout=1) as clock:
        yield clock


@pytest.fixture
def clock():
    with VirtualClock(settle_timeout=1) as clock:
        yield clock


def test_a_loop_that_is_woken_early_waits_again_for_the_same_time(auto):
    loops = queue.SimpleQueue()

    async def main():
        loops.put(asyncio.get_running_loop())
        await asyncio.sleep(10)

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    auto.sleep(1)
    loop = loops.get()
    for _ in range(5):
        loop.call_soon_threadsafe(int)
        auto.sleep(1)
    assert [info.when for info in auto.pending()] == [10.0]
    thread.join()
    assert auto.monotonic() == 10.0


def test_a_thread_that_polls_the_clock_lets_others_have_their_turn(auto):
    flag = threading.Event()
    auto.spawn(flag.set)
    while not flag.is_set():
        auto.sleep(0)


def test_threads_that_wait_for_a_lock_at_the_time_its_holder_is_due(auto):
    lock = threading.Lock()

    def hold():
        with lock:
            auto.sleep(1)

    def want():
        auto.sleep(1)
        with lock:
            return auto.monotonic()

    others = [auto.spawn(want) for _ in range(3)]
    holder = auto.spawn(hold)
    holder.join()
    assert [other.result() for other in others] == [1.0] * 3


def test_a_great_start_spins_no_loop():
    with VirtualClock(start=1.7e9, auto=True):
        asyncio.run(asyncio.sleep(1e-9))


def test_who_catches_a_deadlock_and_waits_again_is_ended():
    async def main():
        items = asyncio.Queue()
        while True:
            try:
                await items.get()
            except VirtualDeadlockError:
                pass

    with pytest.raises(Unwind), VirtualClock(auto=True):
        asyncio.run(main())

    with VirtualClock(auto=True) as clock:
        caught = []

        def again():
            while True:
                try:
                    clock.parker("nothing").park(None)
                except VirtualDeadlockError as error:
                    caught.append(error)

        thread = threading.Thread(target=again)
        thread.start()
        with pytest.raises(VirtualDeadlockError):
            thread.join()
        thread.join()
        assert len(caught) == 1


@pytest.mark.parametrize("target", [3.0, 0.0])
def test_a_step_while_time_advances_by_itself_stops_at_its_target(auto, target):
    sleeper = auto.spawn(auto.sleep, 10)
    assert auto.advance(target) == 0
    assert auto.monotonic() == target
    auto.settle()
    assert auto.monotonic() == target
    assert auto.advance_next() == 10.0 - target
    sleeper.join()


def test_callbacks_have_their_clock_as_the_current_one_whoever_calls_them(auto):
    seen = []

    def callback():
        seen.append(resolve_clock(None))
        thread = threading.Thread(target=lambda: seen.append(auto.sleep(1) or resolve_clock(None)))
        thread.start()

    auto.call_at(1.0, callback)
    auto.spawn(auto.sleep, 0.5).join()
    auto.sleep(5)
    assert seen == [auto, auto]


@pytest.mark.parametrize("kind", [SystemExit, asyncio.CancelledError, ValueError])
def test_whatever_a_callback_raises_is_raised_by_the_step(clock, kind):
    def fail():
        raise kind

    sleeper = clock.spawn(clock.sleep, 2)
    clock.call_at(1.0, fail)
    with pytest.raises(kind):
        clock.advance(5)
    clock.advance(1)
    assert sleeper.done()


def test_a_new_loop_has_the_clocks_time_at_once(auto):
    auto.sleep(7)
    for make in (auto.new_event_loop, asyncio.new_event_loop):
        loop = make()
        fired = []
        assert loop.time() == auto.monotonic()
        due = loop.time() + 1.0
        loop.call_later(1, lambda: fired.append(loop.time()))
        loop.run_until_complete(asyncio.sleep(2))
        assert fired == [due]
        loop.close()


def test_a_pool_that_breaks_holds_nothing_up(auto):
    def fail():
        raise RuntimeError

    with ThreadPoolExecutor(1, initializer=fail) as pool, pytest.raises(BrokenExecutor):
        pool.submit(int).result()
    auto.sleep(1)


def test_a_loop_that_never_waits_is_reported(auto):
    sleeper = auto.spawn(auto.sleep, 1)

    async def poll():
        while not sleeper.done():
            await asyncio.sleep(0)

    with pytest.raises(SettleTimeout, match="an event loop never waits: MainThread"):
        asyncio.run(poll())
    sleeper.join()


def test_a_tracked_function_that_nobody_calls_is_reported(auto):
    called = auto.tracked(int)
    with pytest.raises(SettleTimeout, match="int, tracked, was not called yet"):
        auto.sleep(1)
    assert called() == 0
    auto.sleep(1)


def test_a_tracked_function_may_be_called_where_it_was_made(auto):
    assert auto.tracked(lambda: auto.sleep(1) or auto.monotonic())() == 1.0
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(auto.tracked(lambda: auto.sleep(1))) for _ in range(2)]
        for job in jobs:
            job.result()
    assert auto.monotonic() == 2.0


def test_a_thread_that_nobody_tracks_is_ended_with_the_clock():
    ended = queue.SimpleQueue()

    def foreign(clock):
        try:
            clock.sleep(100)
        except BaseException as error:
            ended.put(type(error))

    with VirtualClock(strict=False) as clock:
        in_real_thread(lambda: foreign(clock))
        clock.block_until(timers=1)
    assert ended.get(timeout=10) is Unwind
    with pytest.raises(ClockUsageError, match="closed"):
        clock.sleep(1)


def test_only_the_thread_that_entered_drives(clock):
    refused = queue.SimpleQueue()

    def drive():
        try:
            clock.run(int)
        except ClockUsageError as error:
            refused.put(str(error))

    in_real_thread(drive).join(10)
    assert "only the thread that entered" in refused.get(timeout=10)


def test_one_hold_inside_another(auto):
    with auto.idle("outer"):
        with auto.external("inner"):
            pass
        auto.sleep(1)
        other = auto.spawn(auto.sleep, 1)
        while not other.done():
            threading.Event().wait(0.001)
    assert auto.monotonic() == 2.0


def test_cancelled_time_outs_leave_nothing(auto):
    async def main():
        for _ in range(5000):
            async with asyncio.timeout(3600):
                await asyncio.sleep(0)
        await asyncio.sleep(1)
        loop = asyncio.get_running_loop()
        return len(vars(loop)["_backoff_ticker_driver"].timers._orders)

    assert asyncio.run(main()) < 2000
    for _ in range(20):
        asyncio.run(asyncio.sleep(0))
    assert len(auto._kernel.loop_drivers) <= 2


@pytest.mark.parametrize("deadline", [float("inf"), None])
def test_a_wait_without_an_end(clock, deadline):
    parker = clock.parker("word")
    task = clock.spawn(parker.park, deadline)
    clock.advance(1e9)
    parker.unpark()
    assert task.result() is True


def test_time_stands_still_for_finalizers_and_their_calls(auto):
    """They come in the middle of whatever the clock is doing, in any thread."""

    class Trash:
        def __init__(self, call):
            self.call = call
            self.me = self

        def __del__(self):
            self.call()

    usual = gc.get_threshold()
    gc.set_threshold(5)
    try:
        for _ in range(300):
            parker = auto.parker()
            Trash(auto.call_at(auto.monotonic() + 5, int).cancel)
            Trash(parker.unpark)
            auto.spawn(auto.sleep, 1).join()
            assert parker.park(None)
    finally:
        gc.set_threshold(*usual)


def test_an_interrupt_at_any_place_leaves_a_clock_that_can_be_closed():
    """A trace function raises at each line of the package, one after the other."""
    rounds = 0
    for place in range(0, 400, 7):
        clock = VirtualClock(auto=True, settle_timeout=0.2)
        count = 0

        def trace(frame, event, argument, place=place):
            nonlocal count
            if "backoff_ticker" not in frame.f_code.co_filename:
                return None
            count += 1
            if count == place:
                sys.settrace(None)
                raise KeyboardInterrupt
            return trace

        try:
            with clock:
                sys.settrace(trace)
                try:
                    clock.sleep(1)
                    clock.spawn(clock.sleep, 1).join()
                    clock.advance(1)
                finally:
                    sys.settrace(None)
        except (KeyboardInterrupt, VirtualTimeError):
            rounds += 1
    assert rounds > 20


def test_a_forked_child_belongs_to_no_clock_of_its_parent():
    done = run_script(
        dedent(
            """
        import os, signal, threading, time, warnings
        from concurrent.futures import ThreadPoolExecutor
        from backoff_ticker import CancellationToken, SystemClock
        from backoff_ticker.testing import ClockUsageError, VirtualClock

        warnings.simplefilter("ignore", DeprecationWarning)
        start, submit = threading.Thread.start, ThreadPoolExecutor.submit
        token = CancellationToken()
        for options in ({}, {"auto": True}):
            for place in ("driver", "participant"):
                children = []

                def fork():
                    child = os.fork()
                    if child:
                        children.append(child)
                        return
                    signal.alarm(10)
                    assert (threading.Thread.start, ThreadPoolExecutor.submit) == (start, submit)
                    assert isinstance(CancellationToken().clock, SystemClock)
                    assert clock.pending() == []
                    try:
                        clock.sleep(1)
                    except ClockUsageError:
                        pass
                    assert CancellationToken().wait(0.001) is False
                    clock.close()
                    os._exit(7)

                with VirtualClock(**options) as clock:
                    stop = CancellationToken()
                    others = [threading.Thread(target=stop.wait, args=(100,)) for _ in range(5)]
                    for other in others:
                        other.start()
                    if place == "driver":
                        fork()
                    else:
                        clock.spawn(fork).join()
                    stop.cancel()
                    for other in others:
                        other.join()
                assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 7

        with VirtualClock() as clock:  # a child may leave the block itself
            clock.spawn(token.wait)
            child = os.fork()
            if not child:
                signal.alarm(10)
            token.cancel()
        if not child:
            assert threading.Thread.start is start
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        print("done")
        """
        )
    )
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_the_thread_of_the_system_clock_is_no_participant_wherever_it_starts():
    done = run_script(
        dedent(
            """
            import threading
            from backoff_ticker import SystemClock
            from backoff_ticker.testing import VirtualClock

            called = threading.Lock()
            called.acquire()
            with VirtualClock(settle_timeout=0.5) as clock:
                SystemClock().call_at(SystemClock().monotonic() + 3600, print)
                SystemClock().call_at(SystemClock().monotonic(), called.release)
                clock.settle()
                assert called.acquire(timeout=10)
                clock.advance(1)
            print("done")
            """
        )
    )
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_an_initializer_of_a_pool_makes_objects_that_are_on_the_clock(clock):
    made = []

    def initialize(word):
        made.append((word, resolve_clock(None)))

    with ThreadPoolExecutor(2, initializer=initialize, initargs=("here",)) as pool:
        assert list(pool.map(len, ["one", "four"])) == [3, 4]
    assert made
    assert set(made) == {("here", clock)}


def test_a_time_out_too_small_for_the_time_is_still_one(clock):
    clock.advance(1e300)
    task = clock.spawn(lambda: "done")
    assert task.result(10) == "done"
    with pytest.raises(TimeoutError):
        clock.spawn(CancellationToken().wait).result(10)
    with pytest.raises(ClockLeakError):
        clock.close()


@pytest.mark.parametrize(
    ("step", "name"),
    [
        (VirtualClock.settle, "settle()"),
        (lambda clock: clock.advance(2), "advance(2)"),
        (lambda clock: clock.advance_to(3.5), "advance_to(3.5)"),
    ],
)
def test_a_step_that_gives_up_says_which(clock, step, name):
    items = queue.SimpleQueue()
    clock.spawn(items.get)
    with pytest.raises(SettleTimeout) as caught:
        step(clock)
    assert str(caught.value).startswith(f"{name} gave up after 1 s of real time at t=0: ")
    items.put(1)


def test_only_those_who_were_waited_for_in_vain_are_waited_for_less(clock):
    """Who moves in between is given the whole time anew."""
    items = queue.SimpleQueue()

    def patience():
        kernel = clock._kernel
        return kernel.ask(lambda: kernel.patience.seconds(kernel.now, kernel.members))

    def work():
        for _ in range(2):
            items.get()
            CancellationToken().wait(1)

    clock.spawn(work)
    assert patience() == 1
    with pytest.raises(SettleTimeout):
        clock.settle()
    assert patience() < 1
    items.put(1)
    clock.settle()
    assert patience() == 1
    with pytest.raises(SettleTimeout):
        clock.advance(1)
    assert patience() < 1
    clock.spawn(items.get)
    assert patience() == 1
    items.put(2)
    items.put(3)
    clock.advance(1)

"""Signals, finalizers and forks in the middle of what a clock does."""

import asyncio
import gc
import signal
import threading
from contextlib import suppress

import pytest

from backoff_ticker import CancellationToken, SystemClock
from backoff_ticker.testing import VirtualClock, VirtualTimeError
from tests import effort
from tests.stress.places import Interrupted, check_each_place, each_place
from tests.stress.tools import Finalized, gc_threshold, run_silently

REAL = SystemClock()


def test_an_interrupt_ends_a_step_and_leaves_the_clock_usable(clock):
    clock.spawn(clock.sleep, 5)
    clock.call_at(1.0, lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        clock.advance(3)
    assert clock.advance_to(5) >= 1
    assert clock.monotonic() == 5.0


def test_time_stands_still_until_the_interrupt_of_a_callback_has_ended_the_wait(auto):
    """The main thread handles another signal before it can say that it waits no more."""
    moved = []

    def press():
        signal.raise_signal(signal.SIGWINCH)  # handled last, by its number
        signal.raise_signal(signal.SIGINT)

    def linger(*_):
        end = REAL.monotonic() + 0.1
        while not moved and REAL.monotonic() < end:
            pass

    usual = signal.signal(signal.SIGWINCH, linger)
    try:
        auto.call_at(1.0, press)
        auto.call_at(2.0, lambda: moved.append(2.0))
        with pytest.raises(KeyboardInterrupt):
            auto.sleep(50)
        assert (moved, auto.monotonic()) == ([], 1.0)
    finally:
        signal.signal(signal.SIGWINCH, usual)


def test_an_interrupt_anywhere_leaves_a_clock_that_can_be_closed():
    start = threading.Thread.start

    def run(interrupt):
        clock = VirtualClock(auto=True, settle_timeout=0.2)
        try:
            with clock, interrupt:
                clock.sleep(1)
                clock.spawn(clock.sleep, 1).join()
                clock.advance(1)
        except (Interrupted, VirtualTimeError):
            pass
        assert clock._kernel.closed
        assert threading.Thread.start is start

    assert each_place(run) > 100


@pytest.mark.parametrize("kind", ["sleep", "step", "loop"])
def test_an_interrupt_anywhere_in_a_wait_of_the_main_thread_ends_that_wait_only(kind):
    """Threads, tasks of a loop, a token and callbacks are due meanwhile, and come at their time."""
    auto = kind != "step"

    def begin(clock, noted):
        def note(name):
            noted.append((name, clock.monotonic()))

        async def sleep_in_task(seconds):
            await asyncio.sleep(seconds)
            note("task")

        async def tasks():
            await asyncio.gather(sleep_in_task(1.5), sleep_in_task(2))

        token = CancellationToken(timeout=3)
        for when in (0.75, 1.5, 2.0):
            clock.call_at(when, lambda: note("callback"))
        return [
            clock.spawn(lambda: clock.sleep(1.5) or note("thread")),
            clock.spawn(lambda: token.wait() and note("token")),
            clock.spawn(asyncio.run, tasks()),
        ]

    def run(interrupt):
        noted = []
        try:
            with VirtualClock(auto=auto, settle_timeout=20) as clock:
                others = begin(clock, noted)
                clock.sleep(0.5) if auto else clock.settle()
                loop = asyncio.new_event_loop()
                loop.call_later(3, loop.stop)
                acts = {"sleep": lambda: clock.sleep(3), "step": lambda: clock.advance(3)}
                with suppress(KeyboardInterrupt), interrupt:
                    acts.get(kind, loop.run_forever)()
                if auto:
                    clock.sleep(5)
                else:
                    clock.advance_to(5)
                    clock.settle()
                loop.close()
                for other in others:
                    other.join()
        except Exception as error:
            return [error]
        expected = [("callback", 0.75), ("callback", 1.5), ("callback", 2.0), ("task", 1.5)]
        expected += [("task", 2.0), ("thread", 1.5), ("token", 3.0)]
        return [noted] if sorted(noted) != expected else []

    def press():
        raise KeyboardInterrupt

    check_each_place(run, press, at_least=11)


def test_finalizers_may_call_the_clock(auto):
    """They run in the middle of whatever the clock is doing, in any thread."""
    left = []

    def finalize(call):
        left.append(None)
        Finalized(lambda: (call(), left.pop()))

    with gc_threshold(5):
        for _ in range(effort.rounds(20, 500 if effort.has_lock() else 100)):
            parker = auto.parker()
            finalize(auto.call_at(auto.monotonic() + 5, int).cancel)
            finalize(parker.unpark)
            auto.spawn(auto.sleep, 1).join()
            if left:  # no collection has reached them meanwhile
                gc.collect()
            assert parker.park(None)


def test_a_forked_child_belongs_to_no_clock_of_its_parent():
    run_silently(
        """
from concurrent.futures import ThreadPoolExecutor
from backoff_ticker.testing import ClockUsageError, VirtualClock
usual = threading.Thread.start, ThreadPoolExecutor.submit

def in_child():
    assert (threading.Thread.start, ThreadPoolExecutor.submit) == usual
    assert isinstance(CancellationToken().clock, SystemClock)
    assert clock.pending() == []
    try:
        clock.sleep(1)
    except ClockUsageError:
        pass
    assert CancellationToken().wait(0.001) is False
    clock.close()

for options in ({}, {"auto": True}):
    with VirtualClock(**options) as clock:
        stop = CancellationToken()
        others = [threading.Thread(target=stop.wait, args=(100,)) for _ in range(5)]
        for other in others:
            other.start()
        for child in (fork(in_child), clock.spawn(fork, in_child).result()):
            assert collect(child) == 0
        stop.cancel()
        for other in others:
            other.join()

with VirtualClock() as clock:  # the child leaves the block, too
    child = os.fork()
    signal.alarm(0 if child else 10)
assert (threading.Thread.start, ThreadPoolExecutor.submit) == usual
if not child:
    os._exit(7)
assert collect(child) == 7
"""
    )

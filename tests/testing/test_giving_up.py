"""Waits that nothing would end, or nobody in time: who is told, when, and how."""

from __future__ import annotations

import asyncio
import queue
import re
import signal
import sys
import threading
import time

import pytest

from backoff_ticker import BackoffTickerError, CancellationToken, testing
from backoff_ticker.testing import (
    ClockUsageError,
    SettleTimeout,
    VirtualClock,
    VirtualDeadlockError,
    VirtualTimeError,
)
from backoff_ticker.testing.liveness import _settle_timeout

from .real_threads import in_real_thread


@pytest.fixture
def auto():
    """As everywhere, but for its patience."""
    with VirtualClock(auto=True, settle_timeout=1) as clock:
        yield clock


@pytest.fixture
def clock():
    """As everywhere, but for its patience."""
    with VirtualClock(settle_timeout=1) as clock:
        yield clock


def test_errors_have_one_root():
    public = [getattr(testing, name) for name in testing.__all__]
    errors = [one for one in public if isinstance(one, type) and issubclass(one, BaseException)]
    assert len(errors) == 7
    assert all(issubclass(one, VirtualTimeError) for one in errors)
    assert issubclass(VirtualTimeError, BackoffTickerError)
    assert issubclass(ClockUsageError, ValueError)
    assert issubclass(SettleTimeout, TimeoutError)


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


def test_only_those_who_were_waited_for_in_vain_are_waited_for_less(clock):
    """Who moves in between is given the whole time anew."""
    items = queue.SimpleQueue()

    def patience():
        kernel = clock._kernel
        return kernel.query(
            lambda: kernel.settle_timer.patience(kernel.parking.now, kernel.run_queue.members)
        )

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


def test_who_catches_a_deadlock_and_waits_again_is_ended():
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


def _put_later(clock, items):
    clock.sleep(5)
    items.put("item")


def test_the_thread_that_entered_is_told_that_it_waits_for_what_time_would_bring(auto):
    items = queue.Queue()
    auto.spawn(_put_later, auto, items)
    with pytest.raises(SettleTimeout, match=r"thread 'MainThread' in queue\.py:\d+ get\(\)"):
        items.get()
    auto.sleep(5)
    assert items.get() == "item"


def test_a_coroutine_that_blocks_the_loop_of_that_thread_is_told_too(auto):
    items = queue.Queue()
    auto.spawn(_put_later, auto, items)

    async def main():
        items.get()

    with pytest.raises(SettleTimeout, match=r"get\(\) <- test_giving_up\.py:\d+ main\(\)"):
        asyncio.run(main())
    auto.sleep(5)


def test_a_thread_that_entered_and_is_not_the_main_one_has_it_shown(monkeypatch):
    told, shown = queue.SimpleQueue(), threading.Event()
    monkeypatch.setattr(sys, "unraisablehook", lambda args: (told.put(args), shown.set()))

    def enter():
        with VirtualClock(auto=True, settle_timeout=0.3) as clock:
            clock.spawn(clock.sleep, 5)
            shown.wait(10)
            clock.sleep(5)

    in_real_thread(enter).join(20)
    error = told.get_nowait().exc_value
    assert isinstance(error, SettleTimeout)
    assert "auto_advance() gave up after 0.3 s of real time at t=0" in str(error)


def test_a_signal_that_somebody_handles_is_left_alone():
    handled = []
    usual = signal.signal(signal.SIGURG, lambda *_: handled.append(1))
    try:
        with VirtualClock(auto=True) as clock:
            clock.sleep(1)
            signal.raise_signal(signal.SIGURG)
        signal.raise_signal(signal.SIGURG)
    finally:
        signal.signal(signal.SIGURG, usual)
    assert handled == [1, 1]
    with VirtualClock(auto=True):
        assert signal.getsignal(signal.SIGURG) is not signal.SIG_DFL
    assert signal.getsignal(signal.SIGURG) is signal.SIG_DFL


def test_who_waits_for_time_that_is_held_too_long_is_told_why(monkeypatch):
    monkeypatch.setattr(_settle_timeout, "_FROZEN", 0.2)
    held = pytest.raises(SettleTimeout, match=r"time is held by external\('the server'\)")
    with VirtualClock(settle_timeout=0.1) as clock, clock.external("the server"), held:
        clock.settle()


def test_a_deadlock_names_the_tasks_of_a_loop_and_where_they_wait(auto):
    async def reader():
        await asyncio.Event().wait()

    async def main():
        async with asyncio.TaskGroup() as group:
            group.create_task(reader(), name="reader")

    with pytest.raises(BaseException) as caught:
        asyncio.run(main())
    text = str(caught.value) + repr(getattr(caught.value, "exceptions", ""))
    place = r"in locks\.py:\d+ wait\(\) <- test_giving_up\.py:\d+ reader\(\)"
    assert re.search(rf"task 'reader' {place}", text)


def test_a_thread_without_a_line_of_the_users_is_placed_all_the_same(clock):
    timer = threading.Timer(30, print)
    timer.start()
    with pytest.raises(SettleTimeout, match=r"thread 'Thread-\d+' in threading\.py:\d+ wait"):
        clock.settle()
    timer.cancel()


def test_two_deadlocks_at_one_time_are_told_alike(auto):
    for _ in range(3):
        with pytest.raises(VirtualDeadlockError):
            CancellationToken().wait()


def test_a_coroutine_that_swallows_every_deadlock_does_not_spin_for_ever(auto):
    async def main():
        while True:
            try:
                await asyncio.Event().wait()
            except VirtualDeadlockError:
                pass

    with pytest.raises(VirtualDeadlockError):
        asyncio.run(main())


def test_a_deadlock_behind_a_thread_or_a_shield_is_reported_and_nothing_else(auto):
    complaints = []

    async def behind_a_thread():
        asyncio.get_running_loop().set_exception_handler(lambda _, what: complaints.append(what))
        await asyncio.to_thread(CancellationToken().wait)

    async def behind_a_shield():
        asyncio.get_running_loop().set_exception_handler(lambda _, what: complaints.append(what))
        await asyncio.shield(asyncio.ensure_future(asyncio.Event().wait()))

    for main in (behind_a_thread, behind_a_shield):
        with pytest.raises(VirtualDeadlockError):
            asyncio.run(main())
    assert complaints == []


@pytest.mark.parametrize("stepping", [True, False])
def test_those_who_get_on_are_waited_for_however_many_they_are(stepping):
    """Thirty in turn keep real time busy for longer, all in all, than one may."""
    with VirtualClock(auto=not stepping, settle_timeout=0.3) as clock:
        moment = threading.Event()
        tasks = [clock.spawn(moment.wait, 0.03) for _ in range(30)]
        if stepping:
            clock.settle()
        for task in tasks:
            task.join()


def test_patience_begins_when_somebody_waits(clock):
    moment, begun = threading.Event(), threading.Event()
    task = clock.spawn(lambda: begun.set() or moment.wait(1.2))
    begun.wait(10)
    moment.wait(0.9)
    task.join()


def test_one_who_works_and_then_waits_is_given_the_whole_time_for_that():
    moment = threading.Event()
    with VirtualClock(auto=True, settle_timeout=0.5) as clock:
        sleeper = clock.spawn(clock.sleep, 1)
        end = time.monotonic() + 0.7
        while time.monotonic() < end:
            pass
        moment.wait(0.3)
        sleeper.join()


def test_a_handler_that_was_set_inside_the_block_stays():
    def own(*_):
        pass

    with VirtualClock(auto=True):
        signal.signal(signal.SIGURG, own)
    try:
        assert signal.getsignal(signal.SIGURG) is own
    finally:
        signal.signal(signal.SIGURG, signal.SIG_DFL)


def test_the_patience_of_one_clock_does_not_end_a_wait_for_another():
    moment = threading.Event()
    with VirtualClock(auto=True, settle_timeout=0.2) as outer:
        outer.spawn(outer.sleep, 5)
        with VirtualClock(settle_timeout=5) as inner:
            inner.spawn(moment.wait, 0.8)
            inner.settle()
        outer.sleep(5)

"""Waits that nothing would end, or nobody in time: who gets an error, when, and which."""

import asyncio
import queue
import re
import signal
import sys
import threading

import pytest

from backoff_ticker import BackoffTickerError, CancellationToken, current_clock, testing
from backoff_ticker.testing import (
    ClockLeakError,
    ClockUsageError,
    SettleTimeout,
    VirtualClock,
    VirtualDeadlockError,
    VirtualTimeError,
    _real_time,
)
from backoff_ticker.testing._main_thread_interrupt import MainThreadInterrupt
from tests.helpers import PATIENCE

from .real_threads import RealThread


@pytest.fixture
def clock_options():
    """Clocks give up earlier."""
    return {"settle_timeout": 0.3}


def test_errors_have_one_root():
    public = [getattr(testing, name) for name in testing.__all__]
    errors = {one for one in public if isinstance(one, type) and issubclass(one, BaseException)}
    errors -= {testing.ScheduleFailure, testing.ScheduleStuck}  # explore() has no virtual clock
    assert len(errors) == 7
    assert all(issubclass(one, VirtualTimeError) for one in errors)
    assert issubclass(VirtualTimeError, BackoffTickerError)
    assert issubclass(ClockUsageError, ValueError)
    assert issubclass(SettleTimeout, TimeoutError)


def test_what_others_make_of_the_module_time_changes_nothing(auto, replaced_time):
    stop = []

    def compute():
        with auto.idle("a result"):
            while not stop:
                pass

    task = auto.spawn(compute)
    auto.sleep(5)
    stop.append(True)
    task.join()
    assert auto.monotonic() == 5.0


# A participant that neither waits nor ends


def test_a_step_names_itself_and_the_thread_that_is_stuck_with_its_place():
    items = queue.Queue()

    def stuck():
        items.get(timeout=60)

    with pytest.raises(ClockLeakError), VirtualClock(settle_timeout=0.1) as clock:
        threading.Thread(target=stuck, name="stuck").start()
        for step, name in [
            (lambda clock: clock.advance(2), "advance(2)"),
            (lambda clock: clock.advance_to(3.5), "advance_to(3.5)"),
        ]:
            with pytest.raises(SettleTimeout) as caught:
                step(clock)
            text = str(caught.value)
            assert text.startswith(f"{name} gave up after 0.1 s of real time at t=0: 1 of 1 ")
            assert re.search(r"'stuck' in queue\.py:\d+ get\(\) <- test_liveness\.py:\d+ st", text)
    items.put(None)


def test_a_thread_without_a_frame_of_user_code_has_a_place(clock):
    timer = threading.Timer(30, print)
    timer.start()
    with pytest.raises(SettleTimeout, match=r"thread 'Thread-\d+' in threading\.py:\d+ wait"):
        clock.settle()
    timer.cancel()


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


def test_time_that_is_frozen_for_too_long_is_reported_with_the_reason(monkeypatch):
    monkeypatch.setattr(_real_time, "_HELD", 0.2)
    frozen = pytest.raises(SettleTimeout, match=r"time is held by external\('the server'\)")
    with VirtualClock(settle_timeout=0.1) as clock, clock.external("the server"), frozen:
        clock.settle()


def test_participants_that_make_progress_have_more_time_together(clock):
    """Twelve in turn take longer together than one may."""
    moment = threading.Event()
    tasks = [clock.spawn(moment.wait, 0.03) for _ in range(12)]
    clock.settle()
    assert all(task.done() for task in tasks)


# The thread that entered


def test_the_main_thread_gets_an_error_where_it_waits_for_what_time_would_bring(auto):
    items = queue.Queue()
    auto.spawn(lambda: auto.sleep(5) or items.put("item"))
    with pytest.raises(SettleTimeout, match=r"thread 'MainThread' in queue\.py:\d+ get\(\)"):
        items.get()
    auto.sleep(5)
    assert items.get() == "item"


def test_the_error_of_another_thread_that_entered_is_reported(monkeypatch):
    reported, seen = queue.SimpleQueue(), threading.Event()
    monkeypatch.setattr(sys, "unraisablehook", lambda args: (reported.put(args), seen.set()))

    def enter():
        with VirtualClock(auto=True, settle_timeout=0.1) as clock:
            clock.spawn(clock.sleep, 5)
            seen.wait(10)
            clock.sleep(5)

    RealThread(enter).join(20)
    error = reported.get_nowait().exc_value
    assert isinstance(error, SettleTimeout)
    assert "auto_advance() gave up after 0.1 s of real time at t=0" in str(error)


def test_the_signal_is_handled_only_while_it_is_free():
    assert signal.getsignal(signal.SIGURG) is signal.SIG_DFL
    with VirtualClock(auto=True):
        assert signal.getsignal(signal.SIGURG) is not signal.SIG_DFL
    assert signal.getsignal(signal.SIGURG) is signal.SIG_DFL

    def own(*_):
        pass

    try:
        for _ in range(2):  # set inside the block, then before it
            with VirtualClock(auto=True) as clock:
                clock.sleep(1)
                signal.signal(signal.SIGURG, own)
                clock.sleep(1)
            assert signal.getsignal(signal.SIGURG) is own
    finally:
        signal.signal(signal.SIGURG, signal.SIG_DFL)


def test_the_end_of_a_callback_may_be_told_twice(monkeypatch):
    """As where a signal comes while it is told."""
    monkeypatch.setattr(MainThreadInterrupt, "after_signals", lambda _, told: (told(), told()))
    with VirtualClock() as clock:
        clock.call_at(1, lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            clock.advance(1)
        clock.advance(1)


# Deadlocks


def test_participants_that_wait_for_each_other_are_named():
    with VirtualClock(auto=True, settle_timeout=3600) as clock:  # no look of the watchdog is needed
        mine, yours = CancellationToken(), CancellationToken()
        one = clock.spawn(lambda: mine.wait() and yours.cancel())
        two = clock.spawn(lambda: yours.wait() and mine.cancel())
        with pytest.raises(VirtualDeadlockError) as caught:
            one.join()
        assert one.name in str(caught.value)
        assert two.name in str(caught.value)
        assert "token" in str(caught.value).lower()


def test_a_deadlock_is_raised_in_tasks_and_names_them_with_their_places(auto):
    caught = []

    async def reader():
        try:
            await asyncio.Event().wait()
        except VirtualDeadlockError as error:
            caught.append(str(error))
            raise

    async def main():
        readers = [asyncio.create_task(reader(), name=f"reader {n}") for n in range(2)]
        await asyncio.gather(*readers, return_exceptions=True)

    asyncio.run(main())
    assert len(caught) == 2
    place = r"in locks\.py:\d+ wait\(\) <- test_liveness\.py:\d+ reader\(\)"
    assert re.search(rf"MainThread: event loop.*task 'reader 0' {place}", caught[0])


def test_a_participant_that_catches_a_deadlock_and_waits_again_is_ended(auto):
    caught = []

    def again():
        while True:
            try:
                auto.parker("nothing").park(None)
            except VirtualDeadlockError as error:
                caught.append(error)

    thread = threading.Thread(target=again)
    thread.start()
    with pytest.raises(VirtualDeadlockError):
        thread.join()
    thread.join()
    assert len(caught) == 1


def test_a_coroutine_that_catches_every_deadlock_does_not_spin_for_ever(auto):
    async def main():
        while True:
            try:
                await asyncio.Event().wait()
            except VirtualDeadlockError:
                pass

    with pytest.raises(VirtualDeadlockError):
        asyncio.run(main())


@pytest.mark.parametrize(
    "wait",
    [
        lambda: asyncio.to_thread(CancellationToken().wait),
        lambda: asyncio.shield(asyncio.ensure_future(asyncio.Event().wait())),
    ],
    ids=["thread", "shield"],
)
def test_a_deadlock_behind_a_thread_or_a_shield_is_raised_and_not_reported(auto, wait):
    reported = []

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda _, what: reported.append(what))
        await wait()

    with pytest.raises(VirtualDeadlockError):
        asyncio.run(main())
    assert reported == []


# Threads for callbacks, threads that wait for work


def test_a_callback_that_blocks_is_reported_while_it_blocks(auto):
    moment = threading.Event()
    auto.call_at(1, moment.wait)
    with pytest.raises(SettleTimeout):
        auto.sleep(5)
    assert not moment.is_set()
    moment.set()


def test_a_deadlock_beside_a_thread_that_waits_for_work_reaches_all_other_waits(auto):
    threading.Thread(target=queue.Queue().get, daemon=True).start()
    task = auto.spawn(CancellationToken().wait)
    for wait in (CancellationToken().wait, task.join):
        with pytest.raises(VirtualDeadlockError):
            wait()


def test_a_daemon_thread_that_outlives_its_clock_is_on_the_clock_of_the_system():
    jobs, answers = queue.Queue(), queue.SimpleQueue()

    def work():
        while True:
            answers.put(jobs.get()())

    with VirtualClock(auto=True) as clock:
        threading.Thread(target=work, daemon=True).start()
        jobs.put(current_clock)
        clock.sleep(1)
        assert answers.get() is clock
    jobs.put(lambda: CancellationToken(timeout=0.01).wait())
    assert answers.get(timeout=PATIENCE) is True

"""Waits that nothing would end, or nobody in time: who gets an error, when, and which."""

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
    ClockLeakError,
    ClockUsageError,
    SettleTimeout,
    VirtualClock,
    VirtualDeadlockError,
    VirtualTimeError,
)
from backoff_ticker.testing.liveness import _external_waits, _settle_timeout, _stall_detector
from backoff_ticker.testing.liveness._settle_timeout import SettleTimer
from backoff_ticker.testing.liveness._stall_detector import StallDetector
from backoff_ticker.testing.participants._participant import Participant, State
from tests.helpers import eventually

from .real_threads import in_real_thread


@pytest.fixture
def auto():
    """As everywhere, but it gives up earlier."""
    with VirtualClock(auto=True, settle_timeout=0.3) as clock:
        yield clock


@pytest.fixture
def clock():
    """As everywhere, but it gives up earlier."""
    with VirtualClock(settle_timeout=0.3) as clock:
        yield clock


def test_errors_have_one_root():
    public = [getattr(testing, name) for name in testing.__all__]
    errors = [one for one in public if isinstance(one, type) and issubclass(one, BaseException)]
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
        items.get()

    with pytest.raises(ClockLeakError), VirtualClock(settle_timeout=0.1) as clock:
        threading.Thread(target=stuck, name="stuck").start()
        for step, name in [
            (VirtualClock.settle, "settle()"),
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
    monkeypatch.setattr(_settle_timeout, "_FROZEN", 0.2)
    frozen = pytest.raises(SettleTimeout, match=r"time is held by external\('the server'\)")
    with VirtualClock(settle_timeout=0.1) as clock, clock.external("the server"), frozen:
        clock.settle()


def test_a_participant_that_was_waited_for_in_vain_is_waited_for_again_once_it_has_moved(clock):
    items = queue.SimpleQueue()

    def work():
        for _ in range(2):
            items.get()
            CancellationToken().wait(1)

    task = clock.spawn(work)
    with pytest.raises(SettleTimeout):
        clock.settle()
    items.put(1)
    clock.settle()
    with pytest.raises(SettleTimeout):
        clock.advance(1)
    items.put(2)
    clock.settle()
    clock.advance(1)
    assert task.done()


@pytest.mark.parametrize("stepping", [True, False])
def test_participants_that_make_progress_have_more_time_together(stepping):
    """Twenty in turn take longer together than one may."""
    with VirtualClock(auto=not stepping, settle_timeout=0.3) as clock:
        moment = threading.Event()
        tasks = [clock.spawn(moment.wait, 0.03) for _ in range(20)]
        if stepping:
            clock.settle()
        for task in tasks:
            task.join()


@pytest.mark.slow
def test_a_driver_that_works_and_then_waits_has_the_whole_settle_timeout_for_that():
    moment = threading.Event()
    with VirtualClock(auto=True, settle_timeout=0.5) as clock:
        sleeper = clock.spawn(clock.sleep, 1)
        end = time.monotonic() + 0.7
        while time.monotonic() < end:
            pass
        moment.wait(0.3)
        sleeper.join()


@pytest.mark.slow
def test_the_settle_timeout_begins_when_somebody_waits():
    moment, begun = threading.Event(), threading.Event()
    with VirtualClock(settle_timeout=1) as clock:
        task = clock.spawn(lambda: begun.set() or moment.wait(1.2))
        begun.wait(10)
        moment.wait(0.9)
        task.join()


# The thread that entered


def _put_later(clock, items):
    clock.sleep(5)
    items.put("item")


def test_the_main_thread_gets_an_error_where_it_waits_for_what_time_would_bring(auto):
    items = queue.Queue()
    auto.spawn(_put_later, auto, items)
    with pytest.raises(SettleTimeout, match=r"thread 'MainThread' in queue\.py:\d+ get\(\)"):
        items.get()
    auto.sleep(5)
    assert items.get() == "item"


def test_a_coroutine_that_blocks_the_loop_of_the_main_thread_gets_it_too(auto):
    items = queue.Queue()
    auto.spawn(_put_later, auto, items)

    async def main():
        items.get()

    with pytest.raises(SettleTimeout, match=r"get\(\) <- test_liveness\.py:\d+ main\(\)"):
        asyncio.run(main())
    auto.sleep(5)


def test_the_error_of_another_thread_that_entered_is_reported(monkeypatch):
    reported, seen = queue.SimpleQueue(), threading.Event()
    monkeypatch.setattr(sys, "unraisablehook", lambda args: (reported.put(args), seen.set()))

    def enter():
        with VirtualClock(auto=True, settle_timeout=0.1) as clock:
            clock.spawn(clock.sleep, 5)
            seen.wait(10)
            clock.sleep(5)

    in_real_thread(enter).join(20)
    error = reported.get_nowait().exc_value
    assert isinstance(error, SettleTimeout)
    assert "auto_advance() gave up after 0.1 s of real time at t=0" in str(error)


def test_the_time_out_of_one_clock_says_nothing_of_a_wait_for_another(monkeypatch):
    moment, reported = threading.Event(), []
    monkeypatch.setattr(sys, "unraisablehook", reported.append)

    def enter_both():
        with VirtualClock(auto=True, settle_timeout=0.1) as outer:
            outer.spawn(outer.sleep, 5)
            with VirtualClock(settle_timeout=5) as inner:
                inner.spawn(moment.wait, 0.4)
                inner.settle()
            outer.sleep(5)

    in_real_thread(enter_both).join(20)
    assert reported == []


def test_the_signal_is_handled_only_while_it_is_free():
    assert signal.getsignal(signal.SIGURG) is signal.SIG_DFL
    with VirtualClock(auto=True):
        assert signal.getsignal(signal.SIGURG) is not signal.SIG_DFL
    assert signal.getsignal(signal.SIGURG) is signal.SIG_DFL
    handled = []
    usual = signal.signal(signal.SIGURG, lambda *_: handled.append(1))
    try:
        with VirtualClock(auto=True) as clock:
            clock.sleep(1)
            signal.raise_signal(signal.SIGURG)
    finally:
        signal.signal(signal.SIGURG, usual)
    assert handled == [1]


def test_a_signal_handler_that_was_set_inside_the_block_stays():
    def own(*_):
        pass

    with VirtualClock(auto=True):
        signal.signal(signal.SIGURG, own)
    try:
        assert signal.getsignal(signal.SIGURG) is own
    finally:
        signal.signal(signal.SIGURG, signal.SIG_DFL)


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


def test_two_deadlocks_at_one_time_raise_alike(auto):
    for _ in range(3):
        with pytest.raises(VirtualDeadlockError):
            CancellationToken().wait()


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


async def _behind_a_thread():
    await asyncio.to_thread(CancellationToken().wait)


async def _behind_a_shield():
    await asyncio.shield(asyncio.ensure_future(asyncio.Event().wait()))


@pytest.mark.parametrize("wait", [_behind_a_thread, _behind_a_shield])
def test_a_deadlock_behind_a_thread_or_a_shield_is_raised_and_not_reported(auto, wait):
    reported = []

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda _, what: reported.append(what))
        await wait()

    with pytest.raises(VirtualDeadlockError):
        asyncio.run(main())
    assert reported == []


# When a step gives up, judged by looks at an invented real time


def member(turn=1, state=State.RUNNING):
    made = Participant("one", ident=1)
    made.last_turn, made.state = turn, state
    return made


def expires_at(timer, members, begin, now=0, frozen=(), progress=()):
    """Return the first of 100 whole seconds of real time at which the timer has expired."""
    for real in range(begin, begin + 100):
        moves = sum(moment <= real for moment in progress)
        if timer.has_expired(float(real), now, moves, members, frozen=real in frozen):
            return real
    return None


def test_the_settle_timeout_starts_again_when_time_moves_or_a_step_begins():
    timer, members = SettleTimer(5.0, 0), [member()]
    assert expires_at(timer, members, 100) == 105
    assert expires_at(timer, members, 106) == 110
    assert expires_at(timer, members, 112, now=7) == 117
    timer.restart()
    assert expires_at(timer, members, 121, now=7) == 126


def test_frozen_time_has_a_minute_or_a_longer_settle_timeout():
    assert expires_at(SettleTimer(5.0, 0), [member()], 100, frozen=range(100, 109)) == 114
    assert expires_at(SettleTimer(5.0, 0), [member()], 100, frozen=range(100, 300)) == 160
    assert expires_at(SettleTimer(70.0, 0), [member()], 100, frozen=range(100, 300)) == 170


def test_progress_extends_the_settle_timeout_but_not_for_ever():
    assert expires_at(SettleTimer(5.0, 0), [member()], 100, progress=[102, 106, 110]) == 115
    assert expires_at(SettleTimer(5.0, 0), [member()], 100, progress=range(100, 300)) == 160


def test_abandoned_participants_get_little_time_until_they_move():
    timer, one, parked = SettleTimer(5.0, 0), member(), member(state=State.PARKED)
    assert timer.patience(0, [one, parked]) == 5.0
    timer.abandon(0, [one, parked])
    assert timer.abandoned(0, [one, parked]) == {one}
    assert timer.patience(0, [one, parked]) < 1.0
    assert timer.patience(0, [one, member()]) == 5.0
    assert timer.patience(1, [one, parked]) == 5.0
    one.last_turn += 1
    assert timer.abandoned(0, [one, parked]) == set()


# When another participant gets a turn, judged the same way

LOOK = _stall_detector.LOOK_INTERVAL
ONE = [Participant("one", ident=1)]


@pytest.mark.parametrize(
    ("expected", "case"),
    [
        ({5, 6}, {}),  # a twentieth of a second; floats
        ({None}, {"active": True}),
        ({None}, {"computes": True, "rounds": 1000}),  # however long
        ({None}, {"interval": 2.5 * LOOK}),  # looks that come late judge nobody
        ({None}, {"running": [*ONE, Participant("has no thread yet")]}),
        ({None}, {"turns": lambda number: 1 + number // 4}),  # new turns
        ({None}, {"running": []}),
    ],
    ids=["stalled", "active", "computes", "late", "not begun", "new turns", "nobody"],
)
def test_a_turn_is_shared_once_nobody_has_done_anything_for_a_while(monkeypatch, expected, case):
    monkeypatch.setattr(_stall_detector, "others_are_active", lambda: case.get("active", False))
    monkeypatch.setattr(_stall_detector, "is_active", lambda _: case.get("computes", False))
    turns, running = case.get("turns", lambda _: 1), case.get("running", ONE)
    detector = StallDetector()
    stalled = [
        number
        for number in range(case.get("rounds", 40))
        if detector.is_stalled(100 + number * case.get("interval", LOOK), turns(number), running)
    ]
    assert (stalled[0] if stalled else None) in expected


@pytest.mark.parametrize(("state", "active"), [("R", True), ("D", True), ("S", False)])
def test_a_thread_that_waits_for_the_machine_is_active(monkeypatch, tmp_path, state, active):
    """For a processor, memory or a disk: in no way for another participant."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text(f"7 (a (thread)) {state} 1 1 0")
    monkeypatch.setattr(_stall_detector, "_THREADS", tmp_path)
    assert _stall_detector.is_active(7) is active
    assert _stall_detector.is_active(8) is False


def test_only_the_watchdog_judges(auto, monkeypatch):
    """A participant that finds its command would hold itself for stalled, and get on slowly."""
    kernel, shared = auto._kernel, []
    monkeypatch.setattr(kernel, "_share_turn", lambda: shared.append(threading.get_ident()))
    monkeypatch.setattr(kernel._stall_detector, "is_stalled", lambda *_: True)
    kernel.post(kernel.look, 0.0)
    assert threading.get_ident() not in shared
    eventually(lambda: shared)
    assert set(shared) == {kernel.watchdog.ident}


@pytest.mark.parametrize(("has_acted", "found"), [(True, True), (False, False)])
def test_an_idle_thread_that_was_found_asleep_but_has_acted_is_looked_at_more_often(
    has_acted, found, monkeypatch
):
    """It sleeps until it gets the interpreter; it comes back at the fifth look."""
    asked, looks = [], []

    class Activity:
        def has_changed(self, native):
            asked.append(native)
            return has_acted

    def came_back():
        looks.append(len(looks) + 1)
        return len(looks) == 5

    monkeypatch.setattr(_external_waits, "Activity", Activity)
    monkeypatch.setattr(_external_waits, "is_active", lambda native: False)
    monkeypatch.setattr(_external_waits, "_SLOW", 60.0)
    thread = Participant("thread")
    assert _external_waits.wait_for_return([thread], came_back) is found
    assert asked

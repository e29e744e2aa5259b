"""Steps, traps, inspection, holds, and bad input of a virtual clock."""

from __future__ import annotations

import asyncio
import math
import queue
import signal
import threading

import pytest

from backoff_ticker import CancellationToken, ConstantBackOff, Ticker
from backoff_ticker.testing import (
    ClockLeakError,
    ClockUsageError,
    SettleTimeout,
    VirtualClock,
    VirtualTimeError,
)

from .real_threads import in_real_thread


@pytest.fixture
def clock():
    with VirtualClock() as clock:
        yield clock


@pytest.fixture
def auto():
    with VirtualClock(auto=True) as clock:
        yield clock


def test_advance_counts_what_fired(clock):
    for when in (1, 2, 3):
        clock.call_at(when, lambda: None)
    clock.spawn(clock.sleep, 2)
    assert clock.advance(2) == 3
    assert clock.advance(5) == 1


def test_advance_to_and_advance_next(clock):
    clock.call_at(2.5, lambda: None)
    assert clock.advance_next() == 2.5
    with pytest.raises(ClockUsageError, match="no timer is pending"):
        clock.advance_next()
    assert clock.advance_to(10) == 0
    assert clock.monotonic() == 10.0
    with pytest.raises(ClockUsageError, match="time does not go back"):
        clock.advance_to(9.5)


def test_settle_fires_what_is_due_and_time_stands_still(clock):
    seen = []
    clock.call_at(0.0, lambda: clock.call_at(0.0, lambda: seen.append("due")))
    clock.call_at(1e-9, lambda: seen.append("later"))
    task = clock.spawn(seen.append, "task")
    clock.settle()
    assert (seen, task.done(), clock.monotonic()) == (["task", "due"], True, 0.0)


def test_a_float_that_is_no_whole_nanosecond_neither_wakes_early_nor_spins(clock):
    deadlines = [0.1 + 0.2, 1 / 3, math.pi, 1e-12, 2**-40]
    woken = []

    def wait(deadline):
        assert not clock.parker().park(deadline)
        woken.append(clock.monotonic() >= deadline)

    for deadline in deadlines:
        clock.spawn(wait, deadline)
    clock.advance(4)
    assert woken == [True] * len(deadlines)


def test_a_callback_that_raises_ends_the_step_there(clock):
    clock.call_at(1.0, lambda: 1 / 0)
    clock.call_at(2.0, lambda: None)
    with pytest.raises(ZeroDivisionError):
        clock.advance(5)
    assert clock.monotonic() == 1.0
    assert clock.advance(4) == 1


def test_a_callback_that_raises_by_itself_is_raised_at_the_end():
    with pytest.raises(ZeroDivisionError) as caught:  # noqa: SIM117
        with VirtualClock(auto=True) as clock:
            clock.call_at(1.0, lambda: 1 / 0)
            clock.call_at(2.0, lambda: {}["missing"])
            clock.sleep(3)
    assert "KeyError" in caught.value.__notes__[0]


def test_the_blocks_own_error_is_not_hidden_by_what_is_left():
    with pytest.raises(KeyError) as caught:  # noqa: SIM117
        with VirtualClock() as clock:
            clock.spawn(clock.sleep, 5)
            raise KeyError
    assert "ClockLeakError: 1 participant still waited" in caught.value.__notes__[0]


def test_run_returns_and_raises_what_the_function_does():
    clock = VirtualClock()
    assert clock.run(lambda seconds: clock.sleep(seconds) or clock.monotonic(), 5) == 5.0
    with pytest.raises(ZeroDivisionError):
        clock.run(lambda: 1 / 0)

    async def main():
        await asyncio.sleep(60)
        return asyncio.get_running_loop().time()

    assert clock.run_async(main()) == 65.0
    clock.close()
    clock.close()


# Where a call cannot be right


def test_steps_in_a_coroutine_are_refused(clock):
    async def main():
        for call in (lambda: clock.advance(1), clock.settle, lambda: clock.sleep(1)):
            with pytest.raises(ClockUsageError, match="would block this event loop"):
                call()
        with (
            pytest.raises(ClockUsageError, match="would block this event loop"),
            clock.idle("nothing"),
        ):
            pass

    asyncio.run(main())


def test_steps_in_a_participant_are_refused(clock):
    with pytest.raises(ClockUsageError, match="which the clock waits for"):
        clock.spawn(clock.advance, 1).join()


def test_the_driver_that_waits_by_hand_is_told_so(clock):
    with pytest.raises(ClockUsageError, match=r"waits on it \(sleep\(\)\)"):
        clock.sleep(1)
    ticker = Ticker(ConstantBackOff(1))
    ticker.receive()
    with pytest.raises(ClockUsageError, match="Call advance"):
        ticker.receive()
    token = CancellationToken()
    clock.spawn(token.cancel)
    assert token.wait() is True


def test_a_coroutine_by_hand_that_nothing_would_wake_is_told_so(clock):
    async def main():
        with pytest.raises(ClockUsageError, match="advance_async"):
            await asyncio.sleep(1)
        return "went on"

    assert asyncio.run(main()) == "went on"


def test_two_steps_at_once_are_refused(clock):
    async def main():
        one = asyncio.ensure_future(clock.advance_async(1))
        with pytest.raises(ClockUsageError, match="one step at a time"):
            await asyncio.gather(one, clock.advance_async(1))
        await one

    asyncio.run(main())
    assert clock.monotonic() == 1.0


@pytest.mark.parametrize(
    "call",
    [
        lambda clock: clock.advance("1"),
        lambda clock: clock.advance(math.nan),
        lambda clock: clock.sleep(-1),
        lambda clock: clock.call_at(math.inf, int),
        lambda clock: clock.call_at(1, 5),
        lambda clock: clock.trap("now"),
        lambda clock: clock.block_until(timers=1, timeout=math.nan),
        lambda clock: VirtualClock(start="0"),
        lambda clock: VirtualClock(auto=1),
        lambda clock: VirtualClock(settle_timeout=-1),
    ],
)
def test_bad_input_is_refused(clock, call):
    with pytest.raises((TypeError, ValueError)):
        call(clock)
    assert clock.advance(1) == 0


def test_errors_have_one_root():
    assert issubclass(ClockUsageError, (VirtualTimeError, ValueError))
    assert issubclass(SettleTimeout, TimeoutError)


def test_a_clock_is_entered_once(clock):
    with pytest.raises(ClockUsageError, match="entered once"):
        clock.__enter__()


# What stands outside


def test_external_holds_time_and_lets_others_run(auto):
    go, ran = queue.Queue(), []
    with auto.external("somebody"):
        other = auto.spawn(lambda: ran.append(auto.monotonic()) or auto.sleep(5))
        in_real_thread(lambda: go.put(1))
        assert go.get(timeout=10) == 1
        auto.block_until(parked=1)
        assert (ran, auto.monotonic()) == ([0.0], 0.0)
    other.join()
    assert auto.monotonic() == 5.0


def test_idle_lets_time_pass(auto):
    items = queue.Queue()
    with auto.idle("an item"):
        auto.spawn(lambda: auto.sleep(5) or items.put(auto.monotonic()))
        assert items.get(timeout=10) == 5.0


def test_a_runner_that_waits_for_a_lock_does_not_stop_who_holds_it(auto):
    lock, entered = threading.Lock(), threading.Event()

    def hold():
        with lock:
            entered.set()
            auto.sleep(1)
            for _ in range(3):
                auto.parker().park(auto.monotonic())

    holder = auto.spawn(hold)
    auto.sleep(1)
    with lock:
        assert entered.is_set()
    holder.join()


# Inspection


def test_pending_tells_what_is_due(clock):
    clock.call_at(3.0, lambda: None).cancel()
    clock.call_at(2.0, int)
    clock.spawn(clock.sleep, 1)
    clock.settle()
    first, second = clock.pending()
    assert (first.when, first.what, first.owner) == (1.0, "sleep()", "sleep-1")
    assert (second.when, second.what, second.owner) == (2.0, "call of int", None)
    clock.advance(1)


def test_block_until_waits_for_threads_that_nobody_tracks():
    with VirtualClock(strict=False) as clock:
        thread = in_real_thread(lambda: clock.sleep(5))
        clock.block_until(timers=1)
        clock.advance(5)
        thread.join(10)
        with pytest.raises(SettleTimeout, match=r"block_until\(timers=1\): only 0 timers"):
            clock.block_until(timers=1, timeout=0.05)


def test_a_trap_holds_a_call_between_two_reads(clock):
    with clock.trap("monotonic") as trap:
        elapsed = clock.spawn(lambda: -clock.monotonic() + clock.monotonic())
        trap.wait().release()
        second = trap.wait()
        clock.advance(5)
        second.release()
        second.release()
        assert elapsed.result() == 5.0
        with pytest.raises(SettleTimeout, match=r"no call of monotonic\(\) came"):
            trap.wait()


def test_a_trap_takes_what_matches_and_lets_go_when_it_is_closed(clock):
    with clock.trap("call_at", lambda when, callback: when > 5) as trap:
        clock.spawn(lambda: [clock.call_at(when, int) for when in (1, 9)])
        call = trap.wait()
        assert (call.args[0], [info.when for info in clock.pending()]) == (9, [1.0])
    clock.settle()
    assert [info.when for info in clock.pending()] == [1.0, 9.0]


# Ends


def test_who_catches_everything_is_ended_all_the_same():
    ended = []

    def stubborn(clock):
        for _ in range(3):
            try:
                clock.sleep(5)
            except BaseException as error:
                ended.append(type(error).__name__)

    with pytest.raises(ClockLeakError), VirtualClock() as clock:
        clock.spawn(stubborn, clock)
    assert ended == ["Unwind"] * 3


def test_an_interrupt_ends_a_step_and_the_clock_goes_on(clock):
    clock.spawn(clock.sleep, 5)
    clock.call_at(1.0, lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        clock.advance(3)
    assert clock.advance_to(5) >= 1
    assert clock.monotonic() == 5.0


def test_without_strictness_and_in_parallel():
    with VirtualClock(strict=False, one_at_a_time=False) as clock:
        tasks = [clock.spawn(clock.sleep, 1) for _ in range(20)]
        assert clock.advance(1) == 20
        assert all(task.done() for task in tasks)


def test_a_thousand_cancelled_timers_are_forgotten(clock):
    for _ in range(10_000):
        clock.call_at(100.0, int).cancel()
    assert len(clock._kernel.timers) < 100


def test_pending_lists_the_timers_of_each_loop(clock):
    async def sleep_twice():
        gone = asyncio.create_task(asyncio.sleep(2))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.gather(asyncio.sleep(3), asyncio.sleep(1), return_exceptions=True)

    clock.call_at(2, print)
    loop = threading.Thread(target=asyncio.run, args=(sleep_twice(),), name="loop")
    loop.start()
    thread = clock.spawn(clock.sleep, 4)
    clock.settle()
    assert [(info.when, info.owner) for info in clock.pending()] == [
        (1, "loop"),
        (2, None),
        (3, "loop"),
        (4, thread.name),
    ]
    clock.block_until(timers=4)
    clock.advance(4)
    assert clock.pending() == []


def test_a_wait_of_the_driver_waits_for_those_who_are_idle(clock):
    items = queue.SimpleQueue()

    def get():
        with clock.idle("an item"):
            return items.get()

    for _ in range(200):
        task = clock.spawn(get)
        clock.settle()
        items.put("item")
        assert task.result(10) == "item"


def test_a_wait_of_the_driver_for_somebody_idle_for_ever_is_over_in_time():
    items = queue.SimpleQueue()
    with VirtualClock(settle_timeout=0.3) as clock:

        def get():
            with clock.idle("an item"):
                return items.get()

        task = clock.spawn(get)
        with pytest.raises(TimeoutError):
            task.result(10)
        with pytest.raises(ClockUsageError, match="time stands still"):
            task.result()
        items.put("item")
        assert task.result() == "item"


def test_a_loop_for_which_time_went_on_while_it_did_not_run_fires_what_is_due():
    with VirtualClock(auto=True, settle_timeout=1) as clock:
        called = []
        loop = asyncio.new_event_loop()
        loop.call_later(1, called.append, 1)
        clock.sleep(1)
        loop.run_until_complete(asyncio.sleep(0.5))
        loop.close()
    assert called == [1]


def test_a_loop_that_a_trap_held_fires_what_is_due(clock):
    async def main():
        called = []
        loop = asyncio.get_running_loop()
        clock.time()
        loop.call_later(0, called.append, 1)
        await asyncio.sleep(0.5)
        return called

    with clock.trap("time") as trap:
        task = clock.spawn(lambda: asyncio.run(main()))
        held = trap.wait()
        clock.advance(1000)
        held.release()
        clock.advance(1)
        assert task.result() == [1]

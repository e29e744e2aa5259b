"""Steps: time that moves as far as it is told to."""

import asyncio
import math
from datetime import timedelta

import pytest

from backoff_ticker import CancellationToken, ConstantBackOff, Ticker
from backoff_ticker.testing import ClockUsageError, UntrackedLoopError, VirtualClock


def test_advance_counts_the_timers_that_fired(clock):
    for when in (1, 2, 3):
        clock.call_at(when, lambda: None)
    clock.spawn(clock.sleep, 2)
    assert clock.advance(2) == 3
    assert clock.advance(timedelta(seconds=5)) == 1
    assert clock.monotonic() == 7.0


def test_advance_to_goes_to_a_time_and_advance_next_to_a_timer(clock):
    clock.call_at(2.5, lambda: None)
    assert clock.advance_next() == 2.5
    with pytest.raises(ClockUsageError, match="no timer is pending"):
        clock.advance_next()
    assert clock.advance_to(10) == 0
    assert clock.monotonic() == 10.0
    with pytest.raises(ClockUsageError, match="time does not go back"):
        clock.advance_to(9.5)
    with pytest.raises(ClockUsageError, match=r"by -1\.0: time does not go back"):
        clock.advance(-1.0)


def test_settle_fires_what_is_due_without_moving_time(clock):
    seen = []
    clock.call_at(0.0, lambda: clock.call_at(0.0, lambda: seen.append("due")))
    clock.call_at(1e-9, lambda: seen.append("later"))
    task = clock.spawn(seen.append, "task")
    clock.settle()
    assert (seen, task.done(), clock.monotonic()) == (["task", "due"], True, 0.0)


def test_the_two_times_differ_by_the_epoch_and_begin_at_the_start():
    with VirtualClock(5.0, epoch=100.0) as clock:
        clock.advance(2)
        assert (clock.monotonic(), clock.time()) == (7.0, 107.0)


def test_ten_tenths_are_one(clock):
    fired = []
    clock.call_at(1.0, lambda: fired.append(clock.monotonic()))
    for _ in range(10):
        clock.advance(0.1)
    assert (fired, clock.monotonic()) == ([1.0], 1.0)


def test_a_deadline_between_two_nanoseconds_neither_wakes_early_nor_spins(clock):
    deadlines = [0.1 + 0.2, 1 / 3, math.pi, 1e-12, 2**-40]
    woken = []

    def wait(deadline):
        assert not clock.parker().park(deadline)
        woken.append(clock.monotonic() >= deadline)

    for deadline in deadlines:
        clock.spawn(wait, deadline)
    clock.advance(4)
    assert woken == [True] * len(deadlines)


@pytest.mark.parametrize("deadline", [math.inf, None])
def test_a_wait_without_limit_lasts_until_it_is_unparked(clock, deadline):
    parker = clock.parker("word")
    task = clock.spawn(parker.park, deadline)
    clock.advance(1e9)
    parker.unpark()
    assert task.result() is True


def test_unparks_before_a_wait_end_that_one_wait(clock):
    parker = clock.parker()
    parker.unpark()
    parker.unpark()
    assert clock.spawn(lambda: [parker.park(None), parker.park(0.0)]).result() == [True, False]


def test_time_has_an_end(clock):
    clock.advance(1e308)
    with pytest.raises(ClockUsageError, match="out of range"):
        clock.advance(1e308)
    assert clock.monotonic() == 1e308


# Callbacks


@pytest.mark.parametrize("kind", [SystemExit, asyncio.CancelledError, ValueError])
def test_the_error_of_a_callback_ends_the_step_there(clock, kind):
    def fail():
        raise kind

    sleeper = clock.spawn(clock.sleep, 2)
    clock.call_at(1.0, fail)
    with pytest.raises(kind):
        clock.advance(5)
    assert clock.monotonic() == 1.0
    assert clock.advance(4) == 1
    assert sleeper.done()


def test_a_callback_may_call_every_method_that_does_not_wait(clock):
    seen = []

    def callback():
        clock.call_at(2.0, lambda: seen.append(clock.monotonic()))
        clock.pending()
        clock.time()
        seen.append(clock.monotonic())

    clock.call_at(1.0, callback)
    clock.advance(3)
    assert seen == [1.0, 2.0]


@pytest.mark.parametrize(
    "call",
    [
        lambda clock: clock.sleep(1),
        lambda clock: clock.idle("an item").__enter__(),
        lambda clock: clock.external("the server").__enter__(),
        VirtualClock.close,
        VirtualClock.block_until,
        VirtualClock.settle,
        lambda clock: clock.run(print),
        lambda clock: clock.run_async(asyncio.sleep(1)),
    ],
)
def test_a_callback_that_would_wait_is_refused(clock, call):
    clock.call_at(1, lambda: call(clock))
    with pytest.raises(ClockUsageError, match="^a timer callback must not block"):
        clock.advance(2)


def test_a_cancelled_timer_never_moves_time(auto):
    auto.call_at(1.0, lambda: None).cancel()
    auto.sleep(0.5)
    assert auto.monotonic() == 0.5
    timer = auto.call_at(100.0, lambda: None)
    auto.call_at(1.0, timer.cancel)
    auto.sleep(1.5)
    assert auto.monotonic() == 2.0
    assert auto.pending() == []


def test_cancelled_timers_are_dropped(clock):
    clock.call_at(1.0, int)
    for _ in range(300):
        timer = clock.call_at(100.0, int)
        assert len(clock.pending()) == 2  # so the clock has taken it
        timer.cancel()
    assert len(clock._kernel.timers._entries) < 100


# Who may take a step


def test_steps_in_a_coroutine_are_refused(clock):
    async def main():
        idle = clock.idle("nothing")
        for call in (lambda: clock.advance(1), lambda: clock.sleep(1), idle.__enter__):
            with pytest.raises(ClockUsageError, match="would block this event loop"):
                call()

    asyncio.run(main())


def test_steps_in_a_participant_are_refused(clock):
    with pytest.raises(ClockUsageError, match="which the clock waits for"):
        clock.spawn(clock.advance, 1).join()


def test_two_steps_at_once_are_refused(clock):
    async def main():
        one = asyncio.ensure_future(clock.advance_async(1))
        with pytest.raises(ClockUsageError, match="one step at a time"):
            await asyncio.gather(one, clock.advance_async(1))
        await one

    asyncio.run(main())
    assert clock.monotonic() == 1.0


def test_advance_async_needs_a_loop_of_the_clock():
    async def main():
        with pytest.raises(UntrackedLoopError, match="does not drive"):
            await VirtualClock().advance_async(1)

    asyncio.run(main())


# Waits of the driver


def test_a_driver_that_waits_for_time_is_refused(clock):
    with pytest.raises(ClockUsageError, match=r"waits on it \(sleep\(\)\)"):
        clock.sleep(1)
    ticker = Ticker(ConstantBackOff(1))
    ticker.receive()
    with pytest.raises(ClockUsageError, match="Call advance"):
        ticker.receive()
    token = CancellationToken()
    clock.spawn(token.cancel)
    assert token.wait() is True


def test_a_coroutine_that_waits_for_time_is_refused(clock):
    async def main():
        with pytest.raises(ClockUsageError, match="advance_async"):
            await asyncio.sleep(1)
        return "continued"

    assert asyncio.run(main()) == "continued"


# Input


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda clock: clock.advance("1"), "seconds must be a finite number of seconds"),
        (lambda clock: clock.advance(math.nan), "seconds must be "),
        (lambda clock: clock.sleep(-1), "seconds must be "),
        (lambda clock: clock.call_at(math.inf, int), "when must be "),
        (lambda clock: clock.call_at(1, 5), "callback must be callable, not 5"),
        (lambda clock: clock.trap("now"), "kind must be one of monotonic, time, call_at, parker"),
        (lambda clock: clock.trap("time", 5), "match must be callable, not 5"),
        (lambda clock: clock.block_until(timers="1"), "timers must be "),
        (lambda clock: clock.block_until(parked=-1), "parked must be an int >= 0, not"),
        (lambda clock: clock.block_until(timers=1, timeout=math.nan), "timeout must be "),
        (lambda clock: clock.spawn(5), "function must be callable, not 5"),
        (lambda clock: clock.spawn(print).join("x"), "timeout must be a finite number"),
        (lambda clock: clock.tracked(5), "function must be callable, not 5"),
        (lambda clock: clock.run(5), "function must be callable, not 5"),
        (lambda clock: clock.run_async(print), "coroutine must be a coroutine, not <"),
        (lambda clock: VirtualClock(start="0"), "start must be "),
        (lambda clock: VirtualClock(10.0, until=9.0), "until must be >= start (10.0), not 9.0"),
        (lambda clock: VirtualClock(until=math.inf), "until must be a finite number, not inf"),
        (lambda clock: VirtualClock(auto=1), "auto must be "),
        (lambda clock: VirtualClock(settle_timeout=-1), "settle_timeout must be "),
    ],
)
def test_bad_input_is_refused_by_its_name(clock, call, message):
    with pytest.raises((TypeError, ValueError)) as caught:
        call(clock)
    assert str(caught.value).startswith(message)
    assert clock.pending() == []
    assert clock.advance(1) == 0

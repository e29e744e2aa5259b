"""Steps: time that moves as far as it is told to."""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta

import pytest

from backoff_ticker import CancellationToken, ConstantBackOff, Ticker
from backoff_ticker.testing import ClockUsageError, VirtualClock


def test_advance_counts_what_fired(clock):
    for when in (1, 2, 3):
        clock.call_at(when, lambda: None)
    clock.spawn(clock.sleep, 2)
    assert clock.advance(2) == 3
    assert clock.advance(5) == 1


def test_advance_to_goes_to_a_time_and_advance_next_to_a_timer(clock):
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


@pytest.mark.parametrize("deadline", [float("inf"), None])
def test_a_wait_without_an_end_lasts_until_it_is_unparked(clock, deadline):
    parker = clock.parker("word")
    task = clock.spawn(parker.park, deadline)
    clock.advance(1e9)
    parker.unpark()
    assert task.result() is True


def test_a_time_out_too_small_for_the_time_lets_others_run_before_it_is_over(auto):
    auto.sleep(1e300)
    assert auto.monotonic() + 10 == auto.monotonic()
    assert auto.spawn(lambda: "done").result(10) == "done"
    with pytest.raises(TimeoutError):
        auto.spawn(auto.sleep, 1e301).result(10)
    auto.sleep(1e302)


def test_a_callback_that_raises_ends_the_step_there(clock):
    clock.call_at(1.0, lambda: 1 / 0)
    clock.call_at(2.0, lambda: None)
    with pytest.raises(ZeroDivisionError):
        clock.advance(5)
    assert clock.monotonic() == 1.0
    assert clock.advance(4) == 1


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
    ("name", "call"),
    [
        ("seconds", lambda clock: clock.advance("1")),
        ("seconds", lambda clock: clock.advance(math.nan)),
        ("seconds", lambda clock: clock.sleep(-1)),
        ("when", lambda clock: clock.call_at(math.inf, int)),
        ("callback", lambda clock: clock.call_at(1, 5)),
        ("kind", lambda clock: clock.trap("now")),
        ("timers", lambda clock: clock.block_until(timers="1")),
        ("parked", lambda clock: clock.block_until(parked=-1)),
        ("timeout", lambda clock: clock.block_until(timers=1, timeout=math.nan)),
        ("start", lambda clock: VirtualClock(start="0")),
        ("auto", lambda clock: VirtualClock(auto=1)),
        ("settle_timeout", lambda clock: VirtualClock(settle_timeout=-1)),
    ],
)
def test_bad_input_is_refused_by_its_name(clock, name, call):
    with pytest.raises((TypeError, ValueError), match=rf"^{name} must be "):
        call(clock)
    assert clock.advance(1) == 0


def test_cancelled_timers_are_forgotten(clock):
    for _ in range(10_000):
        clock.call_at(100.0, int).cancel()
    assert len(clock._kernel.parking.timers) < 100


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda clock: clock.spawn(5), TypeError, "function must be callable, not 5"),
        (lambda clock: clock.tracked(5), TypeError, "function must be callable, not 5"),
        (lambda clock: clock.run(5), TypeError, "function must be callable, not 5"),
        (lambda clock: clock.run_async(print), TypeError, "coroutine must be a coroutine, not <"),
        (lambda clock: clock.call_at(1, 5), TypeError, "callback must be callable, not 5"),
        (lambda clock: clock.trap("time", 5), TypeError, "match must be callable, not 5"),
        (lambda clock: clock.block_until(parked=-1), ValueError, "parked must be an int >= 0, not"),
        (lambda clock: clock.spawn(print).join("x"), TypeError, "timeout must be a finite number"),
        (
            lambda clock: clock.spawn(print).result(-1),
            ValueError,
            "timeout must be a finite number",
        ),
        (lambda clock: clock.advance("1"), TypeError, "seconds must be a finite number of seconds"),
    ],
)
def test_bad_input_is_named(clock, call, error, message):
    with pytest.raises(error) as caught:
        call(clock)
    assert str(caught.value).startswith(message)
    assert clock.pending() == []
    clock.advance(1)


def test_time_has_an_end(clock):
    clock.advance(1e308)
    with pytest.raises(ClockUsageError, match="there is no such time"):
        clock.advance(1e308)
    assert clock.monotonic() == 1e308


def test_a_duration_may_be_a_timedelta(clock):
    clock.spawn(clock.sleep, timedelta(minutes=1))
    assert clock.advance(timedelta(minutes=2)) == 1
    assert clock.monotonic() == 120.0


@pytest.mark.parametrize("auto", [True, False])
@pytest.mark.parametrize("what", ["idle", "external", "close", "block_until", "run", "loop"])
def test_a_callback_that_would_wait_is_refused(what, auto):
    refused = []

    def call():
        calls = {
            "idle": lambda: clock.idle("an item").__enter__(),
            "external": lambda: clock.external("the world").__enter__(),
            "close": clock.close,
            "block_until": clock.block_until,
            "run": lambda: clock.run(print),
            "loop": lambda: clock.run_async(asyncio.sleep(1)),
        }
        try:
            calls[what]()
        except ClockUsageError as error:
            refused.append(str(error))

    with VirtualClock(auto=auto, settle_timeout=1) as clock:
        clock.call_at(1, call)
        if auto:
            clock.sleep(2)
        else:
            clock.advance(2)
    assert len(refused) == 1
    assert refused[0].startswith("a timer callback must not block")


def test_tasks_have_the_names_they_are_given(clock):
    assert clock.spawn(print, name="worker").name == "worker"
    assert clock.spawn(print).name == "print-2"

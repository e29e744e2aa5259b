"""How a clock is entered and closed, and what becomes of those who still wait."""

from __future__ import annotations

import queue
import threading

import pytest

from backoff_ticker.testing import ClockLeakError, ClockUsageError, VirtualClock
from backoff_ticker.testing._errors import ParticipantAborted

from .real_threads import in_real_thread


def test_a_clock_is_entered_once(clock):
    with pytest.raises(ClockUsageError, match="entered once"):
        clock.__enter__()


def test_the_blocks_own_error_is_not_hidden_by_what_is_left():
    with pytest.raises(KeyError) as caught:  # noqa: SIM117
        with VirtualClock() as clock:
            clock.spawn(clock.sleep, 5)
            raise KeyError
    assert "ClockLeakError: 1 participant still waited" in caught.value.__notes__[0]


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
    assert ended == ["ParticipantAborted"] * 3


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
    assert ended.get(timeout=10) is ParticipantAborted
    with pytest.raises(ClockUsageError, match="closed"):
        clock.sleep(1)


def test_what_a_task_raised_that_nobody_joined_is_raised_at_the_end():
    def fail(clock):
        clock.sleep(1)
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost") as caught, VirtualClock() as clock:
        clock.spawn(fail, clock, name="worker")
        clock.advance(2)
    assert caught.value.__notes__ == ["in task 'worker', which nobody joined"]


def test_what_was_joined_is_not_raised_again(clock):
    task = clock.spawn([].pop)
    with pytest.raises(IndexError):
        task.join()


def test_close_ends_the_step_of_another_thread():
    refused, stop = queue.SimpleQueue(), threading.Event()

    def advance(clock):
        try:
            clock.advance(10)
        except ClockUsageError as error:
            refused.put(str(error))

    with pytest.raises(ClockLeakError), VirtualClock(settle_timeout=0.3) as clock:
        sleeper = clock.spawn(clock.sleep, 100)
        clock.settle()
        clock.spawn(stop.wait)
        foreign = in_real_thread(lambda: advance(clock))
        assert clock._kernel.commands.wait_for(lambda: clock._kernel._step is not None, 10)
    foreign.join(10)
    assert (refused.get_nowait(), sleeper.done()) == ("the clock was closed meanwhile", True)
    stop.set()


def test_one_who_is_stuck_does_not_keep_the_others_from_ending():
    stop = threading.Event()
    with pytest.raises(ClockLeakError), VirtualClock(settle_timeout=0.3) as clock:
        sleepers = [threading.Thread(target=clock.sleep, args=(60,)) for _ in range(100)]
        for sleeper in sleepers:
            sleeper.start()
        clock.settle()
        clock.spawn(stop.wait)
    for sleeper in sleepers:
        sleeper.join(10)
    stop.set()
    assert not any(sleeper.is_alive() for sleeper in sleepers)


@pytest.mark.parametrize(
    "call",
    [
        lambda clock: clock.advance(1),
        VirtualClock.settle,
        lambda clock: clock.call_at(1, print),
        lambda clock: clock.sleep(1),
        lambda clock: clock.spawn(print),
        lambda clock: clock.tracked(print),
        lambda clock: clock.run(print),
        VirtualClock.new_event_loop,
        lambda clock: clock.parker("a wait").park(None),
    ],
)
def test_what_needs_a_clock_that_is_open_says_so(call):
    clock = VirtualClock()
    clock.close()
    with pytest.raises(ClockUsageError, match="closed"):
        call(clock)


def test_a_leak_tells_what_was_raised_before_it():
    def fail():
        raise KeyError("the root of it")

    with pytest.raises(ClockLeakError) as caught, VirtualClock() as clock:
        clock.spawn(fail)
        clock.spawn(clock.sleep, 5)
    assert repr(caught.value.__cause__) == "KeyError('the root of it')"

"""Auto-advance: ``auto=True``, ``auto_advance()``, ``run()``, ``run_async()``."""

import asyncio
import threading

import pytest

from backoff_ticker import CancellationToken
from backoff_ticker.testing import ClockUsageError, VirtualClock

from .real_threads import RealThread


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


def test_a_clock_can_change_between_manual_and_auto_advance(clock):
    sleeper = clock.spawn(clock.sleep, 5)
    clock.advance(2)
    assert not sleeper.done()
    with clock.auto_advance():
        sleeper.join()
        assert clock.monotonic() == 5.0
    assert clock.advance(1) == 0
    assert clock.monotonic() == 6.0


def test_errors_of_callbacks_are_raised_at_the_end():
    with pytest.raises(ZeroDivisionError) as caught, VirtualClock(auto=True) as clock:
        clock.call_at(1.0, lambda: 1 / 0)
        clock.call_at(2.0, lambda: {}["missing"])
        clock.sleep(3)
    (note,) = caught.value.__notes__
    assert "KeyError" in note


@pytest.mark.parametrize("target", [3.0, 0.0])
def test_a_step_with_auto_advance_stops_at_its_target(auto, target):
    sleeper = auto.spawn(auto.sleep, 10)
    assert auto.advance(target) == 0
    assert auto.monotonic() == target
    auto.settle()
    assert auto.monotonic() == target
    assert auto.advance_next() == 10.0 - target
    sleeper.join()


def test_the_clock_is_the_current_one_in_callbacks_whichever_thread_runs_them(clock):
    seen = []

    def callback():
        seen.append(CancellationToken().clock)
        threading.Thread(target=lambda: seen.append(CancellationToken().clock)).start()

    clock.call_at(1.0, callback)
    RealThread(lambda: clock.advance(5)).join(10)
    assert seen == [clock, clock]


def test_only_the_thread_that_entered_drives(clock):
    def drive():
        with pytest.raises(ClockUsageError, match="only the thread that entered"):
            clock.run(int)

    RealThread(drive).join(10)

"""Time that advances by itself: ``auto=True``, ``run()``, ``run_async()``."""

from __future__ import annotations

import asyncio
import queue
import threading

import pytest

from backoff_ticker.clock._system import resolve_clock
from backoff_ticker.testing import ClockUsageError, VirtualClock

from .real_threads import in_real_thread


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


def test_a_callback_that_raises_by_itself_is_raised_at_the_end():
    with pytest.raises(ZeroDivisionError) as caught:  # noqa: SIM117
        with VirtualClock(auto=True) as clock:
            clock.call_at(1.0, lambda: 1 / 0)
            clock.call_at(2.0, lambda: {}["missing"])
            clock.sleep(3)
    (note,) = caught.value.__notes__
    assert "KeyError" in note


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


def test_only_the_thread_that_entered_drives(clock):
    refused = queue.SimpleQueue()

    def drive():
        try:
            clock.run(int)
        except ClockUsageError as error:
            refused.put(str(error))

    in_real_thread(drive).join(10)
    assert "only the thread that entered" in refused.get(timeout=10)

"""``VirtualClock(until=...)`` ends a run under auto-advance that would go on for ever."""

import asyncio
import queue
import re
import threading

import pytest

from backoff_ticker import AsyncTicker, ConstantBackOff, Ticker
from backoff_ticker.testing import SettleTimeout, VirtualClock, VirtualDeadlockError

HOUR = 3600.0


def tick_for_ever():
    for _ in Ticker(ConstantBackOff(60)):
        pass


async def tick_for_ever_async():
    async for _ in AsyncTicker(ConstantBackOff(7)):
        pass


def tick_in_a_thread(then):
    thread = threading.Thread(target=tick_for_ever, name="job")
    thread.start()
    then(thread)


@pytest.mark.parametrize(
    ("run", "who"),
    [
        pytest.param(tick_for_ever, "MainThread: Ticker.receive()", id="here"),
        pytest.param(lambda: asyncio.run(tick_for_ever_async()), "tick_for_ever_async", id="loop"),
        pytest.param(lambda: tick_in_a_thread(threading.Thread.join), "job: Ticker", id="thread"),
        pytest.param(
            lambda: tick_in_a_thread(lambda _: queue.Queue().get()), "Condition.wait", id="queue"
        ),
    ],
)
def test_waits_raise_an_error_that_names_them_once_the_time_has_come(run, who):
    with VirtualClock(auto=True, until=HOUR, patch_time=True) as clock:
        with pytest.raises(VirtualDeadlockError, match=re.escape(who)) as caught:
            run()
        assert clock.monotonic() == HOUR
    assert str(caught.value).startswith("at t=3600, the time given as until=, these participants")


def test_what_is_due_at_that_time_still_happens():
    with VirtualClock(10.0, auto=True, until=HOUR) as clock:
        clock.sleep(HOUR - 10.0)
        with pytest.raises(VirtualDeadlockError):
            clock.sleep(1e-9)
        assert clock.monotonic() == HOUR


def test_steps_by_hand_go_further():
    with VirtualClock(until=5.0) as clock:
        clock.advance(10.0)
        assert clock.monotonic() == 10.0
        with pytest.raises(VirtualDeadlockError, match="at t=10,"):
            clock.run(clock.sleep, 1.0)
        assert clock.monotonic() == 10.0


def test_a_thread_that_is_idle_in_the_end_delays_the_error_but_does_not_prevent_it():
    done = threading.Event()

    def idle():
        with clock.idle("an item"):
            done.wait()

    with VirtualClock(auto=True, until=HOUR, settle_timeout=0.1) as clock:
        thread = threading.Thread(target=idle)
        thread.start()
        with pytest.raises((VirtualDeadlockError, SettleTimeout)):
            tick_for_ever()
        assert clock.monotonic() == HOUR
        done.set()
        thread.join()

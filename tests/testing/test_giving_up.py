"""Waits that nothing would end, or nobody in time: who is told, when, and how."""

from __future__ import annotations

import asyncio
import queue
import threading

import pytest

from backoff_ticker import BackoffTickerError, CancellationToken, testing
from backoff_ticker.testing import (
    ClockUsageError,
    SettleTimeout,
    VirtualClock,
    VirtualDeadlockError,
    VirtualTimeError,
)
from backoff_ticker.testing._errors import Unwind


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
    errors = [one for one in public if issubclass(one, BaseException)]
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
        return kernel.ask(lambda: kernel.patience.seconds(kernel.now, kernel.members))

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
    async def main():
        items = asyncio.Queue()
        while True:
            try:
                await items.get()
            except VirtualDeadlockError:
                pass

    with pytest.raises(Unwind), VirtualClock(auto=True):
        asyncio.run(main())

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

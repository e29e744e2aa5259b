"""How a clock is entered and closed, and what becomes of those who still wait."""

from __future__ import annotations

import queue

import pytest

from backoff_ticker.testing import ClockLeakError, ClockUsageError, VirtualClock
from backoff_ticker.testing._errors import Unwind

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
    assert ended == ["Unwind"] * 3


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
    assert ended.get(timeout=10) is Unwind
    with pytest.raises(ClockUsageError, match="closed"):
        clock.sleep(1)

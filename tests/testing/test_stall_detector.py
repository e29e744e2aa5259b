"""When a turn is shared: judged by looks of a made-up real time."""

from __future__ import annotations

import pytest

from backoff_ticker.testing.liveness import _stall_detector
from backoff_ticker.testing.liveness._stall_detector import StallDetector
from backoff_ticker.testing.participants._participant import Participant

LOOK = _stall_detector.LOOK_INTERVAL


@pytest.fixture
def others(monkeypatch):
    """Whether other threads of the process work."""
    work = [False]
    monkeypatch.setattr(_stall_detector, "others_are_active", lambda: work[0])
    return work


def looks_until_shared(interval=LOOK, running=None, turns=lambda _: 1):
    """Return after how many looks a turn is shared; 40 at the most."""
    kept = StallDetector()
    running = [Participant("one", ident=1)] if running is None else running
    kept.is_stalled(100.0, turns(0), running)
    for number in range(1, 40):
        if kept.is_stalled(100.0 + number * interval, turns(number), running):
            return number
    return 40


def test_a_turn_is_shared_after_a_twentieth_of_a_second_in_which_nobody_works(others):
    assert looks_until_shared() in (5, 6)  # floats


def test_a_turn_is_not_shared_while_somebody_works(others):
    others[0] = True
    assert looks_until_shared() == 40


def test_looks_that_come_late_judge_nobody(others):
    assert looks_until_shared(interval=2.5 * LOOK) == 40


def test_nobody_is_judged_before_its_thread_has_begun(others):
    assert looks_until_shared(running=[Participant("one", ident=1), Participant("two")]) == 40


def test_who_has_a_new_turn_is_judged_anew(others):
    assert looks_until_shared(turns=lambda number: 1 + number // 4) == 40


def test_nobody_shares_a_turn_that_nobody_has(others):
    assert looks_until_shared(running=[]) == 40

"""Traps hold calls of the clock between two lines of the code under test."""

from __future__ import annotations

import pytest

from backoff_ticker.testing import SettleTimeout


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

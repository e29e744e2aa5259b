"""Timers that are started and stopped by several threads at once, forced at each place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backoff_ticker import WouldBlock
from backoff_ticker.channels._timer import Timer, _Start

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from backoff_ticker.testing import VirtualClock


class Interrupted:
    """A clock in whose ``call_at`` others come before it returns."""

    def __init__(self, clock: VirtualClock, others: Callable[[], object]) -> None:
        self.monotonic = clock.monotonic
        self.time = clock.time
        self.parker = clock.parker
        self._call_at = clock.call_at
        self._others = others

    def call_at(self, when: float, callback: Any, *, loop: Any = None) -> Any:
        handle = self._call_at(when, callback, loop=loop)
        self.fire = callback
        self._others()
        return handle


def once_decided(patch: pytest.MonkeyPatch, others: Callable[[], object]) -> None:
    """Have others come in the midst of the next stop, after it has decided."""
    decide = _Start.decide

    def decide_slowly(self: _Start) -> bool:
        patch.undo()
        first = decide(self)
        others()
        return first

    patch.setattr(_Start, "decide", decide_slowly)


def test_of_two_who_stop_it_as_it_starts_one_prevents_it(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[bool] = []
    timer = Timer(clock=Interrupted(clock, lambda: stopped.append(timer.stop())))
    once_decided(monkeypatch, lambda: stopped.append(timer.stop()))
    timer.start(5)
    assert sorted(stopped) == [False, True]
    assert clock.pending() == []


def test_what_fires_as_it_is_stopped_while_it_starts_fires_or_is_stopped(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []

    def fire_and_receive() -> None:
        interrupted.fire()
        try:
            seen.append(timer.c.receive_nowait())
        except WouldBlock:
            pass

    interrupted = Interrupted(clock, lambda: seen.append(timer.stop()))
    timer = Timer(clock=interrupted)
    once_decided(monkeypatch, fire_and_receive)
    timer.start(5)
    assert seen == [True]


def test_of_two_who_start_it_one_leaves_nothing_behind(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    timer = Timer(clock=clock)
    stop, left = Timer.stop, [5]

    def stop_early(self: Timer) -> bool:
        prevented = stop(self)
        if left:
            self.start(left.pop())
        return prevented

    monkeypatch.setattr(Timer, "stop", stop_early)
    timer.start(7)
    assert [one.when for one in clock.pending()] == [clock.monotonic() + 7]

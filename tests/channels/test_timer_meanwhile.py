"""Timers of clocks that are started, stopped and fire while another call on them is under way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import Timer, WouldBlock
from tests.channels.ends import drained

if TYPE_CHECKING:
    from collections.abc import Callable

    from backoff_ticker.testing import VirtualClock


class Handle:
    """What a clock gives for a callback; the first cancel does something else before."""

    def __init__(self, handle: Any, before: Callable[[], object]) -> None:
        self._handle = handle
        self._before = before

    def cancel(self) -> Any:
        before, self._before = self._before, int
        before()
        return self._handle.cancel()


def once(
    clock: VirtualClock,
    patch: pytest.MonkeyPatch,
    *,
    starting: Callable[[Callable[[], object]], object] = lambda _: None,
    stopping: Callable[[], object] = int,
) -> None:
    """Do something in the midst of the next start, and of the stop of what it starts."""
    call_at = clock.call_at

    def patched(when: float, callback: Any, **options: Any) -> Any:
        patch.undo()
        handle = call_at(when, callback, **options)
        starting(callback)
        return Handle(handle, stopping)

    patch.setattr(clock, "call_at", patched, raising=True)


def test_a_stop_in_the_midst_of_a_start_prevents_it(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    timer = Timer(clock=clock)
    stopped = []
    once(clock, monkeypatch, starting=lambda _: stopped.append(timer.stop()))
    timer.start(5)
    assert stopped == [True]
    assert clock.pending() == []
    clock.advance(5)
    assert drained(timer.c) == []
    assert not timer.stop()


def test_a_stop_in_the_midst_of_a_start_that_fired_prevents_nothing(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    timer = Timer(clock=clock)
    stopped = []

    def fire_and_stop(fire: Callable[[], object]) -> None:
        fire()
        stopped.append(timer.stop())

    once(clock, monkeypatch, starting=fire_and_stop)
    timer.start(0)
    assert stopped == [False]
    assert drained(timer.c) == []


def test_of_two_starts_at_once_one_counts(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    timer = Timer(clock=clock)
    once(clock, monkeypatch, starting=lambda _: timer.start(20))
    timer.start(5)
    assert len(clock.pending()) == 1
    clock.advance(5)
    with pytest.raises(WouldBlock):
        timer.c.receive_nowait()
    clock.advance(15)
    assert timer.c.receive_nowait() == clock.time()
    assert not timer.stop()


def test_a_start_in_the_midst_of_a_stop_counts(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    timer = Timer(clock=clock)
    once(clock, monkeypatch, stopping=lambda: timer.start(20))
    timer.start(5)
    timer.stop()
    clock.advance(5)
    with pytest.raises(WouldBlock):
        timer.c.receive_nowait()
    clock.advance(15)
    assert timer.c.receive_nowait() == clock.time()

"""Interrupts after ``select`` has taken something, and between two senders that are let in."""

from __future__ import annotations

import ctypes
import math
import signal
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import Channel, Timer, WouldBlock, select
from backoff_ticker.channels._buffer import PendingSend
from backoff_ticker.channels._select import _Selection
from tests.channels.ends import drained
from tests.helpers import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from backoff_ticker.testing import VirtualClock


def interrupted(
    *sources: Any,
    news: Any,
    clock: VirtualClock,
    patch: pytest.MonkeyPatch,
    meanwhile: Callable[[], object] = int,
) -> None:
    """Select in a thread; it is interrupted once it has taken what ``news`` brings.

    In between, ``meanwhile`` is called.
    """

    def interrupt(*_: object) -> None:
        patch.undo()
        meanwhile()
        raise KeyboardInterrupt

    def run() -> None:
        with pytest.raises(KeyboardInterrupt):
            select(*sources)

    patch.setattr(_Selection, "pass_on_wakeups", interrupt)
    selecting = in_thread(run)
    clock.settle()
    news()
    assert selecting.result(20) is None


def test_an_end_is_no_item_to_give_back(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel: Channel[Any] = Channel()
    interrupted(channel, news=channel.close, clock=clock, patch=monkeypatch)
    assert list(channel) == []


@pytest.mark.parametrize("capacity", [0, 1, math.inf])
def test_an_item_is_given_back_once_though_its_channel_was_named_twice(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch, capacity: float
) -> None:
    channel: Channel[str] = Channel(capacity)
    interrupted(
        channel,
        channel,
        news=lambda: channel.send_nowait("a"),
        clock=clock,
        patch=monkeypatch,
    )
    assert drained(channel) == ["a"]


def test_the_time_of_a_timer_is_given_back(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    timer = Timer(clock=clock)
    timer.start(5)
    interrupted(timer, Channel(), news=lambda: clock.advance(5), clock=clock, patch=monkeypatch)
    assert timer.c.receive_nowait() == clock.time()
    assert len(timer.c) == 0


@pytest.mark.parametrize("act", ["start", "stop"])
def test_the_time_of_a_start_that_is_over_is_not_given_back(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    timer = Timer(clock=clock)
    timer.start(5)
    interrupted(
        timer,
        Channel(),
        news=lambda: clock.advance(5),
        clock=clock,
        patch=monkeypatch,
        meanwhile=(lambda: timer.start(60)) if act == "start" else timer.stop,
    )
    with pytest.raises(WouldBlock):
        timer.c.receive_nowait()
    clock.advance(60)
    assert drained(timer.c) == ([clock.time()] if act == "start" else [])


def test_no_room_is_lost_between_two_senders_that_are_let_in() -> None:
    """A signal falls just as the second permit is taken."""
    channel: Channel[str] = Channel(2)
    channel.send_nowait("taken")
    channel.send_nowait("taken")
    for item in ("a", "b"):
        channel._buffer.line_up(PendingSend(item))
    # As two receivers leave it that are about to let somebody in.
    channel._buffer.items.clear()
    channel._buffer.room += [None]
    raise_in_c = ctypes.PyDLL(None)["raise"]
    channel._buffer._unused = map(raise_in_c, [signal.SIGINT])  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        channel._buffer.admit_pending()
    assert drained(channel) == ["a", "b"]
    channel.send_nowait("c")
    channel.send_nowait("d")
    with pytest.raises(WouldBlock):
        channel.send_nowait("e")


def test_a_sender_let_in_before_a_handler_closed_the_channel_was_let_in(
    clock: VirtualClock,
) -> None:
    """The handler closes and raises as the item of a blocked sender has been accepted."""
    channel: Channel[str] = Channel(1)
    channel.send_nowait("a")
    sending = in_thread(channel.send, "b")
    clock.settle()
    append = channel._buffer.accept

    def interrupt_after(item: str) -> None:
        append(item)
        channel.close()
        raise KeyboardInterrupt

    channel._buffer.accept = interrupt_after
    with pytest.raises(KeyboardInterrupt):
        channel.receive_nowait()
    assert sending.result(20) is None
    assert list(channel) == ["a", "b"]

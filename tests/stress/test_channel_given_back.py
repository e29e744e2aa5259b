"""Interrupts after ``select`` has taken something."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import Channel, select
from backoff_ticker._select import _Selection
from tests.channel.ends import drained
from tests.helpers import in_thread

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock


def interrupted(*sources: Any, news: Any, clock: VirtualClock, patch: pytest.MonkeyPatch) -> None:
    """Select in a thread; it is interrupted once it has taken what ``news`` brings."""

    def interrupt(*_: object) -> None:
        patch.undo()
        raise KeyboardInterrupt

    def run() -> None:
        with pytest.raises(KeyboardInterrupt):
            select(*sources)

    patch.setattr(_Selection, "hand_on", interrupt)
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

"""News between the last look of a thread and its wait: held there, they are not missed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backoff_ticker import CLOSED, Channel, ChannelClosed
from tests.channel.ends import ThreadEnd, error, value
from tests.helpers import in_thread

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock

WAITS = {
    "receive": lambda channel, end: end.receive(channel),
    "receive with a limit": lambda channel, end: end.receive(channel, 60),
    "select": lambda channel, end: end.select(Channel(), channel, Channel()),
    "iterate": lambda channel, _: in_thread(next, iter(channel)),
}


@pytest.mark.parametrize("how", list(WAITS))
@pytest.mark.parametrize("news", ["item", "close"])
def test_what_comes_as_a_thread_is_about_to_wait_is_not_missed(
    clock: VirtualClock, how: str, news: str
) -> None:
    channel: Channel[str] = Channel(1)
    with clock.trap("parker") as trap:
        waiting = WAITS[how](channel, ThreadEnd())
        call = trap.wait()
        channel.send_nowait("a") if news == "item" else channel.close()
        call.release()
        outcome = error(waiting)
    if news == "item":
        assert value(waiting) == ((channel, "a") if how == "select" else "a")
    elif how == "select":
        assert value(waiting) == (channel, CLOSED)
    else:
        assert isinstance(outcome, StopIteration if how == "iterate" else ChannelClosed)


@pytest.mark.parametrize("capacity", [0, 1])
@pytest.mark.parametrize("news", ["room", "close"])
def test_room_that_comes_as_a_thread_is_about_to_wait_is_not_missed(
    clock: VirtualClock, capacity: int, news: str
) -> None:
    channel: Channel[str] = Channel(capacity)
    if capacity:
        channel.send_nowait("first")
    with clock.trap("parker") as trap:
        sending = in_thread(channel.send, "a")
        call = trap.wait()
        if news == "close":
            channel.close()
        elif capacity:
            assert channel.receive_nowait() == "first"
        call.release()
        clock.settle()
    if news == "close":
        assert isinstance(error(sending), ChannelClosed)
    else:
        if capacity:
            assert value(sending) is None
        assert channel.receive_nowait() == "a"
        assert value(sending) is None

"""Two wake-ups for two items, of which both reach the same receiver: it passes one on."""

from __future__ import annotations

import threading
from math import inf

import pytest

from backoff_ticker import Channel, select
from backoff_ticker.channels._buffer import Unbounded
from tests.helpers import PATIENCE, eventually, in_thread, waiters_of


@pytest.mark.parametrize("capacity", [inf, 2, 0])
@pytest.mark.parametrize("receive", [Channel.receive, lambda channel: select(channel)[1]])
def test_a_receiver_that_is_woken_for_two_items_wakes_the_next(monkeypatch, capacity, receive):
    """It was found by two senders; one of them is slow to take it out of its line."""
    found, go_on, looks, leave = (threading.Event() for _ in range(4))
    remove, recheck = Unbounded.remove, Channel._recheck

    def slow_remove(buffer, place):
        if not found.is_set():
            found.set()
            assert go_on.wait(PATIENCE)
        return remove(buffer, place)

    def slow_recheck(channel, waiter):
        if found.is_set():
            looks.set()
            assert leave.wait(PATIENCE)
        return recheck(channel, waiter)

    monkeypatch.setattr(Unbounded, "remove", slow_remove, raising=False)
    monkeypatch.setattr(Channel, "_recheck", slow_recheck)
    channel: Channel[str] = Channel(capacity)
    received = []
    for count in (1, 2):
        received.append(in_thread(receive, channel))
        eventually(lambda count=count: len(waiters_of(channel._buffer)) == count)
    sent = in_thread(channel.send, "a")
    assert found.wait(PATIENCE)
    channel.send("b")  # takes the first receiver out of the line
    assert looks.wait(PATIENCE)  # it is in the line again
    go_on.set()  # where the slow sender takes it out
    sent.result(PATIENCE)
    leave.set()
    assert {each.result(PATIENCE) for each in received} == {"a", "b"}

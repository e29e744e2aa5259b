"""Time limits of channels and of ``select``: to the moment, and at a tie."""

import math
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from backoff_ticker import CancellationToken, Channel, SystemClock, Timer, WouldBlock
from tests.channels.ends import drained, error, filled, value

CAPACITY = pytest.mark.parametrize("capacity", [0, 1, 3])
SCHEDULED = pytest.mark.parametrize("scheduled", ["before", "after"])


@pytest.mark.parametrize("timeout", [0.25, 5, timedelta(minutes=90)])
@CAPACITY
def test_a_wait_ends_when_its_time_is_up_and_not_before(senders, clock, timeout, capacity):
    empty, full = Channel[Any](capacity), filled(capacity)
    waits = [
        senders.receive(empty, timeout),
        senders.send(full, "late", timeout),
        senders.select(Channel(), empty, CancellationToken(), timeout=timeout),
    ]
    clock.settle()
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    clock.advance(seconds - 0.125)
    assert not any(each.done() for each in waits)
    clock.advance(0.125)
    assert [type(error(each)) for each in waits] == [TimeoutError] * 3
    assert clock.pending() == []
    assert drained(full) == list(range(capacity))
    if capacity == 0:
        for nobody_waits in (lambda: empty.send_nowait("a"), full.receive_nowait):
            with pytest.raises(WouldBlock):
                nobody_waits()


@pytest.mark.parametrize(
    ("timeout", "expected"),
    [
        ("1", TypeError),
        (True, TypeError),
        (-0.001, ValueError),
        (math.nan, ValueError),
        (math.inf, ValueError),
        (timedelta(seconds=-1), ValueError),
    ],
)
def test_a_bad_timeout_is_named_and_nothing_is_moved(senders, clock, timeout, expected):
    empty, full = Channel[Any](1), filled(1)
    for channel in (empty, full):
        for failing in (
            senders.send(channel, 1, timeout),
            senders.receive(channel, timeout),
            senders.select(channel, timeout=timeout),
        ):
            assert type(error(failing)) is expected
            assert "timeout" in str(error(failing))
    assert (drained(empty), drained(full)) == ([], [0])
    for timer in (Timer(clock=clock), Timer(clock=SystemClock())):
        with pytest.raises(expected, match="delay"):
            timer.start(timeout)
        with pytest.raises(TypeError, match="delay"):
            timer.start(None)
        assert timer.stop() is False


def tied(clock, scheduled, act, wait):
    """Begin a wait of five seconds; ``act()``, which comes as they end, is scheduled so."""
    if scheduled == "before":
        clock.call_at(1005, act)
    waiting = wait()
    clock.settle()
    if scheduled == "after":
        clock.call_at(1005, act)
    clock.advance(5)
    return waiting


@CAPACITY
@SCHEDULED
def test_an_item_that_comes_as_the_time_is_up_is_received_or_left(
    receivers, clock, capacity, scheduled
):
    channel = Channel(capacity)
    accepted = []

    def send():
        with suppress(WouldBlock):
            channel.send_nowait("a")
            accepted.append("a")

    receiving = tied(clock, scheduled, send, lambda: receivers.receive(channel, 5))
    received = [] if error(receiving) else [value(receiving)]
    assert received + drained(channel) == accepted
    assert accepted or capacity == 0


@CAPACITY
@SCHEDULED
def test_room_that_comes_as_the_time_is_up_is_taken_or_left(senders, clock, capacity, scheduled):
    channel = filled(capacity)
    received = []

    def receive():
        with suppress(WouldBlock):
            received.append(channel.receive_nowait())

    sending = tied(clock, scheduled, receive, lambda: senders.send(channel, "late", 5))
    delivered = error(sending) is None
    assert received + drained(channel) == [*range(capacity), *["late"] * delivered]

"""``select`` over tokens and timers, and over all kinds of sources at once, to the moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    Channel,
    ConstantBackOff,
    DeadlineExceeded,
    Ticker,
    Timer,
    WouldBlock,
    any_of,
)
from tests.channels.ends import drained, error, still_waits, value
from tests.conftest import EPOCH

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock

EITHER = pytest.mark.parametrize("kind", [Ticker, AsyncTicker])


def silent() -> Channel[Any]:
    """Return a channel on which nothing comes."""
    return Channel()


# Tokens


@pytest.mark.parametrize("cause", [None, "a text", "", ValueError("an error")])
@pytest.mark.parametrize("before", [True, False])
def test_a_cancelled_token_gives_its_cause(
    receivers: Any, clock: VirtualClock, cause: Any, before: bool
) -> None:
    token = CancellationToken()
    if before:
        token.cancel(cause)
    selecting = receivers.select(silent(), token)
    if not before:
        still_waits(clock, selecting)
        token.cancel(cause)
    source, got = value(selecting)
    assert source is token
    assert got is cause
    assert value(receivers.select(token, timeout=0)) == (token, cause)


@pytest.mark.parametrize("combined", [False, True])
def test_a_deadline_ends_the_wait_at_its_moment(
    receivers: Any, clock: VirtualClock, combined: bool
) -> None:
    parent = CancellationToken()
    child = parent.child(timeout=5)
    token = any_of(child, CancellationToken()) if combined else child
    selecting = receivers.select(silent(), token, parent, timeout=60)
    clock.settle()
    clock.advance(4.5)
    assert not selecting.done()
    clock.advance(0.5)
    source, cause = value(selecting)
    assert source is token
    assert type(cause) is DeadlineExceeded
    assert clock.pending() == []


def test_a_parent_that_is_cancelled_wakes_who_selects_from_its_child(
    receivers: Any, clock: VirtualClock
) -> None:
    parent = CancellationToken()
    child = parent.child()
    selecting = receivers.select(child, silent())
    still_waits(clock, selecting)
    parent.cancel("why")
    assert value(selecting) == (child, "why")


# Timers


def test_a_timer_and_its_channel_are_the_same_source(receivers: Any, clock: VirtualClock) -> None:
    timer = Timer(clock=clock)
    for source in (timer, timer.c):
        timer.start(5)
        selecting = receivers.select(silent(), source)
        clock.settle()
        clock.advance(4.5)
        assert not selecting.done()
        clock.advance(0.5)
        got, at = value(selecting)
        assert got is source
        assert at == EPOCH + clock.monotonic()


def test_a_timer_of_the_users_own_is_a_source(receivers: Any, clock: VirtualClock) -> None:
    class Fake:
        def __init__(self) -> None:
            self.c: Channel[float] = Channel(1)

        def start(self, delay: float) -> None:
            self.c.send_nowait(delay)

        def stop(self) -> bool:
            return False

    fake = Fake()
    selecting = receivers.select(fake, silent())
    still_waits(clock, selecting)
    fake.start(7)
    assert value(selecting) == (fake, 7)


def test_a_timer_stopped_in_time_does_not_end_the_wait(receivers: Any, clock: VirtualClock) -> None:
    timer = Timer(clock=clock)
    timer.start(5)
    selecting = receivers.select(timer, timeout=20)
    still_waits(clock, selecting)
    assert timer.stop()
    clock.advance(19)
    assert not selecting.done()
    clock.advance(1)
    assert type(error(selecting)) is TimeoutError


# All of them


def test_each_kind_of_source_ends_the_wait_for_all(
    senders: Any, receivers: Any, clock: VirtualClock
) -> None:
    channel: Channel[str] = Channel()
    ticker = Ticker(ConstantBackOff(10))
    other = AsyncTicker(ConstantBackOff(25))
    ticker.receive_nowait()
    other.receive_nowait()
    token = CancellationToken().child(timeout=27)
    timer = Timer(clock=clock)
    timer.start(3)
    happened: list[tuple[float, Any]] = []
    clock.call_at(1007, lambda: senders.send(channel, "a"))
    while not happened or happened[-1][1] is not token:
        selecting = receivers.select(channel, ticker, other, token, timer)
        clock.settle()
        while not selecting.done():
            clock.advance_next()
        happened.append((clock.monotonic() - 1000, value(selecting)[0]))
    assert happened == [
        (3, timer),
        (7, channel),
        (10, ticker),
        (20, ticker),
        (25, other),
        (27, token),
    ]
    assert drained(channel) == []
    for refused in (channel.receive_nowait, ticker.receive_nowait, other.receive_nowait):
        with pytest.raises(WouldBlock):
            refused()

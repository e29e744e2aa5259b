"""Ticks between two readers: given back, or dropped by a ``reset()``, in the middle of a taking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    CancellationToken,
    CloseReason,
    ConstantBackOff,
    Ticker,
    TickerClosed,
    WouldBlock,
    ZeroBackOff,
)
from tests.helpers import PATIENCE, ManualClock, in_thread
from tests.ticker.made_policies import Blocking, Scripted

if TYPE_CHECKING:
    from collections.abc import Callable

    from backoff_ticker._push import Push


class MeddlingParker:
    """A parker that calls its clock's ``meddle`` once, after it woke its thread."""

    def __init__(self, clock: MeddlingClock, parker: Any) -> None:
        self.park = parker.park
        self._clock = clock
        self._unpark = parker.unpark

    def unpark(self) -> None:
        self._unpark()
        meddle, self._clock.meddle = self._clock.meddle, None
        if meddle is not None:
            meddle()


class MeddlingClock(ManualClock):
    meddle: Callable[[], object] | None = None

    def parker(self, what: str = "") -> Any:
        return MeddlingParker(self, super().parker(what))


class StoppingSink:
    """Stops its own sender when it is looked at, which the policy does while it is asked."""

    def __init__(self) -> None:
        self.handle: Push | None = None
        self.items: list[Any] = []

    def put_nowait(self, item: Any) -> None:
        self.items.append(item)


def test_a_tick_whose_sender_is_stopped_meanwhile_comes_to_the_next_reader(
    clock: ManualClock,
) -> None:
    sink = StoppingSink()

    def stop_sending() -> float:
        assert sink.handle is not None
        sink.handle.stop()
        return 10.0

    ticker = Ticker(Scripted(10.0, stop_sending, then=10.0), clock=clock)
    sink.handle = ticker.send_to(sink)
    clock.advance(10)
    assert [tick.number for tick in sink.items] == [1]
    assert ticker.receive_nowait().number == 2
    with pytest.raises(WouldBlock):
        ticker.receive_nowait()


def test_a_tick_that_a_sender_gives_back_wakes_a_reader_that_found_it_taken() -> None:
    """The reader looks again as soon as the claim is let go, and finds nothing yet."""
    clock = MeddlingClock()
    policy = Blocking()
    policy.release.set()
    sink = StoppingSink()
    ticker = Ticker(policy, clock=clock)
    sink.handle = ticker.send_to(sink)
    policy.release.clear()
    policy.entered.clear()
    sending = in_thread(clock.advance, 10)
    assert policy.entered.wait(PATIENCE)
    waiting = in_thread(ticker.receive)
    clock.wait_for_parked(1)
    sink.handle.stop()
    clock.meddle = lambda: clock.wait_for_timers(1)
    policy.release.set()
    sending.result(PATIENCE)
    assert waiting.result(PATIENCE).number == 2


def test_a_reset_drops_a_tick_that_was_given_back(clock: ManualClock) -> None:
    """Also if another one is given back afterwards."""
    sinks = [StoppingSink(), StoppingSink()]

    def stop_sending() -> float:
        for sink in sinks:
            if sink.handle is not None:
                sink.handle.stop()
        return 10.0

    ticker = Ticker(Scripted(10.0, stop_sending, 10.0, stop_sending, then=10.0), clock=clock)
    for sink in sinks:
        sink.handle = ticker.send_to(sink)
        clock.advance(10)
        if sink is sinks[0]:
            ticker.reset()
    assert [tick.number for sink in sinks for tick in sink.items] == [1]
    tick = ticker.receive_nowait()
    assert (tick.due, tick.lateness) == (1020, 0)
    with pytest.raises(WouldBlock):
        ticker.receive_nowait()


def test_a_reset_that_drops_a_tick_just_taken_leaves_no_gap_in_the_numbers() -> None:
    """It comes after the taking, while the next reader is being woken."""
    clock = MeddlingClock()
    ticker = Ticker(ConstantBackOff(10), clock=clock)
    assert ticker.receive_nowait().number == 1
    waiting = in_thread(ticker.receive)
    clock.wait_for_parked(1)
    clock.now += 10
    clock.meddle = ticker.reset
    with pytest.raises(WouldBlock):
        ticker.receive_nowait()
    clock.advance(10)
    tick = waiting.result(PATIENCE)
    assert (tick.number, tick.due) == (2, 1020)


@pytest.mark.parametrize(
    ("resets", "comes"),
    [((), True), ((False,), False), ((True,), True), ((False, True), True), ((True, False), False)],
)
@pytest.mark.parametrize("given_back", [False, True])
def test_a_first_tick_that_was_given_back_comes_in_spite_of_a_cancel_as_one_that_waits(
    clock: ManualClock, resets: tuple[bool, ...], comes: bool, given_back: bool
) -> None:
    token = CancellationToken(clock)
    ticker = Ticker(ZeroBackOff(), token=token, clock=clock)
    for immediately in resets:
        ticker.reset(immediately=immediately)
    if given_back:
        ticker._give_back(ticker.receive(), ticker._era)
    token.cancel()
    if comes:
        assert ticker.receive().number == 1
    with pytest.raises(TickerClosed) as caught:
        ticker.receive()
    assert caught.value.reason is CloseReason.CANCELLED

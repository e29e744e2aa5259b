"""Ticks between two readers: given back, or dropped by a ``reset()``, in the middle of a taking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    CancellationToken,
    CloseReason,
    ConstantBackOff,
    StopBackOff,
    Ticker,
    TickerClosed,
    WouldBlock,
    ZeroBackOff,
    with_max_retries,
)
from tests.helpers import PATIENCE, Flag, in_thread
from tests.interleaving import each_interleaving
from tests.tickers.made_policies import Blocking

if TYPE_CHECKING:
    from collections.abc import Callable

    from backoff_ticker import Forwarding, Parker
    from backoff_ticker.testing import VirtualClock


class MeddlingParker:
    """A parker that calls its clock's ``meddle`` once, after it woke its thread."""

    def __init__(self, clock: MeddlingClock, parker: Parker) -> None:
        self.park = parker.park
        self._clock = clock
        self._unpark = parker.unpark

    def unpark(self) -> None:
        self._unpark()
        meddle, self._clock.meddle = self._clock.meddle, None
        if meddle is not None:
            meddle()


class MeddlingClock:
    """A virtual clock as a ticker sees it: wake-ups meddle, and due calls come in a new thread."""

    def __init__(self, clock: VirtualClock) -> None:
        self.monotonic = clock.monotonic
        self.time = clock.time
        self.meddle: Callable[[], object] | None = None
        self._clock = clock

    def call_at(self, when: float, callback: Callable[[], object], *, loop: Any = None) -> Any:
        return self._clock.call_at(when, lambda: self._clock.spawn(callback), loop=loop)

    def parker(self, what: str = "") -> MeddlingParker:
        return MeddlingParker(self, self._clock.parker(what))


class StoppingSink:
    """Stops its own sender when it is looked at, which the policy does while it is asked."""

    def __init__(self) -> None:
        self.handle: Forwarding | None = None
        self.items: list[Any] = []

    def put_nowait(self, item: Any) -> None:
        self.items.append(item)


def test_a_tick_that_a_sender_gives_back_wakes_a_reader_that_found_it_taken(
    clock: VirtualClock,
) -> None:
    """The reader looks again as soon as the claim is let go, and finds nothing yet."""
    meddling = MeddlingClock(clock)
    policy = Blocking()
    policy.release.set()
    sink = StoppingSink()
    ticker = Ticker(policy, clock=meddling)
    sink.handle = ticker.send_to(sink)
    clock.settle()
    policy.block()
    clock.advance(10)
    assert policy.entered.is_set()
    waiting = in_thread(ticker.receive)
    clock.settle()
    sink.handle.stop()
    looked = Flag()
    meddling.meddle = looked.wait
    policy.release.set()
    clock.settle()
    assert [timer.when for timer in clock.pending()] == [1020]
    looked.set()
    assert waiting.result(PATIENCE).number == 2
    assert [tick.number for tick in sink.items] == [1]


def test_a_reset_that_drops_ticks_given_back_leaves_no_gap_in_the_numbers() -> None:
    ticker = Ticker(ZeroBackOff())
    first, second = ticker.receive(), ticker.receive()
    ticker._put_back(second)
    ticker._put_back(first)
    ticker.failure()  # says nothing to this policy, but has them given back now
    ticker.reset(immediately=True)
    assert ticker.receive().number == 1


def test_a_tick_that_was_taken_before_a_reset_is_received_and_the_next_comes_after_it(
    clock: VirtualClock,
) -> None:
    """The reset comes after the taking, while the next reader is being woken."""
    meddling = MeddlingClock(clock)
    ticker = Ticker(ConstantBackOff(10), clock=meddling)
    assert ticker.receive_nowait().number == 1
    waiting = in_thread(ticker.receive)
    clock.settle()
    with clock.trap("monotonic") as trap:
        ticker.failure()  # changes nothing, but has the reader look again
        trap.wait()
        clock.advance(10)
        meddling.meddle = lambda: [clock.advance(1), ticker.reset()]
        assert ticker.receive_nowait().number == 2
    clock.settle()
    clock.advance(9.5)
    assert not waiting.done()
    clock.advance(0.5)
    tick = waiting.result(PATIENCE)
    assert (tick.number, tick.due) == (3, 1021)


@pytest.mark.parametrize(
    ("resets", "comes"),
    [((), True), ((False,), False), ((True,), True), ((False, True), True), ((True, False), False)],
)
@pytest.mark.parametrize("given_back", [False, True])
def test_a_first_tick_that_waits_or_was_given_back_comes_in_spite_of_a_cancel(
    clock: VirtualClock, resets: tuple[bool, ...], comes: bool, given_back: bool
) -> None:
    token = CancellationToken(clock=clock)
    ticker = Ticker(ZeroBackOff(), token=token, clock=clock)
    for immediately in resets:
        ticker.reset(immediately=immediately)
    if given_back:
        ticker._put_back(ticker.receive())
    token.cancel()
    if comes or given_back:
        assert ticker.receive().number == 1
    with pytest.raises(TickerClosed) as caught:
        ticker.receive()
    assert caught.value.reason is CloseReason.CANCELLED


def test_the_last_tick_that_was_given_back_comes_while_another_thread_tells_the_ticker_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def begin() -> tuple[Callable[[], object], Callable[[], object]]:
        ticker = Ticker(StopBackOff())
        tick = ticker.receive()
        ticker._put_back(tick)
        tickers[:] = [ticker]
        return ticker.failure, lambda: receive_nowait(ticker)

    def receive_nowait(ticker: Ticker) -> object:
        try:
            return ticker.receive_nowait().number
        except WouldBlock:
            return None

    tickers: list[Ticker] = []
    for told, number in each_interleaving(begin, monkeypatch):
        assert told is None
        assert (number or receive_nowait(tickers[0])) == 1
        with pytest.raises(TickerClosed, match="exhausted"):
            tickers[0].receive()


@pytest.mark.parametrize("end", ["cancel", "stop"])
def test_the_last_tick_that_was_given_back_does_not_come_after_another_end(end: str) -> None:
    token = CancellationToken()
    ticker = Ticker(with_max_retries(ZeroBackOff(), 1), token=token)
    ticker.receive()
    last = ticker.receive()
    assert ticker.close_reason is CloseReason.EXHAUSTED
    ticker._put_back(last)
    token.cancel() if end == "cancel" else ticker.stop()
    with pytest.raises(TickerClosed, match="exhausted"):
        ticker.receive_nowait()
    ticker._put_back(last)  # too late
    with pytest.raises(TickerClosed, match="exhausted"):
        ticker.receive_nowait()


def test_ticks_that_were_given_back_come_in_their_order() -> None:
    token = CancellationToken()
    ticker = Ticker(ZeroBackOff(), token=token)
    first, second = ticker.receive(), ticker.receive()
    ticker._put_back(second)
    ticker._put_back(first)
    token.cancel()
    assert ticker.receive() == first
    with pytest.raises(TickerClosed, match="cancelled"):
        ticker.receive()


def test_after_stop_not_even_the_first_tick_comes_that_a_cancel_spares() -> None:
    token = CancellationToken()
    ticker = Ticker(ZeroBackOff(), token=token)
    token.cancel()
    assert ticker.close_reason is None
    ticker.stop()
    with pytest.raises(TickerClosed):
        ticker.receive_nowait()

"""What a ``select`` from many idle sources does while it waits: nothing; counted, not timed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    CLOSED,
    AsyncTicker,
    CancellationToken,
    Channel,
    ConstantBackOff,
    Ticker,
    with_max_retries,
)
from tests.channels.ends import still_waits, value
from tests.helpers import waiters_of

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock

HOUR = 3600.0
MANY = 1000


class CountingClock:
    """The virtual clock; counts how often somebody reads it, and how many timers are set."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.time = clock.time
        self.parker = clock.parker
        self.read = 0
        self.timers = 0

    def monotonic(self) -> float:
        self.read += 1
        return self._clock.monotonic()

    def call_at(self, when: float, callback: Any, *, loop: Any = None) -> Any:
        self.timers += 1
        return self._clock.call_at(when, callback, loop=loop)


class Watched:
    """What tickers are asked by whoever waits for them."""

    looks = 0
    tries = 0

    def _recheck(self, waiter: Any) -> Any:
        Watched.looks += 1
        return super()._recheck(waiter)  # type: ignore[misc]

    def _take_nowait(self, *, fresh: bool) -> Any:
        Watched.tries += 1
        return super()._take_nowait(fresh=fresh)  # type: ignore[misc]


class WatchedTicker(Watched, Ticker):
    pass


class WatchedAsyncTicker(Watched, AsyncTicker):
    pass


@pytest.fixture
def counting(clock: VirtualClock) -> CountingClock:
    """The clock of the watched tickers."""
    Watched.looks = Watched.tries = 0
    return CountingClock(clock)


EITHER = pytest.mark.parametrize("kind", [WatchedTicker, WatchedAsyncTicker])


def idle(kind: Any, counting: CountingClock, token: CancellationToken | None = None) -> list[Any]:
    """Return tickers whose first ticks are taken and whose second ones are an hour away."""
    tickers = [kind(ConstantBackOff(HOUR), clock=counting, token=token) for _ in range(MANY)]
    for ticker in tickers:
        ticker.receive_nowait()
    return tickers


@EITHER
def test_a_wait_for_idle_tickers_looks_once(
    receivers: Any, clock: VirtualClock, counting: CountingClock, kind: Any
) -> None:
    tickers = idle(kind, counting)
    selecting = receivers.select(*tickers)
    still_waits(clock, selecting)
    assert (Watched.looks, Watched.tries) == (MANY, MANY)
    read, timers = counting.read, counting.timers
    assert timers <= 1
    for _ in range(50):
        clock.advance(60)
        kind(ConstantBackOff(HOUR)).receive_nowait()
    still_waits(clock, selecting)
    assert (Watched.looks, Watched.tries) == (MANY, MANY)
    assert (counting.read, counting.timers) == (read, timers)
    clock.advance(600)
    assert value(selecting)[1].number == 2
    assert Watched.looks == MANY
    assert Watched.tries <= 2 * MANY
    assert counting.timers == timers


@EITHER
def test_an_item_ends_the_wait_with_one_more_pass_at_the_most(
    receivers: Any, clock: VirtualClock, counting: CountingClock, kind: Any
) -> None:
    tickers = idle(kind, counting)
    channel: Channel[str] = Channel(1)
    selecting = receivers.select(*tickers, channel)
    still_waits(clock, selecting)
    channel.send_nowait("item")
    assert value(selecting) == (channel, "item")
    clock.settle()
    assert Watched.looks <= 2 * MANY
    assert Watched.tries <= 2 * MANY
    assert not any(waiters_of(ticker._readers) for ticker in tickers)
    assert clock.pending() == []


@EITHER
def test_a_cancel_of_the_token_of_all_is_one_wake_up(
    receivers: Any, clock: VirtualClock, counting: CountingClock, kind: Any
) -> None:
    token = CancellationToken()
    tickers = idle(kind, counting, token)
    selecting = receivers.select(*tickers)
    still_waits(clock, selecting)
    token.cancel()
    assert value(selecting)[1] is CLOSED
    clock.settle()
    assert Watched.looks <= 2 * MANY
    assert Watched.tries <= 2 * MANY + 1
    assert len(waiters_of(token._wait_set())) == 0


@EITHER
@pytest.mark.parametrize("ending", ["exhaust", "stop", "cancel"])
def test_a_merge_of_tickers_that_end_tells_each_end_once(
    receivers: Any, clock: VirtualClock, counting: CountingClock, kind: Any, ending: str
) -> None:
    count = 60
    token = CancellationToken()
    policy = with_max_retries(ConstantBackOff(HOUR), 0 if ending == "exhaust" else 5)
    tickers = [kind(policy, clock=counting, token=token) for _ in range(count)]
    merging = receivers.merge(*tickers)
    clock.settle()
    if ending != "exhaust":
        still_waits(clock, merging)
        if ending == "stop":  # all of them before the next step, as the clock gives it no turn
            clock.call_at(clock.monotonic(), lambda: [ticker.stop() for ticker in tickers])
            clock.advance(0)
        token.cancel()
    pairs = value(merging)
    for ticker in tickers:
        mine = [got for source, got in pairs if source is ticker]
        assert [getattr(got, "number", got) for got in mine] == [1, CLOSED]
    assert len(pairs) == 2 * count
    # Each step asks as many as it takes to find one that is ready, so few here, and most once.
    assert Watched.tries <= count * (count + 2) * 2
    assert Watched.looks <= 4 * count
    assert clock.pending() == []

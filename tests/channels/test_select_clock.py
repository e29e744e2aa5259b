"""Which clock measures a ``select``: that of the timers among its sources, wherever they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    CancellationToken,
    Channel,
    ConstantBackOff,
    SystemClock,
    Ticker,
    Timer,
    merge,
)
from tests.channels.ends import error, still_waits, value

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock

EITHER_ORDER = pytest.mark.parametrize("order", [1, -1])
TIMED = {
    "timer": lambda clock: Timer(clock=clock),
    "its channel": lambda clock: Timer(clock=clock).c,
    "ticker": lambda clock: Ticker(ConstantBackOff(1), clock=clock),
    "deadline": lambda clock: CancellationToken(clock=clock).child(timeout=60),
}


def elsewhere() -> Channel[Any]:
    """Return a channel on which nothing comes, on the clock of the system."""
    return Channel(clock=SystemClock())


@EITHER_ORDER
def test_a_timer_fires_beside_a_channel_of_another_clock(
    receivers: Any, clock: VirtualClock, order: int
) -> None:
    timer = Timer(clock=clock)
    timer.start(3600)
    selecting = receivers.select(*[elsewhere(), timer][::order])
    still_waits(clock, selecting)
    clock.advance(3600)
    assert value(selecting) == (timer, clock.time())


@EITHER_ORDER
@pytest.mark.parametrize("kind", ["timer", "its channel"])
def test_a_time_limit_is_measured_by_the_clock_of_a_timer(
    receivers: Any, clock: VirtualClock, order: int, kind: str
) -> None:
    selecting = receivers.select(*[elsewhere(), TIMED[kind](clock)][::order], timeout=1800)
    still_waits(clock, selecting)
    clock.advance(1799)
    assert not selecting.done()
    clock.advance(1)
    assert type(error(selecting)) is TimeoutError


@EITHER_ORDER
@pytest.mark.parametrize("other", list(TIMED))
def test_a_timer_is_not_mixed_with_times_of_another_clock(
    receivers: Any, clock: VirtualClock, order: int, other: str
) -> None:
    ready: Channel[int] = Channel(1)
    ready.send_nowait(1)
    sources = [ready, *[Timer(clock=clock), TIMED[other](SystemClock())][::order]]
    assert "mixes times" in str(error(receivers.select(*sources)))
    assert type(error(receivers.select(*sources))) is ValueError
    with pytest.raises(ValueError, match="mixes times"):
        merge(*sources)
    assert len(ready) == 1

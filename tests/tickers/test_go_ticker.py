"""The Go ticker that this one descends from: its behaviour, and its defects as cases that pass."""

from __future__ import annotations

import asyncio
import gc
import queue
import sys
import threading
import weakref
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    CloseReason,
    ConstantBackOff,
    ExponentialBackOff,
    Pace,
    StopBackOff,
    Ticker,
    TickerClosed,
    WouldBlock,
    ZeroBackOff,
    with_max_retries,
    with_token,
)
from tests import effort
from tests.helpers import PATIENCE, LoopFace, ThreadFace, in_thread, readable_id
from tests.tickers.made_policies import Counting, Scripted, reason_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backoff_ticker.testing import VirtualClock

RACES = effort.rounds(100, 2000)


# Its behaviour


def test_the_policy_is_reset_in_the_constructor(face: Any, clock: VirtualClock) -> None:
    spent = with_max_retries(ZeroBackOff(), 2)
    while spent.retries < 2:
        spent.next_backoff()
    assert len(face.iterate(face.ticker(spent, clock=clock)).result(PATIENCE)) == 3


def test_the_first_tick_comes_at_once_with_the_wall_time_of_now(
    face: Any, clock: VirtualClock
) -> None:
    tick = face.receive(face.ticker(ConstantBackOff(10), clock=clock))
    assert float(tick) == clock.time()


def test_the_next_delay_is_asked_for_after_the_reader_took_the_tick(
    face: Any, clock: VirtualClock
) -> None:
    policy = Scripted(then=10.0)
    ticker = face.ticker(policy, clock=clock)
    clock.advance(100)
    assert policy.asked == 0
    face.receive(ticker)
    assert policy.asked == 1
    clock.advance(100)
    assert policy.asked == 1


def test_a_slow_reader_finds_one_pending_tick_with_the_time_it_fell_due(
    face: Any, clock: VirtualClock
) -> None:
    """Interval 20 ms, reader busy 120 ms: the tick is 100 ms old, the next 20 ms later."""
    ticker = face.ticker(ConstantBackOff(0.02), clock=clock)
    face.receive(ticker)
    clock.advance(0.12)
    tick = ticker.receive_nowait()
    assert tick.time == pytest.approx(clock.time() - 0.1, abs=1e-6)
    assert tick.lateness == pytest.approx(0.1)
    with pytest.raises(WouldBlock):
        ticker.receive_nowait()
    clock.advance(0.02)
    assert ticker.receive_nowait().lateness == 0


@pytest.mark.parametrize(
    ("policy", "ticks"),
    [
        (with_max_retries(ZeroBackOff(), 2), 3),
        (with_max_retries(ZeroBackOff(), 0), 1),
        (StopBackOff(), 1),
        (with_max_retries(StopBackOff(), 5), 1),
    ],
    ids=readable_id,
)
def test_it_closes_after_the_last_tick_when_the_policy_stops(
    face: Any, policy: Any, ticks: int
) -> None:
    assert len(face.iterate(face.ticker(policy)).result(PATIENCE)) == ticks


def test_the_limit_of_elapsed_time_closes_it(face: Any, clock: VirtualClock) -> None:
    ticker = face.ticker(ExponentialBackOff(1, 0, 2, max_elapsed_time=7), clock=clock)
    taken = []
    with pytest.raises(TickerClosed):
        while True:
            try:
                taken.append(ticker.receive_nowait().due - 1000)
            except WouldBlock:
                clock.advance(1)
    assert taken == [0, 1, 3, 7]


def test_cancelled_beforehand_it_ticks_exactly_once(face: Any) -> None:
    token = CancellationToken()
    token.cancel()
    ticker = face.ticker(with_token(ZeroBackOff(), token))
    assert len(face.iterate(ticker).result(PATIENCE)) == 1


def test_stop_can_be_called_again(face: Any) -> None:
    ticker = face.ticker(ZeroBackOff())
    for _ in range(3):
        ticker.stop()
    assert ticker.close_reason is CloseReason.STOPPED


# Defect 1: a cancel with no reader leaks; so does a policy that stops with no reader


@pytest.mark.parametrize("kind", [Ticker, AsyncTicker])
@pytest.mark.parametrize("how", ["cancelled", "exhausted", "open"])
def test_row_1_fifty_tickers_with_no_reader_leak_nothing(kind: Any, how: str) -> None:
    threads = threading.active_count()
    token = CancellationToken()
    policy = StopBackOff() if how == "exhausted" else ConstantBackOff(300)
    tickers = [kind(policy, token=token) for _ in range(50)]
    for ticker in tickers:
        ticker.receive_nowait()
    alive = weakref.WeakSet(tickers)
    if how == "cancelled":
        token.cancel()
    assert threading.active_count() <= threads
    del tickers, ticker
    gc.collect()
    assert len(alive) == 0


# Defect 2: dropped without a stop it lives for ever


@pytest.mark.parametrize("pace", list(Pace))
def test_row_2_a_ticker_dropped_without_a_stop_is_collected_at_once(
    face: Any, clock: VirtualClock, pace: Pace
) -> None:
    token = CancellationToken()
    ticker = face.ticker(
        with_token(with_max_retries(ConstantBackOff(300), 9), token), clock=clock, pace=pace
    )
    face.receive(ticker)
    timed_out = face.start_receive(ticker, 1)
    clock.advance(1)
    assert type(timed_out.exception(PATIENCE)) is TimeoutError
    del timed_out
    alive = weakref.ref(ticker)
    del ticker
    gc.collect()
    assert alive() is None
    assert clock.pending() == []


# Defect 3: a tick after Stop returned


@pytest.fixture(params=[ThreadFace, LoopFace], ids=["thread", "loop"])
def racing_face(request: pytest.FixtureRequest) -> Iterator[ThreadFace | LoopFace]:
    """As ``face``, but in real time: its threads are no participants of any clock."""
    made = request.param()
    yield made
    made.close()


@pytest.fixture
def quick_switches() -> Iterator[None]:
    """Let threads take turns more often than they do by themselves."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def end_while_read(face: Any, end: Callable[[CancellationToken, Any], object]) -> list[Any]:
    """End tickers that are read elsewhere; return what could be received after that."""
    late = []
    made: queue.SimpleQueue[Any] = queue.SimpleQueue()
    begun: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def read_each() -> None:
        while (ticker := made.get()) is not None:
            begun.put(ticker.receive_nowait())
            deque(ticker, 0)

    async def read_one(ticker: Any) -> None:
        begun.put(ticker.receive_nowait())
        async for _ in ticker:
            pass

    reading = in_thread(read_each) if face.name == "thread" else None
    for _ in range(RACES):
        token = CancellationToken()
        ticker = face.ticker(ZeroBackOff(), token=token)
        if reading is not None:
            made.put(ticker)
        else:
            face.thread.submit(read_one(ticker))
        begun.get(timeout=PATIENCE)
        end(token, ticker)
        with suppress(TickerClosed):
            late.append(ticker.receive_nowait())
    if reading is not None:
        made.put(None)
        reading.result(PATIENCE)
    return late


@pytest.mark.usefixtures("quick_switches")
def test_row_3_no_tick_after_stop_returned(racing_face: Any) -> None:
    """Whatever a reader in another thread or loop is doing at that moment."""
    assert end_while_read(racing_face, lambda _, ticker: ticker.stop()) == []


@pytest.mark.parametrize("taken", [0, 1, 2, 5])
def test_row_3_a_tick_whose_policy_is_asked_while_it_is_stopped_does_not_arrive(
    face: Any, taken: int
) -> None:
    policy = Scripted(*[0.0] * taken, lambda: ticker.stop() or 0.0, then=0.0)
    ticker = face.ticker(policy)
    assert len(face.iterate(ticker).result(PATIENCE)) == taken


# Defect 4: a stopped ticker leaves its timer pending


@pytest.mark.parametrize("how", ["stop", "cancel", "leave"])
def test_row_4_an_ended_wait_leaves_no_timer(face: Any, clock: VirtualClock, how: str) -> None:
    token = CancellationToken()
    ticker = face.ticker(ConstantBackOff(300), token=token, clock=clock)
    face.receive(ticker)
    waiting = face.start_receive(ticker, 5)
    clock.settle()
    assert len(clock.pending()) == 1
    if how == "leave":
        clock.advance(5)
    else:
        ticker.stop() if how == "stop" else token.cancel()
    assert waiting.exception(PATIENCE) is not None
    clock.settle()
    assert clock.pending() == []


# Defect 5: a closed channel gives zero times without end; the running policy was asked by users


def test_row_5_a_closed_ticker_gives_an_error_each_time_and_no_tick(face: Any) -> None:
    ticker = face.ticker(StopBackOff())
    face.receive(ticker)
    for _ in range(20):
        assert reason_of(face.start_receive(ticker)) is CloseReason.EXHAUSTED
        assert face.iterate(ticker).result(PATIENCE) == []


def test_row_5_asking_the_policy_one_gave_it_disturbs_no_ticker(
    face: Any, clock: VirtualClock
) -> None:
    policy = Counting()
    ticker = face.ticker(policy, clock=clock)
    face.receive(ticker)
    for _ in range(10):
        policy.next_backoff()
    clock.advance(1)
    assert ticker.receive_nowait().delay == 1
    clock.advance(2)
    assert ticker.receive_nowait().delay == 2


# Defect 6: a slow operation is followed at once by another, and nobody sees the lateness


@pytest.mark.parametrize(
    ("pace", "seen"),
    [
        (Pace.RECEIPT, (1010, 90, 0)),
        (Pace.RETURN, (1110, 0, 0)),
        (Pace.SKIP, (1110, 0, 10)),
    ],
)
def test_row_6_a_slow_operation_can_be_followed_by_a_rest(
    face: Any, clock: VirtualClock, pace: Pace, seen: tuple[float, float, int]
) -> None:
    ticker = face.ticker(ConstantBackOff(10), clock=clock, pace=pace)
    face.receive(ticker)
    clock.advance(100 if pace is not Pace.SKIP else 100.5)
    asking = face.start_receive(ticker)
    if pace is not Pace.RECEIPT:
        clock.advance_to(1110)
    tick = asking.result(PATIENCE)
    assert (tick.due, tick.lateness, tick.missed) == seen


# Defect 7: a wrapper hides the token


class Wrapping:
    """A wrapper of a user's that names the token of what it wraps."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.token = getattr(inner, "token", None)

    def next_backoff(self) -> Any:
        return self.inner.next_backoff()

    def reset(self) -> None:
        self.inner.reset()


@pytest.mark.parametrize("depth", [0, 1, 4])
def test_row_7_no_wrapper_hides_the_token(face: Any, clock: VirtualClock, depth: int) -> None:
    """Cancelled during a delay of 300 ms it ends at once."""
    token = CancellationToken()
    policy: Any = with_token(ConstantBackOff(0.3), token)
    for level in range(depth):
        policy = Wrapping(policy) if level % 2 == 0 else with_max_retries(policy, 99)
    ticker = face.ticker(policy, clock=clock)
    face.receive(ticker)
    waiting = face.start_receive(ticker)
    clock.settle()
    clock.advance(0.02)
    token.cancel()
    assert reason_of(waiting) is CloseReason.CANCELLED
    assert clock.monotonic() == pytest.approx(1000.02)


# Defect 8: timer and cancel ready together, and one picked at random


def test_row_8_no_extra_attempt_when_a_cancel_and_a_tick_meet() -> None:
    """Cancelled by the work itself, with no delay: the next tick is due at once."""
    for _ in range(RACES):
        token = CancellationToken()
        attempts = 0
        for _tick in Ticker(ZeroBackOff(), token=token):
            attempts += 1
            token.cancel()
        assert attempts == 1


def test_row_8_nor_in_a_loop() -> None:
    async def main() -> None:
        for _ in range(RACES):
            token = CancellationToken()
            attempts = 0
            async for _tick in AsyncTicker(with_token(ZeroBackOff(), token)):
                attempts += 1
                token.cancel()
            assert attempts == 1

    asyncio.run(main())


@pytest.mark.usefixtures("quick_switches")
def test_row_8_no_tick_after_a_cancel_in_another_thread_returned(racing_face: Any) -> None:
    assert end_while_read(racing_face, lambda token, _: token.cancel()) == []


# Defect 18: a policy cannot be shared


def test_row_18_one_policy_serves_many_tickers_at_once(face: Any, clock: VirtualClock) -> None:
    policy = with_max_retries(
        ExponentialBackOff(1, 0, 2, max_interval=30, max_elapsed_time=None), 20
    )
    alone = face.iterate(face.ticker(policy))
    clock.advance(1000)
    delays = [tick.delay for tick in alone.result(PATIENCE)]
    assert delays == [0, 1, 2, 4, 8, 16, *[30] * 15]
    runs = [face.iterate(face.ticker(policy)) for _ in range(20)]
    clock.advance(1000)
    for run in runs:
        assert [tick.delay for tick in run.result(PATIENCE)] == delays
    assert policy.retries == 0
    assert in_thread(policy.next_backoff).result(PATIENCE) == delays[1]

"""Several readers of one ticker, who wait, time out and leave: in threads and in event loops."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    CloseReason,
    ConstantBackOff,
    Pace,
    Ticker,
    WouldBlock,
    ZeroBackOff,
    with_max_retries,
)
from tests.helpers import PATIENCE, LoopFace, LoopThread, ThreadFace
from tests.tickers.made_policies import first_done, reason_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

    from backoff_ticker.testing import VirtualClock


@pytest.mark.parametrize("timeout", [0, 5, 5.0, timedelta(seconds=5)])
def test_a_receive_that_times_out_loses_no_tick(
    face: Any, clock: VirtualClock, timeout: Any
) -> None:
    ticker = face.ticker(ConstantBackOff(10), clock=clock)
    face.receive(ticker, timeout)
    late = face.start_receive(ticker, timeout)
    if timeout:
        clock.advance(5)
    error = late.exception(PATIENCE)
    assert type(error) is TimeoutError
    clock.advance_to(1010)
    assert face.receive(ticker, 0).number == 2


def test_a_tick_due_when_the_time_is_up_is_taken(face: Any, clock: VirtualClock) -> None:
    ticker = face.ticker(ConstantBackOff(10), clock=clock)
    face.receive(ticker)
    waiting = face.start_receive(ticker, 10)
    clock.advance(10)
    assert waiting.result(PATIENCE).number == 2


BAD_TIMEOUTS = [
    (float("nan"), ValueError),
    (float("inf"), ValueError),
    (-1, ValueError),
    (timedelta(seconds=-1), ValueError),
    (10**400, ValueError),
    ("1", TypeError),
    (True, TypeError),
    (1j, TypeError),
]


@pytest.mark.parametrize(("timeout", "kind"), BAD_TIMEOUTS)
def test_a_bad_timeout_is_refused_and_takes_no_tick(
    face: Any, timeout: Any, kind: type[Exception]
) -> None:
    ticker = face.ticker(ZeroBackOff())
    error = face.start_receive(ticker, timeout).exception(PATIENCE)
    assert type(error) is kind
    assert "timeout" in str(error)
    assert face.receive(ticker).number == 1


def test_a_timeout_longer_than_any_wait_is_allowed(face: Any, clock: VirtualClock) -> None:
    ticker = face.ticker(ConstantBackOff(10), clock=clock)
    face.receive(ticker)
    waiting = face.start_receive(ticker, 1e300)
    clock.advance(10)
    assert waiting.result(PATIENCE).number == 2


def test_receive_nowait_takes_what_is_due_and_would_block_otherwise(
    face: Any, clock: VirtualClock
) -> None:
    ticker = face.ticker(ConstantBackOff(10), clock=clock)
    assert ticker.receive_nowait().number == 1
    for _ in range(2):
        with pytest.raises(WouldBlock):
            ticker.receive_nowait()
    clock.advance(10)
    assert ticker.receive_nowait().number == 2


def test_iteration_can_be_left_and_taken_up_again(face: Any, clock: VirtualClock) -> None:
    ticker = face.ticker(with_max_retries(ZeroBackOff(), 3), clock=clock)
    face.receive(ticker)
    assert [tick.number for tick in face.iterate(ticker).result(PATIENCE)] == [2, 3, 4]
    assert face.iterate(ticker).result(PATIENCE) == []


def test_iteration_is_over_the_ticker_itself() -> None:
    ticker = Ticker(with_max_retries(ZeroBackOff(), 2))
    assert iter(ticker) is ticker
    assert next(ticker).number == 1
    asynchronous = AsyncTicker(ZeroBackOff())
    assert aiter(asynchronous) is asynchronous


def test_iteration_waits_for_each_tick(face: Any, clock: VirtualClock) -> None:
    ticker = face.ticker(with_max_retries(ConstantBackOff(10), 2), clock=clock)
    all_ticks = face.iterate(ticker)
    clock.settle()
    for count in (1, 2):
        assert f" {count} tick" in repr(ticker)
        clock.advance(9)
        assert f" {count} tick" in repr(ticker)
        clock.advance(1)
    assert " 3 ticks" in repr(ticker)
    assert [tick.due for tick in all_ticks.result(PATIENCE)] == [1000, 1010, 1020]


def test_a_user_cancelled_task_loses_no_tick(clock: VirtualClock) -> None:
    thread = LoopThread()
    ticker = AsyncTicker(ConstantBackOff(10), clock=clock)

    async def cancel_a_reader() -> bool:
        await ticker.receive()
        task = asyncio.create_task(ticker.receive())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert thread.run(cancel_a_reader())
    assert len(clock.pending()) == 0
    clock.advance(10)
    assert thread.run(ticker.receive()).number == 2
    thread.close()
    assert thread.errors == []


@pytest.fixture
def loops(clock: VirtualClock) -> Iterator[list[LoopThread]]:
    made = [LoopThread() for _ in range(3)]
    yield made
    for loop in made:
        loop.close()
        assert loop.errors == []


def waiting_in(clock: VirtualClock, ticker: AsyncTicker, *loops: LoopThread) -> list[Future[Any]]:
    """Start a reader in each of ``loops``; each stands in line before the next one starts."""
    started = []
    for loop in loops:
        started.append(loop.submit(ticker.receive()))
        clock.settle()
        assert not started[-1].done()
    return started


# Exactly one each


@pytest.mark.parametrize("pace", list(Pace))
@pytest.mark.parametrize("readers", [2, 7])
def test_each_tick_goes_to_exactly_one_of_those_who_wait(
    face: Any, clock: VirtualClock, readers: int, pace: Pace
) -> None:
    ticker = face.ticker(ConstantBackOff(10), clock=clock, pace=pace)
    face.receive(ticker)
    waiting = [face.start_receive(ticker) for _ in range(readers)]
    for number in range(2, readers + 2):
        clock.advance(10)
        taken = first_done(waiting)
        waiting.remove(taken)
        tick = taken.result()
        assert (tick.number, tick.due) == (number, 1000 + 10 * (number - 1))
        assert not any(future.done() for future in waiting)
    assert len(clock.pending()) == 0


@pytest.fixture(params=[ThreadFace, LoopFace])
def real_face(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Each face in real time, where readers race."""
    made = request.param()
    yield made
    made.close()


def test_many_iterate_at_once_and_share_all_ticks(real_face: Any) -> None:
    ticker = real_face.ticker(with_max_retries(ZeroBackOff(), 2000))
    lists = [real_face.iterate(ticker) for _ in range(8)]
    numbers = sorted(tick.number for ticks in lists for tick in ticks.result(PATIENCE))
    assert numbers == list(range(1, 2002))


def watching(face: Any, clock: VirtualClock) -> int:
    """Return how many readers watch the time; the clock counts those of a loop as one."""
    if face.name == "thread":
        return len(clock.pending())
    return sum(not timer.cancelled() for timer in face.thread.loop._scheduled)


def test_only_the_first_in_line_watches_the_time(face: Any, clock: VirtualClock) -> None:
    ticker = face.ticker(ConstantBackOff(10), clock=clock)
    face.receive(ticker)
    waiting = [face.start_receive(ticker) for _ in range(30)]
    clock.settle()
    assert watching(face, clock) == 1
    ticker.stop()
    assert [reason_of(future) for future in waiting] == ["stopped"] * 30
    assert len(clock.pending()) == 0


class CountingClock:
    """Another clock; counts how often it is read."""

    def __init__(self, clock: VirtualClock) -> None:
        self.readings = 0
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clock, name)

    def monotonic(self) -> float:
        self.readings += 1
        return self._clock.monotonic()


@pytest.mark.parametrize("readers", [2, 3, 8])
def test_readers_that_wait_do_nothing_meanwhile(
    face: Any, clock: VirtualClock, readers: int
) -> None:
    counting = CountingClock(clock)
    ticker = face.ticker(ConstantBackOff(10), clock=counting)
    face.receive(ticker)
    waiting = [face.start_receive(ticker) for _ in range(readers)]
    clock.settle()
    counting.readings = 0
    clock.advance(10)
    waiting.remove(first_done(waiting))
    assert counting.readings < 60
    counting.readings = 0
    clock.advance(9)
    assert counting.readings == 0
    assert watching(face, clock) == 1
    ticker.stop()
    assert [reason_of(future) for future in waiting] == ["stopped"] * (readers - 1)


# A reader that leaves


@pytest.mark.parametrize("readers", [2, 4])
def test_a_leader_that_times_out_passes_on(face: Any, clock: VirtualClock, readers: int) -> None:
    ticker = face.ticker(ConstantBackOff(10), clock=clock)
    face.receive(ticker)
    leader = face.start_receive(ticker, 4)
    clock.settle()
    others = [face.start_receive(ticker) for _ in range(readers - 1)]
    clock.settle()
    clock.advance(4)
    assert type(leader.exception(PATIENCE)) is TimeoutError
    clock.advance(6)
    assert first_done(others).result().number == 2
    ticker.stop()


def test_a_leader_that_times_out_at_the_due_time_takes_the_tick_or_passes_it_on(
    face: Any, clock: VirtualClock
) -> None:
    ticker = face.ticker(ConstantBackOff(10), clock=clock)
    face.receive(ticker)
    leader = face.start_receive(ticker, 10)
    clock.settle()
    other = face.start_receive(ticker, 10)
    clock.settle()
    clock.advance(10)
    outcomes = [leader.exception(PATIENCE), other.exception(PATIENCE)]
    assert sorted(type(error).__name__ for error in outcomes) == ["NoneType", "TimeoutError"]


def test_each_reader_has_its_own_timeout(face: Any, clock: VirtualClock) -> None:
    ticker = face.ticker(ConstantBackOff(100), clock=clock)
    face.receive(ticker)
    waiting = []
    for timeout in (9, 3, 7, 5, 1):
        waiting.append((timeout, face.start_receive(ticker, timeout)))
        clock.settle()
    for timeout, future in sorted(waiting, key=lambda pair: pair[0]):
        clock.advance_to(999 + timeout)
        assert not future.done()
        clock.advance_to(1000 + timeout)
        assert type(future.exception(PATIENCE)) is TimeoutError
    assert not ticker.closed


@pytest.mark.parametrize("resolved", [False, True])
def test_a_leader_whose_task_is_cancelled_passes_on(
    loops: list[LoopThread], clock: VirtualClock, resolved: bool
) -> None:
    """Also if its wake-up has come already and it has not run since."""
    ticker = AsyncTicker(ConstantBackOff(10), clock=clock)

    async def main() -> tuple[bool, bool, int]:
        await ticker.receive()
        leader = asyncio.create_task(ticker.receive())
        other = asyncio.create_task(ticker.receive())
        was_resolved = asyncio.get_running_loop().create_future()

        def cancel() -> None:
            was_resolved.set_result(leader._fut_waiter.done())  # type: ignore[attr-defined]
            leader.cancel()

        for _ in range(3):
            await asyncio.sleep(0)
        # At the same time as the leader's own timer the loop calls both in one go, in this order.
        asyncio.get_running_loop().call_at(1010 if resolved else 1005, cancel)
        await asyncio.wait([leader])
        return await was_resolved, leader.cancelled(), (await other).number

    outcome = loops[0].submit(main())
    clock.advance(10)
    assert outcome.result(PATIENCE) == (resolved, True, 2)
    assert len(clock.pending()) == 0


def test_a_reader_left_by_asyncio_timeout_loses_no_tick(
    loops: list[LoopThread], clock: VirtualClock
) -> None:
    ticker = AsyncTicker(ConstantBackOff(10), clock=clock)

    async def main() -> None:
        await ticker.receive()
        async with asyncio.timeout(0):
            await ticker.receive()

    assert isinstance(loops[0].submit(main()).exception(PATIENCE), TimeoutError)
    clock.advance(10)
    assert ticker.receive_nowait().number == 2


# Several loops


def test_readers_in_several_loops_get_each_tick_once(
    loops: list[LoopThread], clock: VirtualClock
) -> None:
    ticker = AsyncTicker(ConstantBackOff(10), clock=clock)
    assert loops[0].run(ticker.receive()).number == 1
    waiting = waiting_in(clock, ticker, *loops, *loops)
    for number in range(2, 8):
        clock.advance(10)
        taken = first_done(waiting)
        waiting.remove(taken)
        assert taken.result().number == number
        assert not any(future.done() for future in waiting)


@pytest.mark.parametrize("first", [0, 1, 2])
def test_stop_and_cancel_wake_readers_in_every_loop(
    loops: list[LoopThread], clock: VirtualClock, first: int
) -> None:
    token = CancellationToken()
    ticker = AsyncTicker(ConstantBackOff(10), token=token, clock=clock)
    ticker.receive_nowait()
    waiting = waiting_in(clock, ticker, *loops[first:], *loops[:first])
    ticker.stop() if first == 1 else token.cancel()
    assert {reason_of(future) for future in waiting} == {ticker.close_reason}


def test_a_blocked_loop_holds_up_nobody_else(loops: list[LoopThread], clock: VirtualClock) -> None:
    ticker = AsyncTicker(ConstantBackOff(10), clock=clock)
    ticker.receive_nowait()
    first, second = waiting_in(clock, ticker, *loops[:2])

    async def block() -> None:
        clock.parker("a blocked loop")

    with clock.trap("parker", lambda what: what == "a blocked loop") as trap:
        loops[0].submit(block())
        trap.wait()
        clock.advance(10)
        assert second.result(PATIENCE).number == 2
        third = waiting_in(clock, ticker, loops[1])[0]
        clock.advance(10)
        assert third.result(PATIENCE).number == 3
        assert not first.done()
    clock.advance(10)
    assert first.result(PATIENCE).number == 4


@pytest.mark.parametrize("how", ["stopped", "closed"])
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_a_loop_that_is_gone_holds_up_nobody_else(
    loops: list[LoopThread], clock: VirtualClock, how: str
) -> None:
    ticker = AsyncTicker(ConstantBackOff(10), clock=clock)
    ticker.receive_nowait()
    gone = asyncio.new_event_loop()
    gone.set_exception_handler(lambda *_: None)

    async def begin() -> Any:
        task = asyncio.create_task(ticker.receive())
        await asyncio.sleep(0)
        return task

    left_behind = gone.run_until_complete(begin())
    if how == "closed":
        gone.close()
    second = waiting_in(clock, ticker, loops[1])[0]
    clock.advance(10)
    assert second.result(PATIENCE).number == 2
    third = waiting_in(clock, ticker, loops[2])[0]
    ticker.stop()
    assert reason_of(third) is CloseReason.STOPPED
    assert not left_behind.done()
    if how == "stopped":
        gone.run_until_complete(asyncio.wait([left_behind]))
        left_behind.exception()
        gone.close()


def test_a_ticker_lives_through_one_loop_after_another(clock: VirtualClock) -> None:
    ticker = AsyncTicker(ConstantBackOff(10), clock=clock)
    for number in range(1, 5):
        face = LoopFace()
        reader = face.start_receive(ticker)
        if number > 1:
            clock.advance(10)
        assert reader.result(PATIENCE).number == number
        face.close()

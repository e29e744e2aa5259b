"""Calls near the limit of recursion: nothing has happened when they raise, or all has.

The ends that everybody waits for are in ``test_interrupted_endings``.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from contextlib import suppress
from math import inf
from typing import Any

import pytest

from backoff_ticker import (
    Channel,
    ConstantBackOff,
    Schedule,
    Ticker,
    Timer,
    WouldBlock,
    ZeroBackOff,
    with_max_retries,
)
from tests.helpers import PATIENCE, SetClock, eventually, in_thread
from tests.schedules.test_losses import told_removal
from tests.waiting import limited_calls

FRAMES = range(45)
"""All that are too few for some call of the package, and some more."""


def room() -> int:
    """Return how many frames are left."""
    try:
        return room() + 1
    except RecursionError:
        return 0


def with_frames(left: int, call: Any) -> Any:
    """Call ``call()`` with so many frames left; return what it returns, or its RecursionError."""

    def descend(levels: int) -> Any:
        return call() if levels == 0 else descend(levels - 1)

    gc.disable()  # finalizers of what was dropped before would have no room
    try:
        return descend(room() - left - 4)
    except RecursionError as error:
        return error.with_traceback(None)
    finally:
        gc.enable()


def failed(outcome: object) -> bool:
    return isinstance(outcome, RecursionError)


def limited(call: Any, left: int | None) -> Any:
    """Call ``call()`` with so many frames left."""
    result = call() if left is None else with_frames(left, call)
    if failed(result):
        raise result
    return result


@pytest.fixture
def small_stack():
    """Have it filled up in less time."""
    before = sys.getrecursionlimit()
    gc.collect()  # not where the stack is full
    sys.setrecursionlimit(before - room() + 100)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("small_stack")
@pytest.mark.parametrize("act", limited_calls.ACTS)
def test_a_call_has_not_begun_or_does_all(monkeypatch, act):
    async def main():
        for left in FRAMES:
            act(left)

    monkeypatch.setattr(limited_calls, "limited", limited)
    asyncio.run(main())


def test_a_send_that_has_to_wait():
    for left in FRAMES:
        channel: Channel[int] = Channel(1)
        channel.send(0)
        with suppress(TimeoutError):
            with_frames(left, lambda channel=channel: channel.send(1, timeout=0.001))
        assert channel._buffer.first_send is None
        assert channel.receive() == 0
        with pytest.raises(WouldBlock):
            channel.receive_nowait()


@pytest.mark.parametrize("policy", [ZeroBackOff(), with_max_retries(ZeroBackOff(), 1)])
@pytest.mark.parametrize("readers", [0, 1])
def test_a_tick(policy, readers):
    for left in FRAMES:
        ticker = Ticker(policy)
        assert ticker.receive().number == 1
        pending = ticker._pending
        ticker._pending = pending.replace(due=inf)  # so that another reader waits
        waiting = [in_thread(next, ticker, None) for _ in range(readers)]
        eventually(lambda t=ticker: (t._readers.first is not None) == bool(readers), "a reader")
        ticker._pending = pending
        outcome = with_frames(left, ticker.receive_nowait)
        first = ticker.receive() if failed(outcome) and not readers else outcome
        if failed(outcome) and readers:
            ticker._wake()
            assert [reader.result(PATIENCE).number for reader in waiting] == [2]
            continue
        assert first.number == 2
        ticker.stop() if readers else None
        ticker._wake()
        for reader in waiting:
            reader.result(PATIENCE)


def test_a_reset_of_a_ticker_that_a_reader_waits_for():
    for left in FRAMES:
        ticker = Ticker(ConstantBackOff(3600))
        ticker.receive()
        waiting = in_thread(next, ticker)
        eventually(lambda ticker=ticker: ticker._readers.first is not None, "a reader")
        outcome = with_frames(left, lambda ticker=ticker: ticker.reset(immediately=True))
        if failed(outcome):
            assert ticker._resets == 0
            ticker.reset(immediately=True)
        assert waiting.result(PATIENCE).number == 2


def test_the_stop_of_a_timer():
    for left in FRAMES:
        timer = Timer()
        timer.start(3600)
        outcome = with_frames(left, timer.stop)
        assert outcome is True or (failed(outcome) and timer.stop()), left


def test_a_job_that_is_taken_and_ends():
    for left in FRAMES:
        schedule: Schedule[int] = Schedule()
        schedule.add(1)
        outcome = with_frames(left, schedule.receive_nowait)
        job = schedule.receive(PATIENCE) if failed(outcome) else outcome
        assert (job.key, job.failures) == (1, 0), left
        waiting = in_thread(schedule.receive)
        eventually(lambda schedule=schedule: schedule._readers.first is not None, "a worker")
        outcome = with_frames(left, lambda job=job: job.retry_in(0))
        if failed(outcome):
            assert schedule.in_flight == 1
            job.retry_in(0)
        again = waiting.result(PATIENCE)
        assert (again.key, again.failures) == (1, 0)
        again.succeed()
        assert len(schedule) == 0


class Key:
    """A key whose look-up needs a frame."""

    def __hash__(self) -> int:
        return 7

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key)


def test_what_others_have_told_to_a_schedule():
    """Who finds no room for it leaves it to the next, in the middle of it, too."""
    for left in FRAMES:
        schedule: Schedule[Any] = Schedule(clock=SetClock())
        schedule.add(Key())
        job = schedule.receive_nowait()
        schedule.add("next")
        schedule.add(Key(), 1)
        job.succeed()  # it comes anew, once somebody has made this
        change = told_removal(schedule, Key())
        with_frames(left, lambda schedule=schedule: schedule.in_flight)
        assert len(schedule) == 1, left
        assert (change.answer, change.error) == (True, None)
        schedule._clock.advance(1)  # type: ignore[attr-defined]
        schedule.receive_nowait().leave()
        with pytest.raises(WouldBlock):
            schedule.receive_nowait()


def test_the_end_of_a_job_of_a_group_that_is_full():
    for left in FRAMES:
        schedule: Schedule[str] = Schedule(group=lambda _: 0, limit=1)
        schedule.add("a")
        job = schedule.receive_nowait()
        schedule._told.append(job._hold)
        with_frames(left, lambda schedule=schedule: schedule.in_flight)
        assert schedule.in_flight == 0, left  # it was given back
        schedule.receive_nowait().succeed()

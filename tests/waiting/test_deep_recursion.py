"""Calls near the limit of recursion: nothing has happened when they raise, or all has.

The ends that everybody waits for are in ``test_interrupted_endings``.
"""

from __future__ import annotations

import gc
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    Channel,
    ConstantBackOff,
    Schedule,
    ScheduleClosed,
    Ticker,
    Timer,
    WouldBlock,
    ZeroBackOff,
    select,
    with_max_retries,
)
from tests.helpers import PATIENCE, LoopThread, SetClock, eventually, in_thread
from tests.schedules.test_losses import told_removal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

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

    levels = room() - left - 4
    gc.disable()  # finalizers of what other tests have left would have no room
    try:
        return descend(levels)
    except RecursionError as error:
        return error.with_traceback(None)
    finally:
        gc.enable()


def failed(outcome: object) -> bool:
    return isinstance(outcome, RecursionError)


@pytest.fixture(params=["thread", "loop"])
def begin(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Begin a wait in another thread or in a loop, and return its future once it stands in line."""
    loop = LoopThread(debug=False) if request.param == "loop" else None

    def begin(source: Any, wait_set: Any, **options: Any) -> Future[Any]:
        if loop is None:
            future = in_thread(source, *options.values())
        else:
            name = {"wait": "wait_async", "receive": "receive_async", "send": "send_async"}
            method = getattr(source.__self__, name[source.__name__])
            future = loop.submit(method(*options.values()))
        eventually(lambda: wait_set.first is not None or wait_set.others, "a wait")
        return future

    yield begin
    if loop is not None:
        loop.close()


@pytest.mark.parametrize("capacity", [0, 1, inf])
@pytest.mark.parametrize("name", ["send_nowait", "send"])
def test_an_item_that_is_sent_to_a_receiver_that_waits(begin, capacity, name):
    for left in FRAMES:
        channel: Channel[int] = Channel(capacity)
        waiting = begin(channel.receive, channel._buffer)
        send = getattr(channel, name)
        outcome = with_frames(left, lambda send=send, item=left: send(item))
        if failed(outcome):
            assert not waiting.done()
            channel.send(left + 100, timeout=PATIENCE)
        assert waiting.result(PATIENCE) == left + 100 * failed(outcome)


@pytest.mark.parametrize("capacity", [1, inf])
@pytest.mark.parametrize("name", ["receive_nowait", "receive", "select"])
def test_an_item_that_is_received(capacity, name):
    for left in FRAMES:
        channel: Channel[str] = Channel(capacity)
        channel.send("item")
        receive: Any = getattr(channel, name, lambda channel=channel: select(channel)[1])
        outcome = with_frames(left, receive)
        assert len(channel) == failed(outcome), left
        assert failed(outcome) or outcome == "item"


@pytest.mark.parametrize("capacity", [0, 1])
def test_an_item_that_is_received_from_a_sender_that_waits(begin, capacity):
    for left in FRAMES:
        channel: Channel[int] = Channel(capacity)
        for number in range(capacity):
            channel.send(number)
        sent = in_thread(channel.send, capacity)
        eventually(lambda channel=channel: channel._buffer.first_send is not None, "a sender")
        outcome = with_frames(left, channel.receive_nowait)
        numbers = [*range(capacity + 1)]
        if not failed(outcome):
            assert outcome == numbers.pop(0)
            sent.result(PATIENCE)
        assert [channel.receive(PATIENCE) for _ in numbers] == numbers
        sent.result(PATIENCE)


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


def test_what_is_told_to_a_schedule_that_a_worker_waits_for(begin):
    for left in FRAMES:
        schedule: Schedule[str] = Schedule()
        waiting = begin(schedule.receive, schedule._readers)
        outcome = with_frames(left, lambda schedule=schedule: schedule.add("key"))
        if failed(outcome):
            assert "key" not in schedule
            schedule.add("key")
        job = waiting.result(PATIENCE)
        outcome = with_frames(left, lambda schedule=schedule: schedule.remove("key"))
        assert failed(outcome) or "key" not in schedule
        job.succeed()


def test_a_job_that_is_taken_and_ends(begin):
    for left in FRAMES:
        schedule: Schedule[int] = Schedule()
        schedule.add(1)
        outcome = with_frames(left, schedule.receive_nowait)
        job = schedule.receive(PATIENCE) if failed(outcome) else outcome
        assert (job.key, job.failures) == (1, 0), left
        waiting = begin(schedule.receive, schedule._readers)
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


def test_the_end_of_a_schedule(begin):
    for left in FRAMES:
        schedule: Schedule[str] = Schedule()
        waiting = begin(schedule.receive, schedule._readers)
        outcome = with_frames(left, schedule.close)
        assert schedule.closed is not failed(outcome), left
        if failed(outcome):
            schedule.close()
        with pytest.raises(ScheduleClosed):
            waiting.result(PATIENCE)

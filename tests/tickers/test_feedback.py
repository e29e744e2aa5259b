"""``success()`` and ``failure()``: what they do to the delay that is pending."""

import queue

import pytest

from backoff_ticker import (
    CloseReason,
    ConstantBackOff,
    ExponentialBackOff,
    LIMDBackOff,
    Pace,
    WouldBlock,
)
from tests.channels.ends import value_after
from tests.helpers import PATIENCE, in_thread
from tests.tickers.made_policies import (
    EVERY_PACE,
    Blocking,
    Scripted,
    nothing_is_due,
    reader_that_waits,
    reason_of,
    ticked,
)
from tests.tickers.made_timers import MeddlingClock


class Feedback:
    """A feedback policy: 10 s, 20 s, ... after failures in a row, 1 s after a success."""

    def __init__(self):
        self.calls = []
        self.failures = 0

    def __copy__(self):
        return self

    def failure(self, timestamp=None):
        self.calls.append("failure")
        self.failures += 1
        return 10.0 * self.failures

    def success(self, timestamp=None):
        self.calls.append("success")
        self.failures = 0
        return 1.0

    def next_backoff(self):
        return self.failure()

    def reset(self):
        self.failures = 0


def plain():
    """1 s, 2 s, 4 s, ..."""
    return ExponentialBackOff(1, 0, 2, max_interval=1000, max_elapsed_time=None)


def dues(ticker, clock, *moves):
    """Take the tick that is due after each move; its due time counts from 1000."""
    taken = []
    for move in moves:
        clock.advance(move)
        taken.append(ticker.receive_nowait().due - 1000)
        nothing_is_due(ticker)
    return taken


# Any other policy: success() begins anew


def test_success_begins_the_back_off_anew(face, clock):
    """Where that moves the due time into the past, the tick is due."""
    ticker = face.ticker(plain(), clock=clock)
    assert dues(ticker, clock, 0, 1, 2) == [0, 1, 3]
    ticker.success()
    assert dues(ticker, clock, 1, 2) == [4, 6]
    clock.advance(3)
    ticker.success()
    tick = ticker.receive_nowait()
    assert (tick.due, tick.lateness) == (1007, 2)


def test_a_waiting_reader_waits_for_the_new_due_time(face, clock):
    """Also where it comes later than the old one: here 10 s in place of 3 s."""
    policy = Scripted(3.0, 10.0)
    ticker = ticked(face, policy, clock=clock)
    waiting = reader_that_waits(face, clock, ticker)
    ticker.success()
    assert policy.asked == 2
    tick = value_after(clock, 10, waiting)
    assert (tick.due, tick.delay) == (1010, 10)


@pytest.mark.parametrize("feedback", [False, True])
@pytest.mark.parametrize("call", ["success", "failure"])
@EVERY_PACE
def test_before_the_first_tick_it_leaves_the_first_tick_alone(face, clock, call, pace, feedback):
    policy = Feedback() if feedback else Scripted(then=7.0)
    ticker = face.ticker(policy, clock=clock, pace=pace)
    getattr(ticker, call)()
    tick = face.receive(ticker)
    assert (tick.number, tick.due, tick.delay) == (1, 1000, 0)
    assert getattr(policy, "calls", []) == []


@pytest.mark.parametrize("readings", [0, 1, 2])
@EVERY_PACE
def test_a_success_that_meets_the_first_ask_leaves_the_first_tick_alone(face, pace, readings):
    """It comes from elsewhere while a reader has asked for the first tick and not got it yet."""
    clock = MeddlingClock()
    ticker = face.ticker(ConstantBackOff(10), clock=clock, pace=pace)
    clock.meddlers = [int] * readings + [ticker.success]
    tick = ticker.receive_nowait()
    assert (tick.number, tick.due, tick.delay) == (1, 1000, 0)


@pytest.mark.parametrize("feedback", [False, True])
def test_after_the_end_it_does_nothing(face, clock, feedback):
    policy = Feedback() if feedback else Scripted(then=7.0)
    ticker = ticked(face, policy, clock=clock)
    ticker.stop()
    ticker.success()
    ticker.failure()
    assert ticker.close_reason is CloseReason.STOPPED
    assert reason_of(face.start_receive(ticker)) is CloseReason.STOPPED


# Feedback policies


def test_failures_are_counted_once_a_tick(face, clock):
    policy = Feedback()
    ticker = ticked(face, policy, clock=clock)
    ticker.failure()
    ticker.failure()
    nothing_is_due(ticker)
    assert policy.calls == ["failure"]


def test_success_of_a_feedback_policy_gives_its_delay(face, clock):
    policy = Feedback()
    ticker = ticked(face, policy, clock=clock)
    ticker.success()
    assert policy.calls == ["success"]
    assert dues(ticker, clock, 1, 10, 20) == [1, 11, 31]
    assert policy.calls == ["success", "failure", "failure", "failure"]


def test_success_after_an_ask_replaces_the_failure(face, clock):
    policy = Feedback()
    ticker = ticked(face, policy, clock=clock)
    waiting = reader_that_waits(face, clock, ticker)
    ticker.success()
    assert value_after(clock, 1, waiting).due == 1001


@pytest.mark.parametrize("call", ["success", "failure"])
def test_an_outcome_whose_delay_is_bad_fails_the_ticker(face, call):
    policy = Feedback()
    setattr(policy, call, lambda timestamp=None: None)
    ticker = ticked(face, policy)
    getattr(ticker, call)()
    assert ticker.close_reason is CloseReason.FAILED
    error = face.start_receive(ticker).exception(PATIENCE)
    assert isinstance(error, TypeError)
    assert "Feedback" in str(error)
    assert reason_of(face.start_receive(ticker)) is CloseReason.FAILED


# The delay to come


def test_the_next_delay_is_told_once_it_is_known(face, clock):
    ticker = face.ticker(ConstantBackOff(5), clock=clock)
    assert ticker.next_delay == 0.0
    face.receive(ticker)
    assert ticker.next_delay == 5.0
    ticker.stop()
    assert ticker.next_delay is None


def test_the_next_delay_of_a_feedback_policy_is_known_when_it_was_told(face, clock):
    ticker = ticked(face, LIMDBackOff(2, 4, 0.5), clock=clock)
    assert ticker.next_delay is None
    ticker.failure()
    assert ticker.next_delay == 2.0
    ticker.success()
    assert ticker.next_delay == 1.0


# tick.since_success


def counts(ticker, clock, count):
    """Take so many ticks, each as soon as it is due; return the ``since_success`` of each."""
    found = []
    while len(found) < count:
        try:
            found.append(ticker.receive_nowait().since_success)
        except WouldBlock:
            clock.advance(ticker.next_delay)
    return found


@pytest.mark.parametrize("make", [plain, Feedback, lambda: Scripted(then=2.0)])
@EVERY_PACE
def test_failures_are_the_ticks_since_the_start_a_success_or_a_reset(face, clock, pace, make):
    ticker = face.ticker(make(), clock=clock, pace=pace)
    assert counts(ticker, clock, 3) == [0, 1, 2]
    ticker.failure()  # says no more than the next request for a tick would
    assert counts(ticker, clock, 1) == [3]
    ticker.success()
    ticker.success()
    assert counts(ticker, clock, 3) == [0, 1, 2]
    for reset in (
        ticker.reset,
        lambda: ticker.reset(immediately=True),
        lambda: ticker.reset(ConstantBackOff(1)),
    ):
        reset()
        assert counts(ticker, clock, 2) == [0, 1]


def test_a_success_while_the_policy_is_asked_counts_from_the_next_tick(face, clock):
    policy = Blocking(then=10.0)
    ticker = face.ticker(policy, clock=clock)
    policy.release.set()
    assert counts(ticker, clock, 2) == [0, 1]
    policy.block()
    clock.advance(10)
    taking = in_thread(ticker.receive_nowait)
    policy.entered.wait()
    ticker.success()
    policy.release.set()
    assert taking.result(PATIENCE).since_success == 2
    assert counts(ticker, clock, 2) == [0, 1]


def test_dropped_ticks_count_as_failures_where_a_sink_is_full_but_not_those_of_skip(face, clock):
    sink = queue.Queue(1)
    ticker = face.ticker(ConstantBackOff(10), clock=clock)
    ticker.send_to(sink)
    clock.advance(10)
    assert sink.get_nowait().since_success == 0
    clock.advance(11)
    tick = sink.get_nowait()
    assert (tick.missed, tick.since_success) == (1, 2)
    skipping = face.ticker(ConstantBackOff(10), clock=clock, pace=Pace.SKIP)
    skipping.receive_nowait()
    clock.advance(35)
    nothing_is_due(skipping)
    clock.advance(5)
    tick = skipping.receive_nowait()
    assert (tick.missed, tick.since_success) == (3, 1)

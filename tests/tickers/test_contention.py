"""One reader asks a policy that takes its time: what the others can do meanwhile."""

import pytest

from backoff_ticker import STOP, CancellationToken, CloseReason, ConstantBackOff
from tests.channels.ends import value_after
from tests.helpers import PATIENCE, in_thread
from tests.tickers.made_policies import (
    EVERY_PACE,
    Blocking,
    first_done,
    nothing_is_due,
    reader_that_waits,
    reason_of,
)


@pytest.fixture
def asking(face):
    """Begin to receive elsewhere: in another thread, another loop."""
    elsewhere = type(face)()

    def ask(ticker):
        taking = elsewhere.start_receive(ticker)
        assert ticker.backoff.entered.wait()
        return taking

    yield ask
    elsewhere.close()


def test_the_policy_is_asked_by_one_reader_at_a_time(face, clock, asking):
    policy = Blocking()
    ticker = face.ticker(policy, clock=clock)
    taking = asking(ticker)
    waiting = [face.start_receive(ticker) for _ in range(5)]
    clock.advance(100)
    assert policy.asked == 0
    policy.release.set()
    assert taking.result(PATIENCE).number == 1
    clock.settle()
    first_done(waiting)
    ticker.stop()
    assert sum(future.exception(PATIENCE) is None for future in waiting) == 1
    assert policy.asked == 2


@EVERY_PACE
def test_another_reader_can_time_out(face, clock, asking, pace):
    policy = Blocking()
    ticker = face.ticker(policy, clock=clock, pace=pace)
    taking = asking(ticker)
    assert type(face.start_receive(ticker, 0).exception(PATIENCE)) is TimeoutError
    waiting = face.start_receive(ticker, 5)
    clock.advance(5)
    assert type(waiting.exception(PATIENCE)) is TimeoutError
    policy.release.set()
    assert taking.result(PATIENCE).number == 1


@EVERY_PACE
@pytest.mark.parametrize("first", [False, True])
def test_stop_does_not_wait_for_the_policy(face, clock, asking, pace, first):
    policy = Blocking(then=0.0)
    ticker = face.ticker(policy, clock=clock, pace=pace)
    if not first:
        policy.release.set()
        face.receive(ticker)
        policy.block()
    taking = asking(ticker)
    waiting = [face.start_receive(ticker) for _ in range(3)]
    clock.settle()
    in_thread(ticker.stop).result(PATIENCE)
    assert [reason_of(future) for future in waiting] == [CloseReason.STOPPED] * 3
    assert not taking.done()
    policy.release.set()
    assert reason_of(taking) is CloseReason.STOPPED


def test_a_cancel_while_the_policy_is_asked_for_the_first_time_spares_the_first_tick(
    face, clock, asking
):
    token = CancellationToken()
    policy = Blocking(then=0.0)
    ticker = face.ticker(policy, token=token, clock=clock)
    taking = asking(ticker)
    waiting = reader_that_waits(face, clock, ticker)
    in_thread(token.cancel).result(PATIENCE)
    policy.release.set()
    assert taking.result(PATIENCE).number == 1
    assert reason_of(waiting) is CloseReason.CANCELLED


@pytest.mark.parametrize("answer", [STOP, ValueError("oh"), "1", SystemExit(), 10.0])
def test_the_others_learn_how_the_question_ended(face, clock, asking, answer):
    policy = Blocking(answer, then=STOP)
    ticker = face.ticker(policy, clock=clock)
    if isinstance(answer, SystemExit):
        taking = in_thread(ticker.receive_nowait)
        assert policy.entered.wait()
    else:
        taking = asking(ticker)
    waiting = reader_that_waits(face, clock, ticker)
    policy.release.set()
    if isinstance(answer, SystemExit):
        assert isinstance(taking.exception(PATIENCE), SystemExit)
        assert waiting.result(PATIENCE).number == 1
        return
    assert taking.result(PATIENCE).number == 1
    clock.advance(10)
    if answer is STOP:
        assert reason_of(waiting) is CloseReason.EXHAUSTED
    elif answer == 10.0:
        assert waiting.result(PATIENCE).number == 2
    else:
        assert type(waiting.exception(PATIENCE)) in (ValueError, TypeError)


@pytest.mark.parametrize("what", ["success", "failure", "reset", "stop"])
def test_nothing_that_is_said_meanwhile_waits_for_the_policy(face, clock, asking, what):
    policy = Blocking(50.0, then=10.0)
    ticker = face.ticker(policy, clock=clock)
    taking = asking(ticker)
    in_thread(getattr(ticker, what)).result(PATIENCE)
    policy.release.set()
    if what == "stop":
        assert reason_of(taking) is CloseReason.STOPPED
        return
    if what == "reset":
        clock.advance(10)
        tick = taking.result(PATIENCE)
        assert (tick.number, tick.delay) == (1, 10)
        return
    assert taking.result(PATIENCE).number == 1
    delay = 50 if what == "failure" else 10
    clock.advance(delay - 1)
    nothing_is_due(ticker)
    clock.advance(1)
    assert ticker.receive_nowait().delay == delay


def test_all_that_is_said_meanwhile_is_applied_once_and_in_its_order(face, clock, asking):
    policy = Blocking(50.0, then=10.0)
    ticker = face.ticker(policy, clock=clock)
    taking = asking(ticker)
    resets = policy.resets
    for _ in range(1000):
        ticker.success()
    for seconds in range(1, 1001):
        ticker.reset(ConstantBackOff(seconds))
    policy.release.set()
    clock.settle()
    assert policy.resets == resets + 1000
    tick = value_after(clock, 1000, taking)
    assert (tick.number, tick.delay) == (1, 1000)

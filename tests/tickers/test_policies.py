"""What a policy may answer, raise and call, and the copy of it that a ticker runs."""

import asyncio

import pytest

from backoff_ticker import (
    STOP,
    CancellationToken,
    CloseReason,
    ConstantBackOff,
    Pace,
    TickerClosed,
    WouldBlock,
    with_max_retries,
    with_token,
)
from backoff_ticker.testing import VirtualClock
from tests.channels.ends import value_after
from tests.helpers import PATIENCE, Face, in_thread, readable_id
from tests.policies.policy_doubles import Wrapper
from tests.tickers.made_policies import (
    EVERY_PACE,
    Blocking,
    Counting,
    Scripted,
    first_done,
    nothing_is_due,
    reader_that_waits,
    reason_of,
    ticked,
)


@pytest.mark.parametrize("pace", list(Pace))
@pytest.mark.parametrize(("answer", "kind"), [(-1, ValueError), ("1", TypeError)])
def test_a_bad_answer_fails_the_ticker_with_an_error_that_names_the_policy(
    face, answer, kind, pace
):
    ticker = face.ticker(Scripted(answer, then=0.0), pace=pace)
    assert face.receive(ticker).number == 1
    assert ticker.close_reason is CloseReason.FAILED
    error = face.start_receive(ticker).exception(PATIENCE)
    assert type(error) is kind
    assert "<the scripted policy>" in str(error)
    for _ in range(2):
        assert reason_of(face.start_receive(ticker)) is CloseReason.FAILED
    assert face.iterate(ticker).result(PATIENCE) == []


class UserError(Exception):
    """Raised by a test's policy."""


class UserTimeoutError(TimeoutError):
    """Not to be taken for the one of ``receive(timeout=)``."""


ERRORS = [
    UserError("oh"),
    ValueError(),
    KeyError("oh"),
    RuntimeError(),
    UserTimeoutError(),
    MemoryError(),
    WouldBlock(),
    ExceptionGroup("many", [UserError()]),
]


@pytest.mark.parametrize("given", ERRORS, ids=readable_id)
def test_an_error_of_the_policy_is_raised_once_and_names_the_policy(face, given):
    ticker = face.ticker(Scripted(given, then=0.0))
    assert face.receive(ticker).number == 1
    error = face.start_receive(ticker).exception(PATIENCE)
    assert error is given
    assert sum("<the scripted policy>" in note for note in error.__notes__) == 1
    given.__notes__.clear()
    for _ in range(2):
        assert reason_of(face.start_receive(ticker)) is CloseReason.FAILED


MISTAKABLE = [StopIteration(3), StopAsyncIteration(), TickerClosed(CloseReason.STOPPED)]


@pytest.mark.parametrize("given", MISTAKABLE, ids=readable_id)
@pytest.mark.parametrize("how", ["receive", "receive_nowait", "iterate"])
def test_an_error_that_would_end_a_loop_unseen_is_raised_as_another(face, given, how):
    ticker = ticked(face, Scripted(given, then=0.0))
    ways = {
        "receive": face.start_receive,
        "receive_nowait": lambda ticker: in_thread(ticker.receive_nowait),
        "iterate": face.iterate,
    }
    error = ways[how](ticker).exception(PATIENCE)
    assert type(error) is RuntimeError
    assert "<the scripted policy>" in str(error)
    assert error.__cause__ is given
    assert reason_of(face.start_receive(ticker)) is CloseReason.FAILED


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, asyncio.CancelledError])
def test_what_is_no_exception_passes_at_once_and_loses_no_tick(face, kind):
    policy = Scripted(kind(), then=0.0)
    ticker = face.ticker(policy)
    with pytest.raises(kind):
        ticker.receive_nowait()
    assert not ticker.closed
    assert [face.receive(ticker).number for _ in range(3)] == [1, 2, 3]
    assert policy.asked == 4


class Reaching(Scripted):
    """Does something to its own ticker each time it is asked."""

    def __init__(self, act, then=0.0):
        super().__init__(then=then)
        self.act = act
        self.ticker = None

    def next_backoff(self):
        self.act(self.ticker)
        return super().next_backoff()


def reaching(face, act, **options):
    policy = Reaching(act)
    ticker = policy.ticker = face.ticker(policy, **options)
    return ticker, policy


@pytest.mark.parametrize("ticks", [1, 3])
def test_a_policy_may_cancel_its_token(face, ticks):
    """What it cancels while it is asked is not delivered any more, save the first tick."""
    token = CancellationToken()
    ticker, policy = reaching(
        face, lambda _: policy.asked >= ticks and token.cancel("enough"), token=token
    )
    numbers = [tick.number for tick in face.iterate(ticker).result(PATIENCE)]
    assert numbers == [*range(1, ticks + 1)]
    assert ticker.close_reason is CloseReason.CANCELLED


@pytest.mark.parametrize("last", [STOP, 10.0])
@pytest.mark.parametrize("whose", ["the ticker's", "the policy's"])
def test_a_policy_that_cancels_is_told_as_the_reason(face, last, whose):
    """Whatever it answers then, and as soon as its tick was taken."""
    token = CancellationToken()
    policy = Scripted(then=lambda: (token.cancel(), last)[1])
    if whose == "the policy's":
        policy.token = token
    ticker = face.ticker(policy, token=token if whose == "the ticker's" else None)
    assert face.receive(ticker).number == 1
    assert ticker.close_reason is CloseReason.CANCELLED
    assert reason_of(face.start_receive(ticker)) is CloseReason.CANCELLED


@pytest.mark.parametrize(
    "how", ["receive_nowait", "receive", "next", "success", "failure", "reset"]
)
def test_a_policy_that_uses_its_own_ticker_gets_a_runtime_error(face, how):
    def act(ticker):
        if how not in ("receive", "next"):
            getattr(ticker, how)()
        elif face.name == "thread":
            ticker.receive() if how == "receive" else next(ticker)
        else:
            asking = ticker.receive() if how == "receive" else anext(ticker)
            asking.send(None)
            from outcome import Value  # trio's

            asking.send(Value(None))  # it was at a checkpoint of trio

    ticker, policy = reaching(face, act)
    assert face.receive(ticker).number == 1
    error = face.start_receive(ticker).exception(PATIENCE)
    assert type(error) is RuntimeError
    assert "its own policy" in str(error)
    assert reason_of(face.start_receive(ticker)) is CloseReason.FAILED
    assert policy.asked == 0


# The copy that runs


def take(ticker, clock, count):
    """Take ``count`` ticks as they fall due; return their delays."""
    delays = [ticker.receive_nowait().delay]
    for delay in range(1, count):
        clock.advance(delay)
        delays.append(ticker.receive_nowait().delay)
    return delays


def test_the_copy_is_reset_and_is_what_backoff_shows(face, clock):
    policy = Wrapper(Counting())
    ticker = face.ticker(policy, clock=clock)
    assert type(ticker.backoff) is Wrapper
    assert ticker.backoff is not policy
    assert take(ticker, clock, 3) == [0, 1, 2]
    assert policy.next_backoff() == 1
    assert ticker.backoff.next_backoff() == 4


def test_an_error_of_reset_is_the_constructors(face):
    class Unresettable(Counting):
        def reset(self):
            raise LookupError("no")

    with pytest.raises(LookupError, match="no"):
        face.ticker(Unresettable())


# The token inside


@pytest.mark.parametrize("pace", [Pace.RECEIPT, Pace.RETURN])
def test_a_token_inside_of_wrappers_wakes_a_reader_at_once(face, clock, pace):
    token = CancellationToken()
    policy = with_max_retries(Wrapper(with_token(ConstantBackOff(300), token)), 10)
    ticker = ticked(face, policy, clock=clock, pace=pace)
    waiting = reader_that_waits(face, clock, ticker)
    token.cancel()
    assert reason_of(waiting) is CloseReason.CANCELLED
    assert clock.monotonic() == 1000


def test_a_token_with_a_deadline_on_another_clock_is_refused(face, clock):
    token = CancellationToken(clock=VirtualClock()).child(timeout=100)
    with pytest.raises(ValueError, match=r"token.*clock"):
        face.ticker(ConstantBackOff(1), token=token, clock=clock)
    with pytest.raises(ValueError, match=r"token.*clock"):
        face.ticker(with_token(ConstantBackOff(1), token), clock=clock)
    with pytest.raises(ValueError, match=r"token.*clock"):
        face.ticker(ConstantBackOff(1), clock=clock).reset(with_token(ConstantBackOff(1), token))


def test_the_tick_is_due_from_when_it_was_taken_however_long_the_policy_thinks(face, clock):
    policy = Blocking()
    ticker = face.ticker(policy, clock=clock)
    taking = face.start_receive(ticker)
    assert policy.entered.wait()
    clock.advance(4)
    policy.release.set()
    assert taking.result(PATIENCE).lateness == 0
    clock.advance(6)
    assert ticker.receive_nowait().due == 1010


# One reader asks a policy that takes its time: what the others can do meanwhile


@pytest.fixture
def asking(face):
    """Begin to receive elsewhere: in another thread, another loop."""
    elsewhere = Face(face.name)

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


@pytest.mark.parametrize("answer", [STOP, ValueError("oh"), "1", 10.0])
def test_the_others_learn_how_the_question_ended(face, clock, asking, answer):
    policy = Blocking(answer, then=STOP)
    ticker = face.ticker(policy, clock=clock)
    taking = asking(ticker)
    waiting = reader_that_waits(face, clock, ticker)
    policy.release.set()
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

"""What objects show of themselves: their state, in few words, at any time and without an error."""

import pytest

from backoff_ticker import (
    CancellationToken,
    Channel,
    CircuitBreaker,
    ConstantBackOff,
    RetryBudget,
    Ticker,
    Timer,
    attempts,
    cancel_on_signals,
    chain,
    merge,
    with_added_jitter,
    with_jitter,
    with_max_elapsed_time,
    with_max_interval,
    with_max_retries,
    with_token,
)
from backoff_ticker.testing import no_wait
from tests.helpers import SetClock


def test_a_token_shows_its_cause_and_the_seconds_left(clock):
    token = CancellationToken(timeout=5, clock=clock)
    assert repr(token) == "<CancellationToken open, 5.0 s left>"
    clock.advance(1.5)
    assert repr(token) == "<CancellationToken open, 3.5 s left>"
    clock.advance(3.5)
    assert repr(token) == "<CancellationToken cancelled: DeadlineExceeded>"
    for cause, shown in [
        (None, ""),
        ("shutting down", ": 'shutting down'"),
        (ValueError("secret"), ": ValueError"),
    ]:
        token = CancellationToken()
        assert repr(token) == "<CancellationToken open>"
        token.cancel(cause)
        assert repr(token) == f"<CancellationToken cancelled{shown}>"
    assert repr(token.scope()) == f"<Scope of {token!r}>"


def test_a_breaker_shows_its_circuit(clock):
    breaker = CircuitBreaker(ConstantBackOff(5), failures=1, successes=3, clock=clock)
    breaker.record(breaker.allow(), OSError())
    assert repr(breaker) == "<CircuitBreaker open, 5.0 s left>"
    clock.advance(5)
    assert repr(breaker) == "<CircuitBreaker half-open, 0 of 3 successes>"
    breaker.open()
    assert repr(breaker) == "<CircuitBreaker open until reset()>"


def test_attempts_show_how_far_they_have_come():
    run = attempts(ConstantBackOff(0))
    assert repr(run) == "<Attempts not begun, 0 attempts, ConstantBackOff(0.0)>"
    for attempt in run:
        with attempt:
            assert repr(attempt) == f"<Attempt {attempt.number} of attempts()>"
            assert repr(run).startswith(f"<Attempts open, {attempt.number} attempt")
            if attempt.number == 1:
                raise OSError
    assert repr(attempt) == "<Attempt 2 of attempts(), ended>"
    assert repr(run) == "<Attempts succeeded, 2 attempts, ConstantBackOff(0.0)>"


def started_timer():
    timer = Timer()
    timer.start(3600)
    return timer


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: RetryBudget(10), "<RetryBudget 10.0 of 10.0 tokens, token_ratio=0.1, retry_cost"),
        (started_timer, "<Timer running, clock=SystemClock()>"),
        (lambda: merge(Channel(1)), "merge(<Channel"),
        (lambda: no_wait(2), "no_wait(2)"),
        (lambda: cancel_on_signals(2, chain=True), "cancel_on_signals(SIGINT, chain=True)"),
    ],
)
def test_others_show_how_they_were_made(make, text):
    assert repr(make()).startswith(text)


class Failing:
    """A policy, a sink and a source of errors in one."""

    def next_backoff(self):
        return 1.0

    def reset(self):
        pass

    def put_nowait(self, tick):
        pass

    def __repr__(self):
        raise LookupError

    def __copy__(self):
        return self


class FailingClock(SetClock):
    """A clock that does not say what it is, and in the end not what time it is."""

    def __repr__(self):
        raise LookupError


def test_no_repr_raises(clock):
    policy, failing = Failing(), FailingClock()
    token = CancellationToken(timeout=5, clock=failing)
    ticker = Ticker(policy, token=token, clock=failing)
    breaker = CircuitBreaker(policy, failures=1, clock=failing)
    breaker.record(breaker.allow(), OSError())
    forwarding = Ticker(policy, clock=clock).send_to(Failing())
    made = [
        *(token, token.scope(), ticker, breaker, merge(ticker), Timer(clock=failing), forwarding),
        *(attempts(policy), chain(policy), with_token(policy, token)),
        *(with_max_retries(policy, 1), with_max_elapsed_time(policy, 1)),
        *(with_max_interval(policy, 1), with_jitter(policy), with_added_jitter(policy, 1)),
    ]
    failing.monotonic = failing.__repr__
    for each in made:
        assert "object at 0x" not in repr(each)
    forwarding.stop()

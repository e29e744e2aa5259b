"""What objects show of themselves: their state, in few words, at any time and without an error."""

from __future__ import annotations

from backoff_ticker import (
    CancellationToken,
    Channel,
    CircuitBreaker,
    ConstantBackOff,
    RetryBudget,
    Ticker,
    Timer,
    ZeroBackOff,
    attempts,
    cancel_on_signals,
    chain,
    merge,
    set_active,
    set_default_hooks,
    set_default_token,
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


def test_a_budget_shows_what_it_holds():
    budget = RetryBudget(10)
    budget.try_acquire(3.5)
    shown = "<RetryBudget 6.5 of 10.0 tokens, token_ratio=0.1, retry_cost=1.0>"
    assert repr(budget) == shown


def test_a_breaker_shows_its_circuit(clock):
    breaker = CircuitBreaker(ConstantBackOff(5), failures=2, successes=3, clock=clock)
    assert repr(breaker) == "<CircuitBreaker closed, 0 of 2 failures in a row>"
    breaker.record(breaker.allow(), OSError())
    assert repr(breaker) == "<CircuitBreaker closed, 1 of 2 failures in a row>"
    breaker.record(breaker.allow(), OSError())
    assert repr(breaker) == "<CircuitBreaker open, 5.0 s left>"
    clock.advance(5)
    assert repr(breaker) == "<CircuitBreaker half-open, 0 of 3 successes>"
    assert repr(breaker.allow()) == "<CircuitTicket>"
    assert repr(breaker) == "<CircuitBreaker half-open, 0 of 3 successes>"
    breaker.open()
    assert repr(breaker) == "<CircuitBreaker open until reset()>"
    of_calls = CircuitBreaker(failure_rate=0.5, window_calls=5)
    of_seconds = CircuitBreaker(failure_rate=0.5, window=30)
    for each in (of_calls, of_seconds):
        each.record(each.allow())
    assert repr(of_calls) == "<CircuitBreaker closed, 0 of the last 1 calls failed>"
    assert repr(of_seconds) == "<CircuitBreaker closed, 0 of 1 calls failed in 30.0 s>"


def test_a_timer_shows_whether_it_runs(clock):
    timer = Timer(clock=clock)

    def state():
        text, _, rest = repr(timer).partition(", ")
        assert rest == f"clock={clock!r}>"
        return text.removeprefix("<Timer ")

    assert state() == "not started"
    timer.start(1)
    assert state() == "running"
    clock.advance(1)
    assert state() == "fired"
    timer.c.receive()
    assert state() == "fired"
    timer.start(1)
    timer.stop()
    assert state() == "stopped"


def test_one_is_not_told_as_many(clock):
    ticker, channel = Ticker(ZeroBackOff(), clock=clock), Channel(5)
    for number, (ticks, items) in enumerate([("0 ticks", "0 items"), ("1 tick", "1 item")]):
        assert f", {ticks}, " in repr(ticker)
        assert f", {items}>" in repr(channel)
        assert f" {ticks.replace('tick', 'attempt')}, " in repr(attempts_made(number))
        ticker.receive_nowait()
        channel.send_nowait(1)
    assert ", 2 ticks, " in repr(ticker)
    assert ", 2 items>" in repr(channel)


def attempts_made(number):
    run = attempts(ZeroBackOff())
    for _ in range(number):
        with next(run):
            raise OSError
    return run


def test_attempts_show_how_far_they_have_come():
    run = attempts(ConstantBackOff(0))
    assert repr(run) == "<Attempts not begun, 0 attempts, ConstantBackOff(0.0)>"
    for attempt in run:
        assert repr(attempt) == f"<Attempt {attempt.number}, not begun>"
        with attempt:
            assert repr(attempt) == f"<Attempt {attempt.number}, running>"
            assert repr(run).startswith("<Attempts open, ")
            if attempt.number == 1:
                raise OSError
    assert repr(attempt) == "<Attempt 2, ended>"
    assert repr(run) == "<Attempts succeeded, 2 attempts, ConstantBackOff(0.0)>"


def test_iterators_and_blocks_show_how_they_were_made():
    one, two = Channel(1), Channel(2)
    both = merge(one, two)
    assert repr(both) == f"merge({one!r}, {two!r})"
    one.close()
    next(both)
    assert repr(both) == f"merge({two!r})"
    assert (repr(no_wait()), repr(no_wait(2))) == ("no_wait()", "no_wait(2)")
    with (change := set_default_hooks(on_retry=None, on_success=len)):
        assert repr(change) == "set_default_hooks(on_success=<built-in function len>)"
    with (change := set_active(True)):
        assert repr(change) == "set_active(True)"
    with (change := set_default_token(None)):
        assert repr(change) == "set_default_token(None)"
    assert repr(cancel_on_signals()) == "cancel_on_signals(SIGINT, SIGTERM)"
    assert repr(cancel_on_signals(2, -1)) == "cancel_on_signals(SIGINT, signal -1)"
    assert repr(cancel_on_signals(2, chain=True)) == "cancel_on_signals(SIGINT, chain=True)"


# What users hand in may fail


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
    """A clock that fails once it is told to, and does not say what it is."""

    def __init__(self):
        super().__init__()
        self.fails = False

    def monotonic(self):
        if self.fails:
            raise LookupError
        return super().monotonic()

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
    failing.fails = True
    for each in made:
        assert "object at 0x" not in repr(each)
    forwarding.stop()


def test_a_repr_that_is_long_is_not_cut_inside_a_wrapper():
    policy = ZeroBackOff()
    for _ in range(20):
        policy = with_max_retries(policy, 3)
    assert repr(policy).count("with_max_retries") == 20

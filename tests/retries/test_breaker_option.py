"""``breaker=``: retries that go through a circuit breaker."""

from contextlib import suppress

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    CircuitBreaker,
    CircuitOpen,
    CircuitState,
    ConstantBackOff,
    DeadlineExceeded,
    Permanent,
    RetryBudget,
    StopBackOff,
    hedge_call,
)
from tests.retries.faces import ALL_ASYNC, AND_HEDGES, BOTH, FOUR, check
from tests.retries.hedges import takes
from tests.retries.made_hooks import spanning
from tests.retries.scripts import ONE, TEN, ZERO, Recorded, Script, Takes, at, now, spent_budget
from tests.tickers.made_policies import Scripted

CLOSED, HALF_OPEN = CircuitState.CLOSED, CircuitState.HALF_OPEN


def breaking(seconds=30, failures=2, **options):
    return CircuitBreaker(ConstantBackOff(seconds), failures=failures, **options)


def opened(seconds=30, **options):
    """Return a breaker whose circuit has just been opened by a failure."""
    breaker = breaking(seconds, 1, **options)
    breaker.record(breaker.allow(), OSError())
    assert breaker.state is not CLOSED
    return breaker


def until_a_reset():
    """Return a breaker whose circuit stays open."""
    breaker = breaking()
    breaker.open()
    return breaker


def by(make, *args, **options):
    """Return a function that makes options with a breaker."""
    return lambda: {"breaker": make(*args), **options}


class Guarded:
    """An operation behind a circuit of its own."""

    def __init__(self, make):
        self._make, self._breaker = make, None

    def __call__(self):
        self._breaker = self._breaker or self._make()
        with self._breaker.guard():
            return 7


UNTIL_A_RESET = ": the circuit is open until a reset"
STAYS_OPEN = ([], CircuitOpen, 0, "circuit_open", None, UNTIL_A_RESET)

CASES = {
    "failures open it": (([OSError, OSError, 7], 1, by(breaking)), ([0, 1, 31], 7)),
    "open": (([7], 1, by(opened)), ([30], 7)),
    "open for less than the delay": (([7], 45, by(opened)), ([45], 7)),
    **{
        f"retried whatever on says, {number}": (([7], 1, by(opened, on=on)), ([30], 7))
        for number, on in enumerate([KeyError, {KeyError: True}, lambda _: False])
    },
    "no attempt is left": (
        ([7], 1, by(opened, max_attempts=1)),
        ([], CircuitOpen, 0, "max_attempts", type(None)),
    ),
    "no time": (([7], 1, by(opened, max_elapsed_time=9)), ([], CircuitOpen, 0, "max_elapsed_time")),
    "timeout": (([7], 1, by(opened, timeout=20)), ([], CircuitOpen, 0, "circuit_open")),
    "the policy stops": (([7], StopBackOff(), by(opened)), ([], CircuitOpen, 0, "exhausted")),
    "the budget refuses": (
        ([7], 1, lambda: {"breaker": opened(), "budget": spent_budget()}),
        ([], CircuitOpen, 0, "budget"),
    ),
    "the breaker fails": (
        ([7], 1, lambda: {"breaker": opened(0, may_probe=Recorded(KeyError("probe")))}),
        ([], KeyError, 0, "failed", None, "after 0 attempts in 0.0 s: the circuit breaker failed"),
    ),
    "open until a reset": (([7], 1, by(until_a_reset)), STAYS_OPEN),
    "open until a reset, with a limit": (([7], 1, by(until_a_reset, max_attempts=4)), STAYS_OPEN),
    "what counts is up to the breaker": (
        ([ValueError, KeyError, 7], 1, lambda: {"breaker": breaking(30, 1, on=OSError)}),
        ([0, 1, 2], 7),
    ),
    "a rejected result": (([0, 0, 7], 1, by(breaking, 30, 1, until=bool)), ([0, 1, 2], 7)),
    **{
        f"an inner one that is open until a reset, on={on}": (
            ([Guarded(until_a_reset)], 0, {"on": on}),
            ([0], CircuitOpen, 0, "circuit_open", None, UNTIL_A_RESET),
        )
        for on in (None, CircuitOpen)
    },
}


@FOUR
@pytest.mark.parametrize("case", CASES)
def test_what_an_open_circuit_does(face, case):
    check(face, CASES[case])


@BOTH
def test_an_open_circuit_of_another_is_not_tried_again_too_early(face):
    for policy in (ONE, ZERO):
        script, start = Script(Guarded(opened)), now()
        assert face.run(script, policy, max_attempts=2) == 7
        assert [when - start for when in script.times] == [0, 30]
    assert face.run(Script(Guarded(until_a_reset)), policy, fallback="instead") == "instead"


@ALL_ASYNC
def test_an_attempt_cut_by_its_own_limit_is_a_failure_whatever_on_names(face):
    for kinds in (Exception, ConnectionError):
        options = {"breaker": breaking(30, 1, on=kinds), "attempt_timeout": 5}
        check(face, (([Takes(100, 1), 7], 1, options), ([0, 35], 7)))


@BOTH
def test_a_timeout_that_the_policy_would_reach_as_well_ends_the_run_not_the_circuit(face):
    for delay, kind in ((59, CircuitOpen), (60, DeadlineExceeded)):
        face.fails(kind, Script(7), ConstantBackOff(delay), breaker=opened(60), timeout=30)


@BOTH
def test_an_open_circuit_has_the_last_error_as_its_cause(face):
    last, breaker = OSError("last"), breaking(30, 1)
    options = {"breaker": breaker, "notify": lambda *_: breaker.open(), "on": lambda _: 0}
    assert face.fails(CircuitOpen, Script(last), ONE, max_attempts=3, **options).__cause__ is last


@BOTH
@pytest.mark.parametrize(("delay", "when"), [(2, 6), (0, pytest.approx(4.01, abs=0.01))])
def test_while_all_probes_are_out_the_policy_says_when_to_ask_again(face, clock, delay, when):
    """Without delays too nobody spins."""
    breaker = opened(0)
    probe = breaker.allow()
    assert breaker.state is HALF_OPEN
    at(clock, 4.001, lambda: breaker.record(probe))
    script, notified = Script(7), Recorded()
    assert face.run(script, ConstantBackOff(delay), breaker=breaker, notify=notified) == 7
    assert script.times == [when]
    assert len(notified.calls) <= 401


@BOTH
def test_what_is_not_retried_counts_too_but_a_permanent_error_does_not(face):
    for error, on, state in [
        (OSError("counts"), KeyError, CircuitState.OPEN),
        (Permanent(OSError(404)), OSError, CLOSED),
    ]:
        breaker = breaking(30, 1)
        face.fails(OSError, Script(error), ONE, on=on, breaker=breaker)
        assert breaker.state is state


@ALL_ASYNC
def test_an_attempt_cut_by_the_token_or_the_timeout_says_nothing(face):
    for name in ("timeout", "token"):
        breaker = opened(0)
        options = {name: 5 if name == "timeout" else CancellationToken(timeout=5)}
        face.fails(Cancelled, Script(Takes(100, 1)), ONE, breaker=breaker, **options)
        assert breaker.state is HALF_OPEN
        breaker.record(breaker.allow())  # its place is free
        assert breaker.state is CLOSED


@BOTH
def test_a_retry_that_was_refused_costs_the_budget_nothing(face):
    budget = RetryBudget(10, token_ratio=0)
    breaker = breaking(30, 1)
    script = Script(OSError, 7)
    refused = Recorded()
    face.run(script, ONE, breaker=breaker, budget=budget, notify=refused)
    assert script.times == [0, 30]
    assert budget.tokens == 9


@AND_HEDGES
def test_an_error_of_the_breaker_ends_the_run(face):
    first, policy = OSError("first"), Scripted(LookupError("of the policy"))
    breaker = CircuitBreaker(policy, failures=1)
    error = face.fails(LookupError, Script(first), ONE, breaker=breaker, match="of the policy")
    assert error.__cause__ is first


@BOTH
def test_managers_and_hooks_see_an_open_circuit_as_a_failed_attempt(face):
    log, success = [], Recorded()
    hooks = {"around": spanning(log), "on_attempt": lambda _: log.append((now(), "called"))}
    face.run(Script(7), ONE, breaker=opened(30), on_success=success, **hooks)
    assert [entry[:3] for entry in log] == [
        *[(0, "in", "span 1"), (0, "called"), (0, "out", "span 1")],
        *[(30, "in", "span 2"), (30, "called"), (30, "out", "span 2")],
    ]
    assert [type(entry[-1]) for entry in log[2::3]] == [CircuitOpen, type(None)]
    assert success.last.attempts == 2


class Logging:
    """A breaker that lets all calls through."""

    def __init__(self, log):
        self.allow = lambda: log.append((now(), "allow")) or self
        self.record = lambda ticket, error: log.append((now(), "record", type(error)))
        self.release = lambda ticket: log.append((now(), "release"))


@FOUR
def test_a_breaker_is_asked_before_managers_and_hooks_and_told_once_before_they_are_left(face):
    log, error = [], OSError()
    hooks = {"around": spanning(log), "on_attempt": lambda _: log.append((now(), "called"))}
    face.run(Script(error, 7), ONE, breaker=Logging(log), **hooks)
    assert log == [
        *[(0, "allow"), (0, "in", "span 1"), (0, "called")],
        *[(0, "record", OSError), (0, "out", "span 1", error)],
        *[(1, "allow"), (1, "in", "span 2"), (1, "called")],
        *[(1, "record", type(None)), (1, "out", "span 2", None)],
    ]


def test_a_circuit_that_is_open_until_a_reset_leaves_a_hedge_to_those_that_run(hedge, clock):
    for answer in (7, OSError("last")):
        breaker, operation = breaking(), Script(takes(25, answer))
        at(clock, now() + 5, breaker.open)
        if answer == 7:
            assert hedge(operation, TEN, breaker=breaker) == 7
        else:
            caught = hedge.fails(OSError, operation, TEN, breaker=breaker, match="last")
            assert caught.__notes__[0].endswith("the circuit is open until a reset")
        assert operation.count == 1


def test_a_hedge_does_not_wait_for_a_circuit_that_stays_open_up_to_the_timeout(hedge):
    caught = hedge.fails(CircuitOpen, Script(7), TEN, breaker=opened(60), timeout=30)
    assert caught.__notes__[0].endswith("longer than timeout=30.0 allows")
    assert now() == 0


def test_a_hedge_in_a_thread_that_ends_as_told_says_nothing_about_the_service(clock):
    for options in ({}, {"timeout": 23}):
        breaker = breaking(failures=1)
        operation = Script(takes(100, 1), takes(100, 1), takes(4, 7))
        with suppress(DeadlineExceeded):
            hedge_call(operation, TEN, breaker=breaker, **options)
        clock.sleep(1)
        assert breaker.state is CLOSED

"""``breaker=``: retries that go through a circuit breaker."""

import asyncio

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
    StopReason,
    ZeroBackOff,
    attempts,
    hedge_call,
    retry_call,
)
from backoff_ticker.testing import VirtualClock
from tests.retries.faces import ALL_ASYNC, ASYNC, BOTH, in_loop
from tests.retries.hedges import InTurn, takes
from tests.retries.made_policies import at
from tests.retries.scripts import START, Recorded, Script, Takes, now
from tests.tickers.made_policies import Scripted

OPEN, CLOSED, HALF_OPEN = CircuitState.OPEN, CircuitState.CLOSED, CircuitState.HALF_OPEN


def breaking(seconds=30, failures=2, **options):
    return CircuitBreaker(ConstantBackOff(seconds), failures=failures, **options)


def opened(seconds=30, **options):
    """Return a breaker whose circuit has just been opened by a failure."""
    breaker = breaking(seconds, 1, **options)
    breaker.record(breaker.allow(), OSError())
    assert breaker.state is not CLOSED
    return breaker


def test_failures_open_the_circuit_and_the_next_call_waits_until_it_lets_one_through(face):
    breaker, script = breaking(30), Script(OSError, OSError, 7)
    assert face.run(script, ConstantBackOff(1), breaker=breaker) == 7
    assert script.times == [0, 1, 31]
    assert breaker.state is CLOSED


def test_while_the_circuit_is_open_no_call_is_made(face):
    breaker, script, notified = opened(30), Script(7), Recorded()
    assert face.run(script, ConstantBackOff(1), breaker=breaker, notify=notified) == 7
    assert script.times == [30]
    ((_, error, delay),) = notified.calls
    assert isinstance(error, CircuitOpen)
    assert delay == error.seconds == 30
    script = Script(7)
    face.run(script, ConstantBackOff(45), breaker=opened(30))
    assert script.times == [75]


@BOTH
def test_an_open_circuit_has_the_last_error_as_its_cause(face):
    last = OSError("last")
    for attempts_made in (2, 3):
        breaker = breaking(30, 1)
        with pytest.raises(CircuitOpen) as caught:
            face.run(
                Script(last),
                ConstantBackOff(1),
                breaker=breaker,
                max_attempts=attempts_made,
                notify=lambda *_, breaker=breaker: breaker.open(),
                on=lambda error: 0,
            )
        assert caught.value.__cause__ is last
    with pytest.raises(CircuitOpen) as caught:
        face.run(Script(7), breaker=opened(30), max_attempts=1)
    assert caught.value.__cause__ is None


@BOTH
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"max_attempts": 1}, StopReason.MAX_ATTEMPTS),
        ({"max_elapsed_time": 20}, StopReason.MAX_ELAPSED_TIME),
        ({"timeout": 20}, StopReason.CIRCUIT_OPEN),
        ({"backoff": StopBackOff()}, StopReason.EXHAUSTED),
        ({"budget": RetryBudget(1, retry_cost=1)}, StopReason.BUDGET),
    ],
)
def test_if_the_limits_do_not_allow_the_wait_it_is_raised_at_once(face, options, reason):
    if "budget" in options:
        options["budget"].try_acquire()
    script, gave_up, breaker = Script(7), Recorded(), opened(30)
    options = {"backoff": ConstantBackOff(1), **options}
    with pytest.raises(CircuitOpen) as caught:
        face.run(script, breaker=breaker, on_give_up=gave_up, **options)
    assert (caught.value.seconds, caught.value.breaker) == (30, breaker)
    assert (script.count, now()) == (0, 0)
    assert gave_up.last.reason is reason


def test_a_circuit_that_is_open_until_a_reset_ends_the_run(face):
    breaker, script, gave_up = breaking(), Script(7), Recorded()
    breaker.open()
    with pytest.raises(CircuitOpen) as caught:
        face.run(script, ConstantBackOff(1), breaker=breaker, on_give_up=gave_up)
    assert caught.value.seconds is None
    assert gave_up.last.reason is StopReason.CIRCUIT_OPEN
    assert "open until a reset" in caught.value.__notes__[0]
    assert (script.count, now()) == (0, 0)


@pytest.mark.parametrize("on", [OSError, {OSError: True}, lambda error: isinstance(error, OSError)])
def test_an_inner_circuit_that_on_does_not_name_passes(face, on):
    breaker = breaking()
    breaker.open()
    given_up = Recorded()
    with pytest.raises(CircuitOpen) as caught:
        face.run(Script(lambda: breaker.allow()), ZeroBackOff(), on=on, on_give_up=given_up)
    assert not given_up.calls
    assert not hasattr(caught.value, "__notes__")


@pytest.mark.parametrize("on", [None, {CircuitOpen: True}, lambda error: True])
def test_an_inner_circuit_that_is_open_until_a_reset_ends_the_run(face, on):
    breaker = breaking()
    breaker.open()
    with pytest.raises(CircuitOpen) as caught:
        face.run(Script(lambda: breaker.allow()), ZeroBackOff(), on=on)
    assert "open until a reset" in caught.value.__notes__[0]


@BOTH
def test_while_all_probes_are_out_the_policy_says_when_to_ask_again(face):
    breaker = opened(0)
    probe = breaker.allow()
    assert breaker.state is HALF_OPEN

    def then_closed(*_):
        if now() >= 4:
            breaker.record(probe)

    script = Script(7)
    face.run(script, ConstantBackOff(2), breaker=breaker, notify=then_closed)
    assert script.times == [6]


@BOTH
def test_while_the_policy_is_asked_how_long_it_stays_open_a_run_goes_on(face):
    gave_up, script = Recorded(), Script(7)

    def meanwhile():  # as another thread would in this moment
        with pytest.raises(CircuitOpen):
            face.run(
                script, ConstantBackOff(1), breaker=breaker, max_attempts=3, on_give_up=gave_up
            )
        return 30.0

    breaker = CircuitBreaker(Scripted(meanwhile), failures=1)
    breaker.record(breaker.allow(), OSError())
    assert (gave_up.last.reason, gave_up.last.attempts) == (StopReason.MAX_ATTEMPTS, 3)
    assert face.run(script, ConstantBackOff(1), breaker=breaker) == 7
    assert script.times == [30]


@BOTH
def test_without_delays_nobody_spins_while_a_probe_is_out(face, clock):
    breaker = opened(0)
    probe = breaker.allow()
    clock.call_at(clock.monotonic() + 1, lambda: breaker.record(probe))
    script, notified = Script(7), Recorded()
    assert face.run(script, ZeroBackOff(), breaker=breaker, notify=notified) == 7
    assert 1 <= now() < 1.02
    assert len(notified.calls) <= 101


@BOTH
def test_it_is_retried_whatever_on_says(face):
    for on in (KeyError, {KeyError: True}, lambda error: False):
        script = Script(7)
        start = now()
        assert face.run(script, ConstantBackOff(1), on=on, breaker=opened(30)) == 7
        assert [at - start for at in script.times] == [30]


@BOTH
def test_an_open_circuit_of_another_is_not_tried_again_too_early(face):
    for policy in (ConstantBackOff(1), ZeroBackOff()):
        inner, start = opened(30), now()

        def guarded():
            with inner:
                return 7

        script = Script(guarded)
        assert face.run(script, policy, max_attempts=2) == 7
        assert [at - start for at in script.times] == [0, 30]
        inner.open()
        assert face.run(script, policy, fallback="instead") == "instead"


@BOTH
def test_what_counts_is_up_to_the_breaker(face):
    breaker = breaking(30, 1, on=OSError)
    assert face.run(Script(ValueError, KeyError, 7), ConstantBackOff(1), breaker=breaker) == 7
    assert now() == 2
    with pytest.raises(OSError):
        face.run(Script(OSError), ConstantBackOff(1), on=KeyError, breaker=breaker)
    assert breaker.state is OPEN


@BOTH
def test_a_rejected_result_and_a_permanent_error_are_answers_of_the_service(face):
    breaker = breaking(30, 1)
    assert face.run(Script(0, 0, 7), ConstantBackOff(1), until=bool, breaker=breaker) == 7
    with pytest.raises(OSError, match="404"):
        face.run(Script(Permanent(OSError(404))), breaker=breaker)
    assert breaker.state is CLOSED


@ALL_ASYNC
def test_an_attempt_cut_by_its_own_limit_is_a_failure(face):
    breaker, script = breaking(30, 1), Script(Takes(100, 1), 7)
    face.run(script, ConstantBackOff(1), attempt_timeout=5, breaker=breaker)
    assert script.times == [0, 35]


@ALL_ASYNC
def test_an_attempt_cut_by_the_token_or_the_timeout_says_nothing(face):
    for name in ("timeout", "token"):
        breaker = opened(0)
        options = {name: 5 if name == "timeout" else CancellationToken(timeout=5)}
        with pytest.raises(Cancelled):
            face.run(Script(Takes(100, 1)), ConstantBackOff(1), breaker=breaker, **options)
        assert breaker.state is HALF_OPEN
        breaker.record(breaker.allow())  # its place is free
        assert breaker.state is CLOSED


@BOTH
def test_an_interrupt_frees_the_place_of_a_probe(face):
    breaker = opened(0)
    with pytest.raises(KeyboardInterrupt):
        face.run(Script(KeyboardInterrupt), breaker=breaker)
    assert face.run(Script(7), breaker=breaker) == 7


@ASYNC
def test_a_task_that_is_cancelled_frees_the_place_of_its_probe(face):
    breaker = opened(0)

    async def main():
        task = asyncio.ensure_future(face.main(Script(Takes(100, 1)), breaker=breaker))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    in_loop(main())
    assert face.run(Script(7), breaker=breaker) == 7


@BOTH
def test_a_retry_that_was_refused_costs_the_budget_nothing(face):
    budget = RetryBudget(10, token_ratio=0)
    breaker = breaking(30, 1)
    script = Script(OSError, 7)
    refused = Recorded()
    face.run(script, ConstantBackOff(1), breaker=breaker, budget=budget, notify=refused)
    assert script.times == [0, 30]
    assert budget.tokens == 9


@BOTH
def test_hooks_see_an_open_circuit_as_a_failed_attempt(face):
    breaker, told = opened(30), Recorded()
    face.run(Script(7), ConstantBackOff(1), breaker=breaker, on_attempt=told, on_success=told)
    assert [(at, outcome.attempts) for at, outcome in told.calls] == [(0, 1), (30, 2), (30, 2)]


def test_a_policy_of_the_breaker_that_fails_ends_the_run(face):
    class Fails(ConstantBackOff):
        def next_backoff(self):
            raise LookupError("of the policy")

    first = OSError("first")
    with pytest.raises(LookupError, match="of the policy") as caught:
        face.run(Script(first), ConstantBackOff(1), breaker=CircuitBreaker(Fails(1), failures=1))
    assert first in (caught.value.__cause__, caught.value.__context__)


def test_an_on_attempt_manager_is_left_with_the_open_circuit(clock):
    seen = []

    class Manager:
        def __enter__(self):
            seen.append("entered")

        def __exit__(self, kind, *_):
            seen.append(kind and kind.__name__)

    for attempt in attempts(
        ConstantBackOff(1), breaker=opened(30), on_attempt=lambda outcome: Manager()
    ):
        with attempt:
            seen.append(now())
    assert seen == ["entered", "CircuitOpen", "entered", 30, None]


def test_hedges_go_through_it(hedge):
    operation = InTurn(takes(1, OSError()), takes(1, OSError()), takes(1, 7))
    assert hedge(operation, ConstantBackOff(20), breaker=breaking(30, 2)) == 7
    assert operation.times == [0, 1, 32]
    operation = InTurn(takes(1, 7))
    start = now()
    assert hedge(operation, ConstantBackOff(20), breaker=opened(30)) == 7
    assert [at - start for at in operation.times] == [30]
    breaker = breaking()
    breaker.open()
    with pytest.raises(CircuitOpen):
        hedge(operation, ConstantBackOff(20), breaker=breaker)


def test_a_circuit_that_is_open_until_a_reset_leaves_a_hedge_to_those_that_run(hedge, clock):
    for answer in (7, OSError("last")):
        breaker, operation = breaking(), InTurn(takes(25, answer))
        at(clock, now() + 5, breaker.open)
        if answer == 7:
            assert hedge(operation, ConstantBackOff(10), breaker=breaker) == 7
        else:
            with pytest.raises(OSError, match="last") as caught:
                hedge(operation, ConstantBackOff(10), breaker=breaker)
            assert caught.value.__notes__[0].endswith("the circuit is open until a reset")
        assert len(operation.times) == 1


def test_a_hedge_does_not_wait_for_a_circuit_that_stays_open_up_to_the_timeout(hedge):
    with pytest.raises(CircuitOpen) as caught:
        hedge(Script(7), ConstantBackOff(10), breaker=opened(60), timeout=30)
    assert caught.value.__notes__[0].endswith("longer than timeout=30.0 allows")
    assert now() == 0


def test_what_a_refused_attempt_of_a_hedge_costs_is_there_for_the_next(hedge):
    budget, operation = RetryBudget(1), InTurn(takes(0, OSError()), takes(0, 7))
    assert hedge(operation, ConstantBackOff(10), breaker=breaking(30, 1), budget=budget) == 7
    assert operation.times == [0, 30]


def test_a_hedge_in_a_thread_that_ends_as_told_says_nothing_about_the_service(clock):
    for options in ({}, {"timeout": 23}):
        breaker = breaking(failures=1)
        operation = InTurn(takes(100, 1), takes(100, 1), takes(4, 7))
        try:
            hedge_call(operation, ConstantBackOff(10), breaker=breaker, **options)
        except DeadlineExceeded:
            pass
        clock.sleep(1)
        assert breaker.state is CLOSED


class CancelledByProbe(CircuitBreaker):
    """A breaker that is asked just before a cancel."""

    def __init__(self, token):
        super().__init__(ConstantBackOff(1), failures=1)
        self.token = token
        self.released = 0

    def allow(self):
        ticket = super().allow()
        if now() >= 10:
            self.token.cancel()
        return ticket

    def release(self, ticket):
        self.released += 1
        super().release(ticket)


def test_a_hedge_in_a_thread_is_not_called_if_a_cancel_comes_as_the_breaker_is_asked():
    with VirtualClock(START, auto=True) as clock:
        token, budget = CancellationToken(), RetryBudget(10)
        breaker, operation = CancelledByProbe(token), InTurn(takes(100, 7))
        with pytest.raises(Cancelled):
            hedge_call(operation, ConstantBackOff(10), token=token, breaker=breaker, budget=budget)
        clock.sleep(1)
    assert (operation.times, budget.tokens, breaker.released) == ([0], 10, 2)


MODULE_LEVEL = CircuitBreaker(ConstantBackOff(30), failures=1)


@pytest.mark.parametrize("_", range(2))
def test_a_breaker_made_at_import_follows_the_clock_of_each_test(clock, _):
    MODULE_LEVEL.reset()
    script = Script(OSError, 7)
    assert retry_call(script, ConstantBackOff(1), breaker=MODULE_LEVEL) == 7
    assert script.times == [0, 30]

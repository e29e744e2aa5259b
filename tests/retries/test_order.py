"""What happens to a failure, step by step, and which step comes first."""

import asyncio
import itertools

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from backoff_ticker import (
    STOP,
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    DeadlineExceeded,
    ExponentialBackOff,
    Permanent,
    RetryAfter,
    StopBackOff,
    delays,
    with_max_retries,
)
from backoff_ticker.testing import VirtualClock
from tests.retries.faces import BOTH, FACES
from tests.retries.scripts import (
    ONE,
    ZERO,
    Ahead,
    Recorded,
    Script,
    Takes,
    answered,
    cancelled_token,
    spent_budget,
)
from tests.tickers.made_policies import Scripted


class Refused(Exception):
    """What ``on`` refuses in these tests."""


class OwnInterrupt(BaseException):
    """An interrupt of somebody else's."""


INTERRUPTS = [KeyboardInterrupt, SystemExit, asyncio.CancelledError, GeneratorExit, OwnInterrupt]


def taking_a_second(error):
    """Return an operation that fails, and the clock on which each of its calls takes a second."""
    clock = Ahead()

    def fail():
        clock.seconds += 1
        raise error

    return Script(fail), clock


# Each step that ends a run, by what brings it about at the first failure; in order.
STEPS = {
    "permanent": {"error": Permanent},
    "not_retried": {"on": LookupError},
    "cancelled": {"token": cancelled_token},
    "deadline": {"timeout": 0},
    "max_elapsed_time": {"max_elapsed_time": 0.5},
    "max_attempts": {"max_attempts": 1},
    "exhausted": {"backoff": StopBackOff},
    "deadline ahead": {"timeout": 5},
    "max_elapsed_time ahead": {"max_elapsed_time": 5},
    "budget": {"budget": spent_budget},
}
RAISED = {"cancelled": Cancelled, "deadline": DeadlineExceeded}
EXCLUDING = {
    ("deadline", "deadline ahead"),
    ("max_elapsed_time", "max_elapsed_time ahead"),
    ("exhausted", "deadline ahead"),
    ("exhausted", "max_elapsed_time ahead"),
}


def ending(face, steps, raised=lambda error: error):
    """Return how a run ends in which all of ``steps`` are due: reason, error, calls, waits."""
    inner = Refused()
    policy = Scripted(then=10.0)
    options = {"backoff": policy, "error": raised}
    for step in steps:
        options |= STEPS[step]
    for name in ("token", "backoff", "budget"):
        if callable(options.get(name)):
            options[name] = options[name]()
    script, clock = taking_a_second(options.pop("error")(inner))
    notify, gave_up = Recorded(), Recorded()
    hooks = {"notify": notify, "on_give_up": gave_up}
    error = face.fails(Exception, script, clock=clock, **hooks, **options)
    # Nobody asks the policy where a step before that ends the run.
    assert policy.asked == (steps[0].split()[-1] in ("ahead", "budget"))
    if not gave_up.calls:  # an error that `on` does not name at once passes as it is
        return "not_retried", error is inner, script.count, 1, notify.calls
    expected = RAISED.get(gave_up.last.reason)
    told = error is inner if expected is None else type(error) is expected
    if expected is not None:
        told = told and error.__cause__ is inner
    return str(gave_up.last.reason), told, script.count, len(gave_up.calls), notify.calls


def test_of_two_steps_that_end_a_run_the_first_does(face):
    pairs = [pair for pair in itertools.combinations(STEPS, 2) if pair not in EXCLUDING]
    pairs += [(step,) for step in STEPS]
    ended = {pair: ending(face, pair) for pair in pairs}
    assert ended == {pair: (pair[0].split()[0], True, 1, 1, []) for pair in pairs}


def test_failures_are_retried_and_told_after_the_delays_of_the_policy(face):
    errors, notify = [KeyError(), ValueError(), OSError()], Recorded()
    script = Script(errors[0], Takes(2, errors[1]), errors[2], "done")
    assert face.run(script, Scripted(1.5, 10, 100.0), notify=notify) == "done"
    assert script.times == [0, 1.5, 13.5, 113.5]
    assert notify.calls == [(0, errors[0], 1.5), (3.5, errors[1], 10), (13.5, errors[2], 100)]
    assert {type(delay) for _, _, delay in notify.calls} == {float}


def test_what_is_no_exception_passes(face):
    for kind in INTERRUPTS:
        for on in (Exception, lambda error: True):
            interrupt, hook = kind(), Recorded()
            script, hooks = Script(ValueError, interrupt, 7), {"on_success": hook, "until": bool}
            assert face.fails(kind, script, ONE, on=on, on_give_up=hook, **hooks) is interrupt
            assert (script.count, hook.calls) == (2, [])
            assert not hasattr(interrupt, "__notes__")


@BOTH
def test_every_limit_binds_retry_after(face):
    limits = list(STEPS)[2:]
    ended = {step: ending(face, [step], lambda error: RetryAfter(6, error)) for step in limits}
    assert ended == {step: (step.split()[0], True, 1, 1, []) for step in limits}


def test_a_cancel_before_the_next_call_prevents_it(face):
    for hook, delay in [("notify", 9), ("notify", 0), ("on_retry", 9), ("on_attempt", 0)]:
        token, error, calls, gave_up = CancellationToken(), ValueError(), [], Recorded()
        script = Script(error, 7)

        def cancel(*told):
            calls.append(told)
            if hook != "on_attempt" or len(calls) == 2:
                token.cancel(hook)

        hooks = {"on_give_up": gave_up, hook: cancel}
        raised = face.fails(Cancelled, script, ConstantBackOff(delay), token=token, **hooks)
        assert (raised.cause, raised.__cause__) == (hook, error)
        assert script.times == [0]
        assert gave_up.last.attempts == 1


@BOTH
def test_a_spent_policy_is_fresh_in_each_run_and_stays_spent_outside(face):
    policy = with_max_retries(ZERO, 2)
    assert list(delays(policy)) == [0, 0]
    assert [policy.next_backoff() for _ in range(2)] == [0, 0]
    for _ in range(2):
        script = Script(ValueError)
        face.fails(ValueError, script, policy)
        assert script.count == 3
    assert policy.retries == 2


@BOTH
@pytest.mark.parametrize(
    ("answer", "kind", "reason"),
    [(LookupError, LookupError, "failed"), (STOP, Cancelled, "cancelled")],
)
def test_a_policy_that_fails_or_stops_as_it_cancels_the_run(face, answer, kind, reason):
    token, first, gave_up = CancellationToken(), OSError(), Recorded()
    policy = Scripted(then=lambda: token.cancel() and answered(answer))
    error = face.fails(kind, Script(first), policy, token=token, on_give_up=gave_up)
    assert error.__cause__ is first
    assert gave_up.last.reason == reason


@BOTH
def test_without_a_policy_it_is_that_of_go(face):
    told, script = Recorded(), Script(OSError)
    face.fails(OSError, script, notify=told)
    reference = ExponentialBackOff(randomization_factor=0)
    for _, _, delay in told.calls:
        interval = reference.next_backoff()
        assert interval * 0.5 <= delay <= interval * 1.5
    assert 900 - 90 <= script.times[-1] <= 900


# All ways to retry decide alike, and as a model of a few lines does


def caused(error, cause):
    error.__cause__ = cause
    return error


ANSWERS = {
    "done": lambda: "done",
    "OSError": lambda: OSError("plain"),
    "ValueError": lambda: ValueError("plain"),
    "caused": lambda: caused(OSError("caused"), KeyError("cause")),
    "permanent": lambda: Permanent(LookupError("inside")),
    "permanent below": lambda: caused(OSError("above"), Permanent(LookupError("below"))),
    "retry after": lambda: RetryAfter(0),
    "retry after, with an error": lambda: RetryAfter(0, ValueError("inside")),
}

WAYS = {
    "at once": lambda: {"backoff": ZERO},
    "a policy with state": lambda: {"backoff": with_max_retries(ZERO, 100)},
    "a limit of time": lambda: {"backoff": ZERO, "timeout": 1},
    "a hook": lambda: {"backoff": ZERO, "on_retry": lambda _: None},
}


def model(steps, on, most):
    """Return how many calls are made, and what is returned or raised."""
    for number, step in enumerate(steps, 1):
        answer = ANSWERS[step]()
        if answer == "done":
            return number, "done"
        if "permanent" in step:
            return number, "LookupError"
        error = getattr(answer, "error", None) or answer
        retried = isinstance(answer, (RetryAfter, on))
        if not retried or number == most:
            return number, type(error).__name__
    raise AssertionError("the last step is a success")


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    steps=st.lists(st.sampled_from([step for step in ANSWERS if step != "done"]), max_size=7),
    on=st.sampled_from([Exception, OSError, (ValueError, KeyError), ()]),
    most=st.one_of(st.none(), st.integers(1, 8)),
)
def test_all_faces_make_the_same_calls_and_end_the_same_way(steps, on, most):
    expected = model([*steps, "done"], on, most)
    for name, face in FACES.items():
        for way, options in WAYS.items():
            script = Script(*(ANSWERS[step]() for step in steps), "done")
            with VirtualClock(auto=True):
                try:
                    ended = face.run(script, on=on, max_attempts=most, **options())
                except Exception as error:
                    ended = type(error).__name__
            assert (script.count, ended) == expected, (name, way)

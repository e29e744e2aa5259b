"""Checks of numbers: one table over every public parameter that takes one, and the messages."""

import asyncio
import inspect
import math
import sys
from datetime import timedelta
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction

import pytest

from backoff_ticker import (
    POLICIES,
    AsyncTicker,
    CancellationToken,
    ConstantBackOff,
    ExponentialBackOff,
    SystemClock,
    Ticker,
    ZeroBackOff,
    named_policy,
    with_added_jitter,
    with_jitter,
    with_max_elapsed_time,
    with_max_interval,
    with_max_retries,
)
from backoff_ticker.testing import VirtualClock
from tests.helpers import SetClock

HUGE = 10**400
UNPRINTABLE = 10**5000
LARGEST = sys.float_info.max


class Weight(IntEnum):
    HEAVY = 3


class Celsius(float):
    """A float of a user's own class."""


NO_NUMBERS = ["1", True, [1], 1j, Decimal(1), Fraction(1, 2), int]
NO_LENGTHS = [*NO_NUMBERS, timedelta(1), None]
NEITHER = [math.nan, -math.inf, HUGE, -UNPRINTABLE]  # finite nor infinite
NOT_FINITE = [*NEITHER, math.inf]
NEGATIVE = [-5e-324, timedelta(microseconds=-1)]
NO_DELAYS = [*NOT_FINITE, *NEGATIVE]
DELAYS = [0, LARGEST, timedelta.max]
NO_CAP = [None, math.inf]

# By rule: what raises a TypeError, what raises a ValueError, what is accepted.
RULES = {
    "timeout": (NO_NUMBERS, NO_DELAYS, [*DELAYS, None]),
    "duration": ([*NO_NUMBERS, None], NO_DELAYS, DELAYS),
    "interval": ([*NO_NUMBERS, None], [*NO_DELAYS, 0, timedelta(0)], [0.5, timedelta(seconds=1)]),
    "limit": (NO_NUMBERS, [*NEITHER, *NEGATIVE], [*DELAYS, *NO_CAP]),
    "cap": (NO_NUMBERS, [*NEITHER, 0.4, timedelta(0)], [0.5, LARGEST, timedelta.max, *NO_CAP]),
    "base-cap": (NO_NUMBERS, [*NEITHER, 0.9, timedelta(0)], [1, LARGEST, timedelta.max, *NO_CAP]),
    "fraction": (NO_LENGTHS, [*NOT_FINITE, -5e-324, 1], [0, 1 - 1e-16]),
    "part": (
        [True, Decimal(1), timedelta(0), None],
        [*NOT_FINITE, -5e-324, 1, "", "Full"],
        ["full", "equal", 0, 1 - 1e-16],
    ),
    "factor": (NO_LENGTHS, [*NOT_FINITE, 0, 0.999], [1, LARGEST]),
    "growth": (NO_LENGTHS, [*NOT_FINITE, -5e-324], [0, 0.5, LARGEST]),
    "difference": ([*NO_NUMBERS, None], NOT_FINITE, [0, -LARGEST, timedelta(-1)]),
    "call": ([*NO_LENGTHS, 1.0], [0, -HUGE], [1, 10**18, HUGE]),
    "moment": ([*NO_NUMBERS, timedelta(1)], NOT_FINITE, [0, -1.5, LARGEST, -LARGEST, None]),
    "due-time": (NO_LENGTHS, NOT_FINITE, [0, -1.5, LARGEST, -LARGEST]),
    "count": ([*NO_LENGTHS, 1.0, math.inf], [-1, -HUGE], [0, 10**9]),
}

OF_POLICIES = {
    "duration": """
        constant.interval truncated-exponential.max_jitter
        truncated-exponential.initial_backoff full-jitter.base equal-jitter.base
        decorrelated-jitter.base constant-feedback.delay
        constant-feedback.delay_on_success constant-feedback.max_actual_duration
        constant-feedback.min_delay exponential-feedback.initial_delay
        fibonacci.initial_delay1 fibonacci.initial_delay2 lild.initial_delay
    """,
    "interval": "exponential.initial_interval",
    "fraction": "exponential.randomization_factor constant-feedback.jitter_factor",
    "factor": """
        exponential.multiplier truncated-exponential.multiplier full-jitter.multiplier
        decorrelated-jitter.multiplier
    """,
    "cap": "exponential.max_interval",
    "timeout": "exponential.max_elapsed_time",
    "limit": "truncated-exponential.maximum_backoff constant-feedback.max_delay",
    "base-cap": "full-jitter.cap equal-jitter.cap decorrelated-jitter.cap",
    "count": "constant-feedback.max_attempts",
    "growth": """
        exponential-feedback.exponent_base limd.delay_multiple_on_success
        mild.delay_multiple_on_failure mimd.delay_multiple_on_failure
        mimd.delay_multiple_on_success
    """,
    "difference": """
        lild.delay_increment_on_failure lild.delay_increment_on_success
        limd.delay_increment_on_failure mild.delay_increment_on_success
    """,
}


def policy(name, **given):
    """Return the policy of that name, with 1 for what it must be given (no cap)."""
    parameters = inspect.signature(POLICIES[name]).parameters.values()
    needed = {p.name: None if p.name == "cap" else 1 for p in parameters if p.default is p.empty}
    return named_policy(name, **{**needed, **given})


def feedback():
    return policy("limd", clock=SetClock())


def cancelled_token():
    token = CancellationToken(clock=SetClock())
    token.cancel()
    return token


def ticker_with_a_tick(face):
    return face(ZeroBackOff(), clock=SetClock())


def in_loop(method, value):
    async def call():
        return await method(value)

    return asyncio.run(call())


def give_to_queue(face, value):
    with VirtualClock() as clock, face(ConstantBackOff(1)) as ticker:
        queue = ticker.queue(value)
        clock.settle()
        assert (queue.maxsize, queue.sync_q.qsize()) == (value, 1)
    queue.close()


class IdleLoop:
    """An event loop that keeps what it is given."""

    def is_closed(self):
        return False

    def call_later(self, delay, callback, *args, context):
        assert delay <= 86_400


# Where a number is given, by the name it has there: its rule, and a call that waits for nothing.
ZERO = ZeroBackOff()
PARAMETERS = {
    **{
        f"{name} {parameter}": (rule, lambda v, n=name, p=parameter: policy(n, **{p: v}))
        for rule, listed in OF_POLICIES.items()
        for name, parameter in (each.split(".") for each in listed.split())
    },
    **{
        f"{name}.bounds n": ("call", lambda v, name=name: policy(name).bounds(v))
        for name in POLICIES
    },
    "failure timestamp": ("moment", lambda v: feedback().failure(v)),
    "success timestamp": ("moment", lambda v: feedback().success(v)),
    "with_max_elapsed_time max_elapsed_time": ("timeout", lambda v: with_max_elapsed_time(ZERO, v)),
    "with_jitter jitter": ("part", lambda v: with_jitter(ZERO, v)),
    "with_added_jitter max_jitter": ("duration", lambda v: with_added_jitter(ZERO, v)),
    "with_max_interval max_interval": ("limit", lambda v: with_max_interval(ZERO, v)),
    "with_max_retries max_retries": ("count", lambda v: with_max_retries(ZERO, v)),
    "Ticker.receive timeout": ("timeout", lambda v: ticker_with_a_tick(Ticker).receive(v)),
    "AsyncTicker.receive timeout": (
        "timeout",
        lambda v: in_loop(ticker_with_a_tick(AsyncTicker).receive, v),
    ),
    "wait timeout": ("timeout", lambda v: cancelled_token().wait(v)),
    "wait_async timeout": ("timeout", lambda v: in_loop(cancelled_token().wait_async, v)),
    "CancellationToken timeout": ("timeout", lambda v: CancellationToken(timeout=v)),
    "CancellationToken deadline": ("moment", lambda v: CancellationToken(deadline=v)),
    "child timeout": ("timeout", lambda v: cancelled_token().child(v)),
    "child deadline": ("moment", lambda v: CancellationToken().child(deadline=v)),
    "Ticker.queue maxsize": ("count", lambda v: give_to_queue(Ticker, v)),
    "AsyncTicker.queue maxsize": ("count", lambda v: give_to_queue(AsyncTicker, v)),
    "call_at when": ("due-time", lambda v: SystemClock().call_at(v, int).cancel()),
    "call_at, in a loop, when": (
        "due-time",
        lambda v: SystemClock().call_at(v, int, loop=IdleLoop()),
    ),
}


@pytest.mark.parametrize("parameter", PARAMETERS)
def test_a_number_is_accepted_or_an_error_names_the_parameter(parameter):
    rule, give = PARAMETERS[parameter]
    name = parameter.rpartition(" ")[2]
    of_another_type, out_of_range, accepted = RULES[rule]
    for error, values in ((TypeError, of_another_type), (ValueError, out_of_range)):
        for value in values:
            with pytest.raises(error) as caught:
                give(value)
            assert str(caught.value).startswith(f"{name} must be ")
            if not isinstance(value, int) or abs(value) < HUGE:
                assert f"not {value!r}" in str(caught.value)
    for value in accepted:
        give(value)


@pytest.mark.parametrize("value", ["1", -1, math.nan, True])
def test_a_bad_timeout_raises_even_if_there_is_no_need_to_wait(clock, value):
    """Also on a closed ticker, an open token or a parent that is cancelled."""
    ticker = Ticker(ZeroBackOff(), clock=clock)
    ticker.stop()
    with pytest.raises((TypeError, ValueError)) as caught:
        ticker.receive(value)
    assert str(caught.value).startswith("timeout must be")
    with pytest.raises((TypeError, ValueError)):
        CancellationToken().wait(value)
    with pytest.raises((TypeError, ValueError)):
        cancelled_token().child(timeout=value)


def test_seconds_are_floats_and_never_a_negative_zero():
    for value in (0, -0.0, 0.0, timedelta(0)):
        assert repr(ConstantBackOff(value).interval) == "0.0"
    assert type(ConstantBackOff(Celsius(1)).interval) is float
    assert ConstantBackOff(Weight.HEAVY).interval == 3
    assert ConstantBackOff(timedelta(days=1, microseconds=1)).interval == 86400.000001


def test_an_error_says_what_was_expected_and_a_repr_that_fails_or_is_long_is_cut():
    expected = r"^interval must be a finite number of seconds >= 0 or a timedelta, not "
    for value, shown in [
        (math.nan, "nan"),
        ("x", "'x' of type str"),
        (UNPRINTABLE, "an int too big for a float"),
        ("x" * 10**6, ".{1,300}"),
    ]:
        with pytest.raises((TypeError, ValueError), match=f"{expected}{shown}$"):
            ConstantBackOff(value)
    with pytest.raises(TypeError, match=r"^look_ahead must be a bool, not one of type int$"):
        ExponentialBackOff(look_ahead=UNPRINTABLE)

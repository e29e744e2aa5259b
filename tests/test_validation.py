"""Checks of numbers: one table over every public parameter that takes one, and the checks."""

from __future__ import annotations

import asyncio
import inspect
import math
import sys
import time
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any

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
from backoff_ticker.clock import _system
from backoff_ticker.clock._scheduler import Scheduler
from backoff_ticker.testing import VirtualClock
from tests.helpers import SetClock

if TYPE_CHECKING:
    from collections.abc import Callable

HUGE = 10**400
UNPRINTABLE = 10**5000


class Weight(IntEnum):
    HEAVY = 3


class Celsius(float):
    """A float of a user's own class."""


LARGEST = sys.float_info.max

NO_NUMBERS = ["1", True, [1], 1j, Decimal(1), Fraction(1, 2), int]
NEITHER = [math.nan, -math.inf, HUGE, -UNPRINTABLE]  # finite nor infinite
NOT_FINITE = [*NEITHER, math.inf]
NEGATIVE = [-5e-324, timedelta(microseconds=-1)]

NO_CAP = [None, math.inf]


# By rule: what raises a TypeError, what raises a ValueError, what is accepted.
RULES = {
    "seconds": (NO_NUMBERS, [*NOT_FINITE, *NEGATIVE], [0, LARGEST, timedelta.max]),
    "duration": ([*NO_NUMBERS, None], [*NOT_FINITE, *NEGATIVE], [0, LARGEST, timedelta.max]),
    "interval": (
        NO_NUMBERS,
        [*NOT_FINITE, *NEGATIVE, 0, timedelta(0)],
        [0.5, timedelta(seconds=1)],
    ),
    "limit": (NO_NUMBERS, [*NEITHER, *NEGATIVE], [0, LARGEST, timedelta.max, *NO_CAP]),
    "cap": (NO_NUMBERS, [*NEITHER, 0.4, timedelta(0)], [0.5, LARGEST, timedelta.max, *NO_CAP]),
    "fraction": ([*NO_NUMBERS, timedelta(0), None], [*NOT_FINITE, -5e-324, 1], [0, 1 - 1e-16]),
    "part": (
        [True, Decimal(1), timedelta(0), None],
        [*NOT_FINITE, -5e-324, 1, "", "Full"],
        ["full", "equal", 0, 1 - 1e-16],
    ),
    "factor": ([*NO_NUMBERS, timedelta(1), None], [*NOT_FINITE, 0, 0.999], [1, LARGEST]),
    "base cap": (
        NO_NUMBERS,
        [*NEITHER, 0.9, timedelta(0)],
        [1, LARGEST, timedelta.max, *NO_CAP],
    ),
    "growth": ([*NO_NUMBERS, timedelta(1), None], [*NOT_FINITE, -5e-324], [0, 0.5, LARGEST]),
    "difference": ([*NO_NUMBERS, None], NOT_FINITE, [0, -LARGEST, timedelta(-1)]),
    "call": ([*NO_NUMBERS, 1.0, timedelta(1), None], [0, -HUGE], [1, 10**18, HUGE]),
    "moment": ([*NO_NUMBERS, timedelta(1)], NOT_FINITE, [0, -1.5, LARGEST, -LARGEST]),
    "count": ([*NO_NUMBERS, 1.0, math.inf, timedelta(1), None], [-1, -HUGE], [0, 10**9]),
}


@dataclass(frozen=True)
class Parameter:
    """A parameter, its rule, and a call that gives it a value and waits for nothing."""

    where: str
    name: str
    rule: str
    give: Callable[[Any], object]

    def __str__(self) -> str:
        return f"{self.where}({self.name})"


def exponential(name):
    return lambda value: ExponentialBackOff(**{name: value})


NEEDED = {
    "interval": 1,
    "base": 1,
    "cap": None,
    "delay": 1,
    "initial_delay": 1,
    "initial_delay1": 1,
    "initial_delay2": 1,
    "delay_increment_on_failure": 1,
    "delay_increment_on_success": 1,
    "delay_multiple_on_failure": 1,
    "delay_multiple_on_success": 1,
}


def needed(name):
    """Return a value for each parameter that the policy of that name must be given."""
    parameters = inspect.signature(POLICIES[name]).parameters.values()
    return {p.name: NEEDED[p.name] for p in parameters if p.default is p.empty}


def feedback():
    return named_policy("limd", **needed("limd"), clock=SetClock())


def cancelled_token():
    token = CancellationToken(clock=SetClock())
    token.cancel()
    return token


def ticker_with_a_tick(face):
    return face(ZeroBackOff(), clock=SetClock())


async def in_loop(function, value):
    return await function(value)


def give_to_queue(face):
    def give(value):
        with VirtualClock() as clock, face(ConstantBackOff(1)) as ticker:
            queue = ticker.queue(value)
            clock.settle()
            assert (queue.maxsize, queue.sync_q.qsize()) == (value, 1)
        queue.close()

    return give


class IdleLoop:
    """An event loop that keeps what it is given."""

    def is_closed(self):
        return False

    def call_later(self, delay, callback, *args, context):
        assert delay <= 86_400


PARAMETERS = [
    Parameter("ConstantBackOff", "interval", "seconds", ConstantBackOff),
    *(
        Parameter("ExponentialBackOff", name, rule, exponential(name))
        for name, rule in [
            ("initial_interval", "interval"),
            ("randomization_factor", "fraction"),
            ("multiplier", "factor"),
            ("max_interval", "cap"),
            ("max_elapsed_time", "seconds"),
        ]
    ),
    *(
        Parameter(
            name,
            parameter,
            rule,
            lambda v, n=name, p=parameter: named_policy(n, **{**needed(n), p: v}),
        )
        for name, parameter, rule in [
            ("truncated-exponential", "maximum_backoff", "limit"),
            ("truncated-exponential", "max_jitter", "duration"),
            ("truncated-exponential", "initial_backoff", "duration"),
            ("truncated-exponential", "multiplier", "factor"),
            ("full-jitter", "base", "duration"),
            ("full-jitter", "multiplier", "factor"),
            ("decorrelated-jitter", "multiplier", "factor"),
            ("full-jitter", "cap", "base cap"),
            ("equal-jitter", "base", "duration"),
            ("equal-jitter", "cap", "base cap"),
            ("decorrelated-jitter", "base", "duration"),
            ("decorrelated-jitter", "cap", "base cap"),
            ("constant-feedback", "delay", "duration"),
            ("constant-feedback", "delay_on_success", "duration"),
            ("constant-feedback", "max_actual_duration", "duration"),
            ("constant-feedback", "max_attempts", "count"),
            ("constant-feedback", "jitter_factor", "fraction"),
            ("constant-feedback", "min_delay", "duration"),
            ("constant-feedback", "max_delay", "limit"),
            ("exponential-feedback", "initial_delay", "duration"),
            ("exponential-feedback", "exponent_base", "growth"),
            ("fibonacci", "initial_delay1", "duration"),
            ("fibonacci", "initial_delay2", "duration"),
            ("lild", "initial_delay", "duration"),
            ("lild", "delay_increment_on_failure", "difference"),
            ("lild", "delay_increment_on_success", "difference"),
            ("limd", "delay_increment_on_failure", "difference"),
            ("limd", "delay_multiple_on_success", "growth"),
            ("mild", "delay_multiple_on_failure", "growth"),
            ("mild", "delay_increment_on_success", "difference"),
            ("mimd", "delay_multiple_on_failure", "growth"),
            ("mimd", "delay_multiple_on_success", "growth"),
        ]
    ),
    *(
        Parameter(
            f"{name}.bounds", "n", "call", lambda v, n=name: named_policy(n, **needed(n)).bounds(v)
        )
        for name in POLICIES
    ),
    Parameter("LIMDBackOff.failure", "timestamp", "moment", lambda v: feedback().failure(v)),
    Parameter("LIMDBackOff.success", "timestamp", "moment", lambda v: feedback().success(v)),
    Parameter(
        "with_max_elapsed_time",
        "max_elapsed_time",
        "seconds",
        lambda value: with_max_elapsed_time(ZeroBackOff(), value),
    ),
    Parameter("with_jitter", "jitter", "part", lambda v: with_jitter(ZeroBackOff(), v)),
    Parameter(
        "with_added_jitter",
        "max_jitter",
        "duration",
        lambda value: with_added_jitter(ZeroBackOff(), value),
    ),
    Parameter(
        "with_max_interval",
        "max_interval",
        "limit",
        lambda value: with_max_interval(ZeroBackOff(), value),
    ),
    Parameter(
        "with_max_retries",
        "max_retries",
        "count",
        lambda value: with_max_retries(ZeroBackOff(), value),
    ),
    Parameter(
        "Ticker.receive", "timeout", "seconds", lambda v: ticker_with_a_tick(Ticker).receive(v)
    ),
    Parameter(
        "AsyncTicker.receive",
        "timeout",
        "seconds",
        lambda v: asyncio.run(in_loop(ticker_with_a_tick(AsyncTicker).receive, v)),
    ),
    Parameter("CancellationToken.wait", "timeout", "seconds", lambda v: cancelled_token().wait(v)),
    Parameter(
        "CancellationToken.wait_async",
        "timeout",
        "seconds",
        lambda v: asyncio.run(in_loop(cancelled_token().wait_async, v)),
    ),
    Parameter("CancellationToken", "timeout", "seconds", lambda v: CancellationToken(timeout=v)),
    Parameter("CancellationToken", "deadline", "moment", lambda v: CancellationToken(deadline=v)),
    Parameter(
        "CancellationToken.child", "timeout", "seconds", lambda v: cancelled_token().child(v)
    ),
    Parameter(
        "CancellationToken.child",
        "deadline",
        "moment",
        lambda v: CancellationToken().child(deadline=v),
    ),
    Parameter("Ticker.queue", "maxsize", "count", give_to_queue(Ticker)),
    Parameter("AsyncTicker.queue", "maxsize", "count", give_to_queue(AsyncTicker)),
    Parameter("SystemClock.call_at", "when", "moment", lambda v: SystemClock().call_at(v, print)),
    Parameter(
        "SystemClock.call_at in a loop",
        "when",
        "moment",
        lambda v: SystemClock().call_at(v, print, loop=IdleLoop()),
    ),
]


@pytest.fixture(autouse=True)
def no_thread(monkeypatch):
    """A scheduler of the test's own that never runs: a bad number must not reach the real one."""
    scheduler = Scheduler(time.monotonic)
    monkeypatch.setattr(scheduler, "_ensure_thread", lambda: None)
    monkeypatch.setattr(_system, "scheduler", scheduler)


def assert_named(message, parameter, value):
    assert message.startswith(f"{parameter.name} must be ")
    if not isinstance(value, int) or abs(value) < HUGE:
        assert f"not {value!r}" in message


each_parameter = pytest.mark.parametrize("parameter", PARAMETERS, ids=str)


@each_parameter
def test_a_value_of_another_type_is_a_type_error_that_names_the_parameter(parameter):
    for value in RULES[parameter.rule][0]:
        with pytest.raises(TypeError) as caught:
            parameter.give(value)
        assert_named(str(caught.value), parameter, value)


@each_parameter
def test_a_number_out_of_range_is_a_value_error_that_names_the_parameter(parameter):
    for value in RULES[parameter.rule][1]:
        with pytest.raises(ValueError) as caught:
            parameter.give(value)
        assert_named(str(caught.value), parameter, value)


@each_parameter
def test_a_number_in_range_is_accepted(parameter):
    for value in RULES[parameter.rule][2]:
        parameter.give(value)


@pytest.mark.parametrize(
    "parameter",
    [
        parameter
        for parameter in PARAMETERS
        if parameter.rule in ("seconds", "moment")
        and parameter.where not in ("ConstantBackOff", "SystemClock.call_at")
        and "in a loop" not in parameter.where
    ],
    ids=str,
)
def test_none_means_no_limit(parameter):
    parameter.give(None)


@pytest.mark.parametrize(
    ("where", "name"),
    [
        ("ConstantBackOff", "interval"),
        ("ExponentialBackOff", "initial_interval"),
        ("SystemClock.call_at", "when"),
    ],
)
def test_none_is_refused_where_a_number_is_needed(where, name):
    (parameter,) = [one for one in PARAMETERS if (one.where, one.name) == (where, name)]
    with pytest.raises(TypeError) as caught:
        parameter.give(None)
    assert_named(str(caught.value), parameter, None)


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

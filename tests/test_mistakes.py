"""Common mistakes get an error that says what was probably meant."""

import asyncio
import re
import signal
from contextlib import AsyncExitStack, ExitStack
from datetime import timedelta

import pytest

from backoff_ticker import (
    AsyncTicker,
    CircuitBreaker,
    ConstantBackOff,
    Ticker,
    attempts,
    cancel_on_signals,
    delays,
    hedge_call,
    retry,
    retry_call,
    retry_with,
    with_max_retries,
)

wrong = attempts  # takes anything, for type checkers


NO_BLOCK = "a CircuitBreaker is no block itself: write `with breaker.guard():`"
MISTAKES = [
    (lambda: ExitStack().enter_context(CircuitBreaker()), NO_BLOCK),
    (lambda: asyncio.run(AsyncExitStack().enter_async_context(CircuitBreaker())), NO_BLOCK),
    (lambda: cancel_on_signals("SIGTERM"), "not 'SIGTERM': did you mean signal.SIGTERM?"),
    (lambda: cancel_on_signals(2, True), "signals must be ints, such as signal.SIGTERM, not True"),
    (
        lambda: cancel_on_signals([signal.SIGTERM]),
        "signals must be ints, such as signal.SIGTERM, not [<Signals.SIGTERM: 15>]",
    ),
]
TAKE_A_POLICY = [
    Ticker,
    AsyncTicker,
    Ticker(ConstantBackOff(1)).reset,
    retry,
    lambda seconds: retry_with(retry(print), seconds),
    lambda seconds: retry_call(print, seconds),
    lambda seconds: hedge_call(print, seconds),
    attempts,
    CircuitBreaker,
    lambda seconds: list(delays(seconds)),
    lambda seconds: with_max_retries(seconds, 3),
]
CALLED_ELSEWHERE = {
    "stop": "max_attempts or max_elapsed_time or timeout",
    "wait": "backoff",
    "retry": "on or until",
    "retry_if": "until",
    "before_sleep": "on_retry",
    "retry_error_callback": "fallback",
    "exceptions": "on",
    "tries": "max_attempts",
    "max_tries": "max_attempts",
    "max_time": "max_elapsed_time or timer",
}


@pytest.mark.parametrize(("mistake", "told"), MISTAKES)
def test_it_says_what_was_meant(mistake, told):
    with pytest.raises(TypeError, match=re.escape(told)):
        mistake()


@pytest.mark.parametrize("takes", TAKE_A_POLICY)
@pytest.mark.parametrize("seconds", [30, 0.5, timedelta(minutes=1)], ids=repr)
def test_seconds_in_the_place_of_a_policy(takes, seconds):
    told = re.escape(f"(did you mean ConstantBackOff({seconds!r})?), not {seconds!r}")
    with pytest.raises(TypeError, match=f"^backoff must be a BackOff, .*{told}"):
        takes(seconds)


@pytest.mark.parametrize("value", [True, "30", None.__class__], ids=repr)
def test_what_are_no_seconds_is_not_taken_for_them(value):
    with pytest.raises(TypeError) as caught:
        Ticker(value)
    assert "ConstantBackOff(" not in str(caught.value)


@pytest.mark.parametrize("name", CALLED_ELSEWHERE)
def test_options_of_other_packages(name):
    told = f"has no option '{name}': did you mean {CALLED_ELSEWHERE[name]}? It has backoff, on, "
    with pytest.raises(TypeError, match=re.escape(told)):
        retry(**{name: 3})


def test_what_a_function_does_not_take_is_not_suggested():
    with pytest.raises(TypeError, match="no option 'retry_error_callback'; it has"):
        wrong(retry_error_callback=print)
    with pytest.raises(TypeError, match="no option 'before_sleep'; it has"):
        hedge_call(print, before_sleep=print)

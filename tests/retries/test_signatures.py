"""What the public functions say they take: the options of the table, with their types."""

import inspect
import pydoc

import pytest

from backoff_ticker import (
    attempts,
    hedge_call,
    hedge_call_async,
    retry,
    retry_call,
    retry_call_async,
    retry_with,
)
from backoff_ticker.types import AsyncRetryOptions, HedgeOptions, RetryOptions

OPTIONS = [
    *["on", "until", "retry_if", "token", "timeout", "attempt_timeout", "max_elapsed_time"],
    *["max_attempts", "max_retry_after", "notify", "on_attempt", "on_retry", "on_success"],
    *["on_give_up", "fallback", "budget", "breaker", "clock", "timer", "name"],
]
"""All options in the order in which they are shown."""

ALL = frozenset(OPTIONS)
ASYNC = AsyncRetryOptions.__annotations__
HEDGED = frozenset(HedgeOptions.__annotations__) | {"fallback"}
# The parameters before the options, the options, and their types.
TAKEN = {
    retry: (["backoff"], ALL, ASYNC),
    retry_call: (["operation", "backoff"], ALL - {"attempt_timeout"}, RetryOptions.__annotations__),
    retry_call_async: (["operation", "backoff"], ALL, ASYNC),
    attempts: (["backoff"], ALL - {"fallback"}, ASYNC),
    hedge_call: (["operation", "backoff", "pool"], HEDGED, HedgeOptions.__annotations__),
    hedge_call_async: (["operation", "backoff"], HEDGED, ASYNC),
}
DEFAULTS = {**dict.fromkeys(OPTIONS), "max_retry_after": 21_600.0}
every_function = pytest.mark.parametrize("function", TAKEN, ids=lambda one: one.__name__)


@every_function
def test_each_option_is_shown_in_one_order_with_its_default_and_type(function):
    before, taken, types = TAKEN[function]
    shown = dict(inspect.signature(function).parameters)
    assert list(shown) == [*before, *(name for name in OPTIONS if name in taken)]
    for name in taken:
        expected = 5 if name == "max_attempts" and taken == HEDGED else DEFAULTS[name]
        if name == "fallback":  # of which None is a value
            assert shown[name].annotation == "object"
            assert repr(shown[name].default) == "NO_FALLBACK"
        else:
            assert shown[name].annotation == types[name].__forward_arg__
            assert shown[name].default == expected
    assert inspect.iscoroutinefunction(function) == function.__name__.endswith("_async")


def test_help_shows_the_options():
    text = pydoc.render_doc(retry_call, renderer=pydoc.plaintext)
    assert "max_attempts: int | None = None," in text.replace("'", "")  # 3.14 has no quotes


def test_every_default_can_be_given():
    shown = inspect.signature(retry_call).parameters
    options = {name: shown[name].default for name in TAKEN[retry_call][1]}
    assert retry_call(lambda: "done", **options) == "done"


def test_retry_with_shows_that_it_takes_those_of_retry():
    text = str(inspect.signature(retry_with))
    assert text == (
        "(function: 'F', /, backoff: 'BackOff | None' = None, "
        "**changes: 'Unpack[RetryOptions]') -> 'F'"
    )


@every_function
def test_an_option_of_another_function_is_refused(function):
    before = () if function in (retry, attempts) else (print,)
    others = ALL - TAKEN[function][1] - {"attempt_timeout"}  # which has an error of its own
    for name in others:
        with pytest.raises(TypeError, match=f"has no option '{name}'"):
            result = function(*before, **{name: None})
            result.send(None)
    assert bool(others) == (function in (attempts, hedge_call, hedge_call_async))

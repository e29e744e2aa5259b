"""What the public functions say they take: the options of the table, with their types."""

from __future__ import annotations

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
from backoff_ticker.retries._option_table import HEDGE_OPTIONS, LOOP_OPTIONS, OPTIONS
from backoff_ticker.retries._option_types import AsyncHedgeOptions
from backoff_ticker.types import AsyncRetryOptions, HedgeOptions, RetryOptions

ALL = frozenset(OPTIONS)
# The parameters before the options, the options, and their types.
TAKEN = {
    retry: (["backoff"], ALL, AsyncRetryOptions),
    retry_call: (["operation", "backoff"], ALL - {"attempt_timeout"}, RetryOptions),
    retry_call_async: (["operation", "backoff"], ALL, AsyncRetryOptions),
    attempts: (["backoff"], LOOP_OPTIONS, AsyncRetryOptions),
    hedge_call: (["operation", "backoff", "pool"], HEDGE_OPTIONS, HedgeOptions),
    hedge_call_async: (["operation", "backoff"], HEDGE_OPTIONS, AsyncHedgeOptions),
}
every_function = pytest.mark.parametrize("function", TAKEN, ids=lambda one: one.__name__)


@every_function
def test_each_option_is_shown_in_one_order_with_its_default_and_type(function):
    before, taken, typed = TAKEN[function]
    shown = dict(inspect.signature(function).parameters)
    assert list(shown) == [*before, *(name for name in OPTIONS if name in taken)]
    for name in before:
        del shown[name]
    defaults = {name: OPTIONS[name].default for name in taken}
    if typed in (HedgeOptions, AsyncHedgeOptions):
        defaults["max_attempts"] = 5
    assert {name: one.default for name, one in shown.items()} == defaults
    types = {name: one.__forward_arg__ for name, one in typed.__annotations__.items()}
    if "fallback" in taken:
        types["fallback"] = "object"
    assert {name: one.annotation for name, one in shown.items()} == types
    assert inspect.iscoroutinefunction(function) == function.__name__.endswith("_async")


def test_help_shows_the_options():
    text = pydoc.render_doc(retry_call, renderer=pydoc.plaintext)
    assert "max_attempts: int | None = None," in text.replace("'", "")  # 3.14 has no quotes


def test_every_default_can_be_given():
    options = {name: OPTIONS[name].default for name in TAKEN[retry_call][1]}
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
            result = function(*before, **{name: OPTIONS[name].default})
            result.send(None)
    assert bool(others) == (function in (attempts, hedge_call, hedge_call_async))

"""What the public functions say they take: the options of the table, with their types."""

from __future__ import annotations

import inspect
import pydoc
import typing

import pytest

from backoff_ticker import (
    AsyncRetryOptions,
    HedgeOptions,
    RetryOptions,
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

ALL = frozenset(OPTIONS)
TAKEN = {
    retry: ALL,
    retry_call: ALL - {"attempt_timeout"},
    retry_call_async: ALL,
    attempts: LOOP_OPTIONS,
    hedge_call: HEDGE_OPTIONS,
    hedge_call_async: HEDGE_OPTIONS,
}
TYPES = {
    retry: AsyncRetryOptions,
    retry_call: RetryOptions,
    retry_call_async: AsyncRetryOptions,
    attempts: AsyncRetryOptions,
    hedge_call: HedgeOptions,
    hedge_call_async: AsyncHedgeOptions,
}
every_function = pytest.mark.parametrize("function", TAKEN, ids=lambda one: one.__name__)


def shown(function):
    """Return the options that a function shows, by name."""
    return {
        name: parameter
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and name != "pool"
    }


@every_function
def test_each_option_is_shown_by_name_in_one_order(function):
    assert list(shown(function)) == [name for name in OPTIONS if name in TAKEN[function]]


@every_function
def test_the_defaults_shown_are_those_that_apply(function):
    defaults = {name: OPTIONS[name].default for name in TAKEN[function]}
    if "hedge" in function.__name__:
        defaults["max_attempts"] = 5
    assert {name: one.default for name, one in shown(function).items()} == defaults


@every_function
def test_the_types_shown_are_those_that_type_checkers_know(function):
    types = {name: one.__forward_arg__ for name, one in TYPES[function].__annotations__.items()}
    if "fallback" in TAKEN[function]:
        types["fallback"] = "NoFallback"
    assert {name: one.annotation for name, one in shown(function).items()} == types
    assert {"max_attempts", "on"} <= types.keys()


@every_function
def test_help_shows_each_option(function):
    text = pydoc.render_doc(function, renderer=pydoc.plaintext)
    head = text[: text.index(") -> ")]
    assert [name for name in TAKEN[function] if f"{name}: " not in head] == []


@every_function
def test_the_parameters_before_the_options_are_as_they_were(function):
    before = ["backoff"] if function in (retry, attempts) else ["operation", "backoff"]
    if function is hedge_call:
        before.append("pool")
    parameters = inspect.signature(function).parameters
    assert list(parameters)[: len(before)] == before
    assert list(parameters)[len(before)] == "on"
    assert inspect.iscoroutinefunction(function) == function.__name__.endswith("_async")


def test_every_default_can_be_given():
    defaults = {name: one.default for name, one in shown(retry_call).items()}
    assert retry_call(lambda: "done", **defaults) == "done"


def test_retry_with_shows_that_it_takes_those_of_retry():
    text = str(inspect.signature(retry_with))
    assert text == (
        "(function: 'F', /, backoff: 'BackOff | None' = None, "
        "**changes: 'Unpack[RetryOptions]') -> 'F'"
    )


@every_function
def test_an_option_of_another_function_is_refused(function):
    before = () if function in (retry, attempts) else (print,)
    others = ALL - TAKEN[function] - {"attempt_timeout"}  # which has an error of its own
    for name in others:
        with pytest.raises(TypeError, match=f"has no option '{name}'"):
            result = function(*before, **{name: OPTIONS[name].default})
            result.send(None)
    assert bool(others) == (function in (attempts, hedge_call, hedge_call_async))


# As types


def test_the_dicts_have_all_options_but_those_that_only_some_functions_take():
    assert AsyncRetryOptions.__optional_keys__ == ALL - {"fallback"}
    assert RetryOptions.__optional_keys__ == ALL - {"fallback", "attempt_timeout"}
    for each in (HedgeOptions, AsyncHedgeOptions):
        assert each.__optional_keys__ == HEDGE_OPTIONS - {"fallback"}
    assert all(typing.is_typeddict(each) for each in TYPES.values())

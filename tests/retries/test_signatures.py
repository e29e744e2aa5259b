"""What the public functions say they take, and that their lists of options agree.

Each option is written down as a check and a default (``_options.py``), as a type for those who pass
options on (``_option_types.py``), and in the overloads of the functions.
"""

from __future__ import annotations

import ast
import inspect
import pydoc
from pathlib import Path

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
from backoff_ticker.retries import _option_types
from backoff_ticker.retries._options import _CHECKS, HEDGE_OPTIONS, LOOP_OPTIONS, Options

ALL = frozenset(_CHECKS)
OPTIONS = {
    retry: ALL,
    retry_call: ALL - {"attempt_timeout"},
    retry_call_async: ALL,
    attempts: LOOP_OPTIONS,
    hedge_call: HEDGE_OPTIONS,
    hedge_call_async: HEDGE_OPTIONS,
}
every_function = pytest.mark.parametrize("function", OPTIONS, ids=lambda one: one.__name__)


def shown(function):
    """Return the options that a function shows, by name."""
    return {
        name: parameter
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and name != "pool"
    }


@every_function
def test_each_option_is_shown_by_name_in_one_order(function):
    assert list(shown(function)) == [name for name in _CHECKS if name in OPTIONS[function]]


@every_function
def test_the_defaults_shown_are_those_that_apply(function):
    defaults = {name: getattr(Options, name) for name in OPTIONS[function]}
    if "hedge" in function.__name__:
        defaults["max_attempts"] = 5
    assert {name: one.default for name, one in shown(function).items()} == defaults


@every_function
def test_help_shows_each_option(function):
    text = pydoc.render_doc(function, renderer=pydoc.plaintext)
    head = text[: text.index(") -> ")]
    assert [name for name in OPTIONS[function] if f"{name}: " not in head] == []


@every_function
def test_the_parameters_before_the_options_are_as_they_were(function):
    before = ["backoff"] if function in (retry, attempts) else ["operation", "backoff"]
    assert list(inspect.signature(function).parameters)[: len(before)] == before
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


# As types


def parsed(module):
    return ast.parse(Path(module.__file__).read_text())


def typed_dicts():
    """Return name of the ``TypedDict`` -> option -> type."""
    found = {}
    for node in parsed(_option_types).body:
        if isinstance(node, ast.ClassDef):
            options = {}
            for base in node.bases:
                options |= found.get(ast.unparse(base), {})
            for field in node.body:
                if isinstance(field, ast.AnnAssign):
                    options[field.target.id] = ast.unparse(field.annotation)
            found[node.name] = options
    return found


DICTS = typed_dicts()


def explicit_overloads(function):
    """Return option -> (type, default) of each overload that names the options."""
    for node in ast.walk(parsed(inspect.getmodule(function))):
        if isinstance(node, ast.FunctionDef) and node.name == function.__name__:
            arguments = node.args
            if "on" in [argument.arg for argument in arguments.kwonlyargs]:
                yield {
                    argument.arg: (ast.unparse(argument.annotation), ast.unparse(default))
                    for argument, default in zip(
                        arguments.kwonlyargs, arguments.kw_defaults, strict=True
                    )
                    if argument.arg != "pool"
                }


def test_the_dicts_have_all_options_but_those_that_only_some_functions_take():
    assert DICTS["AsyncRetryOptions"].keys() == ALL - {"fallback"}
    assert DICTS["RetryOptions"].keys() == ALL - {"fallback", "attempt_timeout"}
    for name in ("HedgeOptions", "AsyncHedgeOptions"):
        assert DICTS[name].keys() == HEDGE_OPTIONS - {"fallback"}


@every_function
def test_the_overloads_agree_with_the_dicts(function):
    overloads = list(explicit_overloads(function))
    assert overloads
    for overload in overloads:
        is_async = overload["on"][0].startswith("Async")
        types = {"fallback": "NoFallback"}
        types |= DICTS["AsyncRetryOptions" if is_async else "RetryOptions"]
        types.setdefault("attempt_timeout", "None")  # must not be given
        assert {name: kind for name, (kind, _) in overload.items()} == {
            name: types[name] for name in overload
        }


@every_function
def test_the_overloads_have_the_same_options_and_defaults(function):
    first, *rest = (
        {name: default for name, (_, default) in overload.items()}
        for overload in explicit_overloads(function)
    )
    for other in rest:
        assert list(other.items()) == list(first.items())

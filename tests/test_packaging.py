"""What is shipped: the project file, the marker for type checkers, docstrings."""

from __future__ import annotations

import ast
import inspect
import tomllib
from pathlib import Path

import pytest

import backoff_ticker

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "backoff_ticker"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
MODULES = sorted(PACKAGE.rglob("*.py"))


def test_python_3_11_and_later():
    assert PROJECT["project"]["requires-python"] == ">=3.11"
    versions = [
        line.rpartition(" ")[2]
        for line in PROJECT["project"]["classifiers"]
        if line.startswith("Programming Language :: Python :: 3.")
    ]
    assert versions == ["3.11", "3.12", "3.13"]


def test_janus_is_the_single_dependency_at_run_time():
    assert PROJECT["project"]["dependencies"] == ["janus>=2"]


def test_the_name_and_the_licence():
    assert PROJECT["project"]["name"] == "backoff-ticker"
    assert PROJECT["project"]["license"] == "MIT"
    assert PROJECT["project"]["license-files"] == ["LICENSE"]
    assert (ROOT / "LICENSE").read_text().startswith("MIT License")


def test_the_tests_need_what_they_use():
    requirements = PROJECT["project"]["optional-dependencies"]["test"]
    needed = {requirement.partition(">")[0] for requirement in requirements}
    assert {"pytest", "pytest-timeout", "hypothesis"} <= needed


def test_the_whole_package_is_in_the_wheel_and_the_marker_for_type_checkers_too():
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel == {"packages": ["backoff_ticker"]}
    assert (PACKAGE / "py.typed").is_file()
    assert "Typing :: Typed" in PROJECT["project"]["classifiers"]
    ignored = (ROOT / ".gitignore").read_text().split()
    assert not [pattern for pattern in ignored if pattern.strip("/*").endswith("typed")]


def test_nothing_but_modules_and_the_marker_is_in_the_package():
    others = {
        path.name
        for path in PACKAGE.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    }
    assert others == {"py.typed"}


def test_every_test_has_a_limit_and_warnings_are_errors():
    options = PROJECT["tool"]["pytest"]["ini_options"]
    assert options["filterwarnings"] == ["error"]
    assert options["timeout"] == 60


# Docstrings


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_module_has_a_docstring(path):
    tree = ast.parse(path.read_text())
    assert (ast.get_docstring(tree) or "").strip()


def public_members():
    for name in backoff_ticker.__all__:
        value = getattr(backoff_ticker, name)
        yield name, value
        if isinstance(value, type):
            for cls in value.__mro__:
                if cls.__module__.startswith("backoff_ticker"):
                    for attribute, member in vars(cls).items():
                        if not attribute.startswith("_"):
                            yield f"{name}.{attribute}", member


def documented(value):
    """Return the docstring, or None for what can have none: a slot, an enum's member."""
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    if inspect.isroutine(value) or isinstance(value, (type, property)):
        return inspect.getdoc(value) or ""
    return None


@pytest.mark.parametrize(("name", "value"), list(public_members()))
def test_every_public_name_has_a_docstring(name, value):
    text = documented(value)
    assert text is None or len(text.split()) >= 2


def test_the_docstrings_looked_at_are_those_of_the_package():
    looked_at = {name for name, value in public_members() if documented(value) is not None}
    assert {
        "Ticker.receive",
        "AsyncTicker.receive",
        "Ticker.queue",
        "CancellationToken.wait",
        "CancellationToken.cause",
        "ExponentialBackOff.current_interval",
        "SystemClock.monotonic",
        "BackOff.next_backoff",
        "Clock.call_at",
        "Tick.datetime",
        "Stop",
        "delays",
    } <= looked_at


def described(text):
    """Return the names under ``Args:`` of a Google-style docstring."""
    _, found, rest = text.partition("Args:\n")
    names = []
    for line in rest.splitlines() if found else []:
        if line and not line.startswith(" "):
            break
        if line.startswith("    ") and not line.startswith("     ") and ":" in line:
            names.append(line.strip().partition(":")[0].lstrip("*"))
    return names


@pytest.mark.parametrize(
    "name", ["AsyncTicker", "CancellationToken", "ConstantBackOff", "ExponentialBackOff", "Ticker"]
)
def test_a_class_describes_each_parameter_of_its_constructor(name):
    value = getattr(backoff_ticker, name)
    assert described(inspect.getdoc(value)) == list(inspect.signature(value).parameters)

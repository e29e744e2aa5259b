"""Docstrings: each module and public name has one, parameters are described, examples run."""

import doctest
import inspect
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import is_typeddict

import pytest

import backoff_ticker
from backoff_ticker import testing

PACKAGE = Path(backoff_ticker.__file__).parent
PATHS = sorted(PACKAGE.rglob("*.py"))


def name_of(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_the_description_of_the_package_names_what_it_offers():
    _, _, table = inspect.getdoc(backoff_ticker).partition("``help(backoff_ticker.retry)``:")
    table, _, _ = table.partition("Every error")
    names = re.findall(r"(?<=\s)\w+(?=,|$)", table, re.MULTILINE)
    assert len(names) > 15
    offered = {*backoff_ticker.__all__, *testing.__all__}
    assert [name for name in names if name not in offered] == []


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
    "name", ["CancellationToken", "ConstantBackOff", "ExponentialBackOff", "Ticker"]
)
def test_a_class_describes_each_parameter_of_its_constructor(name):
    value = getattr(backoff_ticker, name)
    assert described(inspect.getdoc(value)) == list(inspect.signature(value).parameters)


WITH_EXAMPLES = [name_of(path) for path in PATHS if ">>>" in path.read_text("utf-8")]


def examples_of(module):
    """Return the examples in a module; the errors in it say that they are of the package."""
    finder = doctest.DocTestFinder()
    found = finder.find(module, globs={})
    if module.__name__ == "backoff_ticker._errors":
        for name, value in vars(module).items():
            if getattr(value, "__module__", None) == "backoff_ticker":
                found += finder.find(value, name, backoff_ticker, globs={})
    return found


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_the_examples_of_a_module_run(module):
    """Each on its own: it imports what it uses. That of an integration needs its package."""
    said = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    for example in examples_of(import_module(module)):
        for package in re.findall(r">>> (?:from|import) ([\w.]+)", example.docstring):
            if package.partition(".")[0] not in sys.stdlib_module_names:
                pytest.importorskip(package)
        runner.run(example, out=said.append)
    assert runner.tries > 0
    assert runner.failures == 0, "".join(said)


def needs_an_example(value):
    """Return whether it is a class or function that users call or derive from.

    They never make a sentinel's type, an error's fields tell all of it, and a ``TypedDict`` only
    annotates.
    """
    if isinstance(value, type):
        sentinels = (backoff_ticker.Stop, backoff_ticker.Closed)
        return not (issubclass(value, (BaseException, *sentinels)) or is_typeddict(value))
    return inspect.isroutine(value)


def test_every_public_class_and_function_has_an_example():
    offered = {
        f"{module.__name__}.{name}": getattr(module, name)
        for module in (backoff_ticker, testing)
        for name in dir(module)
        if not name.startswith("_")
    }
    assert [
        name
        for name, value in offered.items()
        if needs_an_example(value) and ">>> " not in (inspect.getdoc(value) or "")
    ] == []

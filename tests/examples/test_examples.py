"""The examples print what is kept beside them, are short, and end cleanly when they are told to."""

import ast
import re
import signal
import sys

import pytest

import backoff_ticker
from backoff_ticker import testing, types

from .conftest import ROOT

EXAMPLES = ROOT / "examples"
OUTPUT = EXAMPLES / "output"
NAMES = sorted(
    path.relative_to(OUTPUT).with_suffix("").as_posix() for path in OUTPUT.rglob("*.txt")
)
PATHS = sorted(EXAMPLES.rglob("*.py"))
README = EXAMPLES / "README.md"
MOST_LINES = 99
WIDEST = 76
"""Columns that pages show without scrolling."""

OVERTAKING = {"web_service"}
"""Examples of which several threads print: on a busy machine the lines may change places."""

ENDLESS = {"fleet"}
"""Examples that run until they are told to stop, and print what they measure."""

NEEDED = {"integrations/use_gunicorn": {"gunicorn"}}
"""Packages that an example needs beside those that it imports."""


def imported_by(path):
    """Return each module that an example imports from, and the names; no names: the module."""
    found = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found += [(name.name, set()) for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append((node.module or "", {name.name for name in node.names}))
    return found


def path_of(name):
    return EXAMPLES / f"{name}.py"


def is_of_others(module):
    package = module.partition(".")[0]
    return package != "backoff_ticker" and package not in sys.stdlib_module_names


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name not in ENDLESS])
def test_an_example_prints_what_is_kept(start, name):
    others = {module for module, _ in imported_by(path_of(name)) if is_of_others(module)}
    for module in others | NEEDED.get(name, set()):
        pytest.importorskip(module)
    printed = start(name).finish()
    kept = (OUTPUT / f"{name}.txt").read_text("utf-8").splitlines()
    if name in OVERTAKING:
        printed.sort()
        kept.sort()
    assert printed == kept


@pytest.mark.slow
@pytest.mark.posix
@pytest.mark.parametrize("name", ["fleet", "reconnecting_client", "web_service", "worker_pool"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_an_example_cleanly(start, name, number):
    process = start(name)
    assert process.stdout.readline()
    process.send_signal(number)
    assert process.finish()[-1] == f"stopped: {signal.Signals(number).name}"


@pytest.mark.slow
def test_the_tests_of_an_example_run_in_pytest(start):
    options = ["-Xdev", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    assert "2 passed" in start("test_with_virtual_clock", options=options).finish()[-1]


def test_each_example_is_listed_and_its_output_is_kept():
    files = {path.relative_to(EXAMPLES).with_suffix("").as_posix() for path in PATHS} - {"demo"}
    listed = re.findall(r"\| \[\w+\.py\]\((\S+)\.py\)", README.read_text("utf-8"))
    assert files == set(NAMES) == set(listed) - {"demo"}


def test_each_integration_has_an_example():
    """But those that need a server outside of the program: their how-to pages have programs."""
    folder = ROOT / "backoff_ticker" / "integrations"
    modules = {path.stem for path in folder.glob("[!_]*.py")} - {"celery", "redis"}
    shown = {
        module.rpartition(".")[2]
        for name in NAMES
        for module, _ in imported_by(path_of(name))
        if module.startswith("backoff_ticker.integrations.")
    }
    assert modules <= shown


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_short_and_says_how_it_is_run(name):
    source = path_of(name).read_text("utf-8")
    assert len(source.splitlines()) <= MOST_LINES
    code = source.partition('"""\n\n')[2]  # what pages show begins after the docstring
    assert [line for line in code.splitlines() if len(line) > WIDEST] == []
    description = ast.get_docstring(ast.parse(source))
    for part in ("Problem: ", "Shows: ", f"    python examples/{name}.py"):
        assert part in description


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_an_example_uses_public_names_and_those_of_integrations_other_packages_only(path):
    """It hides no package, either: Python looks for packages beside the program first."""
    package = {module.__name__: module for module in (backoff_ticker, testing, types)}
    hidden = {neighbour.stem for neighbour in path.parent.glob("*.py")}
    for module, names in imported_by(path):
        assert module.partition(".")[0] not in hidden
        if module in package:
            assert names <= set(package[module].__all__)
        elif module.startswith("backoff_ticker"):
            assert module.startswith("backoff_ticker.integrations.")
            assert not any(name.startswith("_") for name in names)
            assert path.parent.name == "integrations"
        elif is_of_others(module):
            assert path.parent.name == "integrations"

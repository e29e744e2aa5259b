"""The examples print what is kept beside them, are short, and end cleanly when they are told to."""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import backoff_ticker
from backoff_ticker import testing

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
KEPT = sorted((EXAMPLES / "output").glob("*.txt"))
NAMES = [path.stem for path in KEPT]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
PATIENCE = 30.0
MOST_LINES = 79

OVERTAKING = {"web_service"}
"""Examples of which several threads print: on a busy machine the lines may change places."""

SLOW_CALLBACK = re.compile(r"Executing .* took \d+\.\d+ seconds\n")
"""Asyncio in debug mode says so on a busy machine."""


def start(name: str, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-X", "dev", "-W", "error", *options, str(EXAMPLES / f"{name}.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )


def finish(process: subprocess.Popen[str]) -> str:
    """Return the output; all must have gone well."""
    with process:
        try:
            output, errors = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert SLOW_CALLBACK.sub("", errors) == ""
    assert process.returncode == 0
    return output


@pytest.mark.parametrize("name", NAMES)
def test_an_example_prints_what_is_kept(name):
    printed = finish(start(name)).splitlines()
    kept = (EXAMPLES / "output" / f"{name}.txt").read_text("utf-8").splitlines()
    if name in OVERTAKING:
        printed.sort()
        kept.sort()
    assert printed == kept


@pytest.mark.posix
@pytest.mark.parametrize("name", ["reconnecting_client", "web_service", "worker_pool"])
@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_a_signal_ends_an_example_cleanly(name, number):
    process = start(name)
    assert process.stdout.readline()
    process.send_signal(number)
    assert finish(process).splitlines()[-1] == f"stopped: {signal.Signals(number).name}"


def test_the_tests_of_an_example_run_in_pytest():
    options = ["-m", "pytest", "-q", "-p", "no:cacheprovider"]
    assert "2 passed" in finish(start("test_with_virtual_clock", *options))


def test_each_example_is_listed_and_its_output_is_kept():
    files = {path.stem for path in EXAMPLES.glob("*.py")} - {"demo"}
    listed = re.findall(r"\| \[(\w+)\.py\]", (EXAMPLES / "README.md").read_text("utf-8"))
    assert files == set(NAMES) == set(listed) - {"demo"}


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_short_and_says_how_it_is_run(name):
    source = (EXAMPLES / f"{name}.py").read_text("utf-8")
    assert len(source.splitlines()) <= MOST_LINES
    description = ast.get_docstring(ast.parse(source))
    for part in ("Problem: ", "Shows: ", f"    python examples/{name}.py"):
        assert part in description


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_uses_the_standard_library_and_public_names_only(path):
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            assert {name.name.partition(".")[0] for name in node.names} <= sys.stdlib_module_names
        elif isinstance(node, ast.ImportFrom):
            package = {"backoff_ticker": backoff_ticker, "backoff_ticker.testing": testing}
            if node.module in package:
                assert {name.name for name in node.names} <= set(package[node.module].__all__)
            else:
                assert node.module.partition(".")[0] in sys.stdlib_module_names

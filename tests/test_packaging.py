"""What is shipped: the project file, the marker for type checkers, the pages beside them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import backoff_ticker

ROOT = Path(__file__).parents[1]
PACKAGE = Path(backoff_ticker.__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_python_3_11_and_later():
    assert PROJECT["project"]["requires-python"] == ">=3.11"
    versions = [
        line.rpartition(" ")[2]
        for line in PROJECT["project"]["classifiers"]
        if line.startswith("Programming Language :: Python :: 3.")
    ]
    assert versions == ["3.11", "3.12", "3.13", "3.14", "3.15"]


def test_janus_is_the_single_dependency_at_run_time():
    assert PROJECT["project"]["dependencies"] == ["janus>=2"]


def test_the_version_stands_once_in_the_package():
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["hatch"]["version"] == {"path": "backoff_ticker/__init__.py"}
    assert re.fullmatch(r"\d+\.\d+\.\d+", backoff_ticker.__version__)


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


def test_a_packager_finds_the_rest_in_the_sdist():
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert {"/tests", "/docs", "/examples", "/CHANGELOG.md", "/SECURITY.md"} <= set(included)


def test_the_changelog_knows_what_is_not_released_yet():
    versions = re.findall(r"^## \[?([^\]\n]+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert versions[0] == "Unreleased"


def test_each_tool_is_pinned_for_ci():
    pinned = {
        line.partition("==")[0]
        for line in (ROOT / ".ci" / "constraints.txt").read_text().splitlines()
        if "==" in line
    }
    wanted = list(PROJECT["project"]["dependencies"])
    for extra in PROJECT["project"]["optional-dependencies"].values():
        wanted += extra
    names = {re.match(r"[\w-]+", requirement)[0] for requirement in wanted}
    assert names - pinned == {"backoff-ticker"}

"""The suite itself: stable ids, a limit of time on each test, no word of the interpreter's own."""

import re
import sys
import sysconfig
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
OPTIONS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]


def test_no_id_holds_an_address(request):
    """Else the workers of ``pytest -n`` disagree about what there is to run."""
    addresses = re.compile(r" at 0x[0-9a-f]+|0x[0-9a-f]{9,}")
    assert [item.nodeid for item in request.session.items if addresses.search(item.nodeid)] == []


def test_no_two_tests_have_one_id(request):
    ids = [item.nodeid for item in request.session.items]
    assert len(set(ids)) == len(ids)


def test_every_test_has_a_time_limit(request):
    assert request.config.pluginmanager.hasplugin("timeout")
    assert OPTIONS["timeout"] == 60
    own = [
        (item.nodeid, mark)
        for item in request.session.items
        for mark in item.iter_markers("timeout")
        if not 0 < (mark.args[0] if mark.args else mark.kwargs["timeout"]) <= 600
    ]
    assert own == []


def test_what_the_fault_matrix_names_is_a_test_of_faults(request):
    page = (ROOT / "docs" / "fault_matrix.md").read_text("utf-8")
    named = set(re.findall(r"`(test_\w+)`", page))
    tests = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert [each for each in named if f"def {each}(" not in tests] == []
    found = [item for item in request.session.items if item.name.partition("[")[0] in named]
    assert [item.nodeid for item in found if not item.get_closest_marker("faults")] == []


def test_warnings_are_errors():
    first, *others = OPTIONS["filterwarnings"]
    assert first == "error"
    assert [each for each in others if not re.fullmatch(r"ignore:.+:\w+:.+", each)] == []


def test_nothing_imported_has_switched_the_lock_on():
    """An interpreter without the global lock has stayed so; this test runs after all others."""
    has_lock = not sysconfig.get_config_var("Py_GIL_DISABLED") or sys.flags.gil == 1
    assert getattr(sys, "_is_gil_enabled", lambda: True)() is has_lock

"""The import is light, and the facade offers exactly what it says."""

import ast
import json
from importlib import import_module
from pathlib import Path

import pytest

import backoff_ticker
from tests.helpers import python

FACADE = Path(backoff_ticker.__file__)
HEAVY = {"asyncio", "dataclasses", "inspect", "janus", "logging", "typing"}
PROTOCOLS = {"BackOff", "BudgetLike", "Clock", "FeedbackBackOff", "TimerLike"}

PRELUDE = f"""
import json, sys
sys.path.insert(0, {str(FACADE.parents[1])!r})
def heavy():
    return sorted({HEAVY!r} & set(sys.modules))
assert heavy() == [], heavy()
"""


def run(script):
    """Run a script in an interpreter that has imported nothing for its site; return its JSON."""
    done = python("-I", "-S", "-c", PRELUDE + script)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def declared():
    """Return name -> folder or module, as type checkers are told."""
    tree = ast.parse(FACADE.read_text())
    (block,) = [
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    names = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        assert node.level == 1
        for alias in node.names:
            assert alias.asname == alias.name, "only `name as name` exports a name"
            names[alias.name] = node.module
    return names


def test_importing_the_package_imports_no_module_of_it():
    found = run("""
before = set(sys.modules)
import backoff_ticker
print(json.dumps(sorted(set(sys.modules) - before - {"__future__"})))
""")
    assert found == ["backoff_ticker"]


def test_only_the_protocols_import_typing_and_no_name_imports_anything_else_heavy():
    script = """
import backoff_ticker
found = {}
for name in sorted(backoff_ticker.__all__, key=lambda name: name in %r):
    getattr(backoff_ticker, name)
    found[name] = heavy()
print(json.dumps(found))
"""
    assert run(script % PROTOCOLS) == {
        name: ["typing"] if name in PROTOCOLS else [] for name in backoff_ticker.__all__
    }


def test_a_ticker_in_a_thread_runs_without_anything_heavy():
    script = """
from backoff_ticker import *
token = CancellationToken().child(timeout=100)
handle = token.on_cancel(print)
backoff = with_max_retries(with_token(ExponentialBackOff(0.001), token), 2)
with cancel_on_signals():
    numbers = [tick.number for tick in Ticker(backoff, token=token)]
assert numbers == [1, 2, 3]
assert handle.remove()
print(json.dumps(heavy()))
"""
    script = script.replace("import *", f"import {', '.join(set(declared()) - PROTOCOLS)}")
    assert run(script) == []


def test_the_core_needs_nothing_that_only_posix_has():
    core = [
        f"backoff_ticker.{'.'.join(path.relative_to(FACADE.parent).with_suffix('').parts)}"
        for path in sorted(FACADE.parent.rglob("*.py"))
        if path.parts[len(FACADE.parent.parts)]
        not in {"testing", "cli", "integrations", "__main__.py"}
        and path.stem not in {"__init__", "_pytest_plugin", "_trio_clock", "_trio_run"}
    ]
    script = f"""
import os, signal
from importlib import import_module
for name in ["fcntl", "termios", "pty", "resource", "grp", "pwd"]:
    sys.modules[name] = None
del os.fork, os.register_at_fork, signal.SIGUSR1
for name in {core!r}:
    import_module(name)
print(json.dumps({len(core)}))
"""
    assert run(script) == len(core) > 20


@pytest.mark.parametrize("has_lock", [True, False])
def test_importing_every_name_warns_of_nothing(has_lock):
    """On builds of CPython with the interpreter's lock, and on those without."""
    script = f"""
import warnings
sys._is_gil_enabled = lambda: {has_lock}
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import backoff_ticker
    for name in backoff_ticker.__all__:
        getattr(backoff_ticker, name)
print(json.dumps([str(warning.message) for warning in caught]))
"""
    assert run(script) == []


def test_each_name_comes_from_the_folder_that_type_checkers_are_told():
    assert sorted(backoff_ticker.__all__) == sorted(declared())
    for name, folder in declared().items():
        module = import_module(f"backoff_ticker.{backoff_ticker._MODULE_OF[name]}")
        assert getattr(backoff_ticker, name) is getattr(module, name)
        assert f"{backoff_ticker._MODULE_OF[name]}.".startswith(f"{folder}.")


def test_dir_has_every_name_before_any_is_used_and_what_else_is_public_once_imported():
    names, public, later = run("""
import backoff_ticker
names = dir(backoff_ticker)
import backoff_ticker.testing, backoff_ticker.types
print(json.dumps([names, backoff_ticker.__all__, dir(backoff_ticker)]))
""")
    assert [name for name in names if not name.startswith("__")] == public
    assert names == sorted(names)
    assert {"__doc__", "__name__", "__all__", "__version__"} <= set(names)
    assert set(later) - set(names) == {"testing", "types"}


@pytest.mark.parametrize("name", ["Tocker", "ticker", "_nothing", "janus", "__wrapped__"])
def test_an_unknown_name_is_an_attribute_error(name):
    with pytest.raises(AttributeError) as caught:
        getattr(backoff_ticker, name)
    assert str(caught.value) == f"module 'backoff_ticker' has no attribute {name!r}"

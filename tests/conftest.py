"""Options and fixtures of all tests."""

import gc
import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis.strategies import none

from backoff_ticker.testing import VirtualClock
from tests import effort
from tests.helpers import TRIO, Face, LoopThread

EPOCH = 1_699_999_000.0
HERE = Path(__file__).parent

POSIX_ONLY = re.compile(
    r"\b(fcntl|termios|pty|killpg|fork|pipe|pthread_kill|setitimer|start_new_session"
    r"|SIG(?:ALRM|HUP|KILL|QUIT|STOP|TSTP|USR1|WINCH))\b"
)
"""Windows does not run a test module that names one of these."""

# A process started in the background, or by nohup, ignores these, and so would its children.
signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_addoption(parser):
    parser.addoption(
        "--all", action="store_true", help="run the slow tests, too; repeat others more often"
    )


def pytest_configure(config):
    """Choose the effort before a test module asks for it."""
    effort.choose(all=config.getoption("--all"))


OF_INTEGRATIONS = re.compile(
    "aiohttp|apscheduler|asgiref|backoff|celery|django|dramatiq|fastapi|google|gunicorn|httpx|kombu"
    "|matplotlib|opentelemetry|prometheus_client|redis|requests|stamina|starlette|structlog"
    "|temporalio|tenacity|trio|urllib3|uvicorn"
)
"""A test that needs one of these packages is skipped where it is missing."""


class Module(pytest.Module):
    """A module of tests, which is skipped where a package of integrations is missing."""

    def collect(self):
        try:
            return super().collect()
        except self.CollectError as error:
            skip_without_package(error.__cause__)
            raise


def pytest_pycollect_makemodule(module_path, parent):
    return Module.from_parent(parent, path=module_path)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call():
    """Skip a test in whose body, or for whose fixtures, a package is missing."""
    try:
        return (yield)
    except ModuleNotFoundError as error:
        skip_without_package(error)
        raise


pytest_fixture_setup = pytest_pyfunc_call


def skip_without_package(error):
    """Skip if an error says that a package of integrations is missing."""
    if isinstance(error, ModuleNotFoundError):
        package = (error.name or "").partition(".")[0]
        if OF_INTEGRATIONS.fullmatch(package):
            pytest.skip(f"needs the package {package}", allow_module_level=True)


def pytest_ignore_collect(collection_path):
    """Leave out what needs POSIX, where there is none: the command, signals, forks, terminals."""
    if os.name == "posix" or collection_path.suffix != ".py":
        return None
    needs_posix = "cli" in collection_path.relative_to(HERE).parts
    return True if needs_posix or POSIX_ONLY.search(collection_path.read_text("utf-8")) else None


def pytest_collection_modifyitems(config, items):
    """Leave the slow tests out, unless ``--all`` is given, and what cannot run here.

    The test of what all others have imported comes last.
    """
    items.sort(key=lambda item: item.name == "test_nothing_imported_has_switched_the_lock_on")
    left_out = set() if config.getoption("--all") else {"slow"}
    if os.name != "posix":
        left_out.add("posix")
    deselected = [item for item in items if left_out & {mark.name for mark in item.iter_markers()}]
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        kept = set(items) - set(deselected)
        items[:] = [item for item in items if item in kept]


def freeze():
    """Take what exists now out of each later collection of garbage, which it would slow."""
    gc.collect()
    gc.freeze()


def pytest_collection_finish():
    """Freeze what exists before the tests."""
    # Hypothesis looks once, and not among the frozen objects, for what refers to its generator.
    given(none())(lambda _: None)()
    freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    """Freeze what the tests of a module have left, such as reports, where that saves time."""
    done = yield
    if effort.has_lock() and nextitem and nextitem.path != item.path:
        freeze()
    return done


@pytest.fixture
def clock():
    """A clock that stands still until the test moves it; threads and loops begun now are on it."""
    with VirtualClock(1000.0, epoch=EPOCH) as made:
        yield made


@pytest.fixture
def unraisable(monkeypatch):
    """What goes to ``sys.unraisablehook`` meanwhile."""
    shown = []
    monkeypatch.setattr(sys, "unraisablehook", shown.append)
    return shown


@pytest.fixture
def replaced_time(monkeypatch):
    """Stop all clocks of the module ``time``, wherever a module has one of them, as freezegun does.

    A ``sleep()`` is gone, too.
    """
    functions = {
        id(getattr(time, name)): value
        for name, value in [
            ("monotonic", lambda: 1.5),
            ("time", lambda: 1.5),
            ("perf_counter", lambda: 1.5),
            ("sleep", lambda _: None),
        ]
    }
    ours = [module for name, module in sys.modules.items() if name.startswith("backoff_ticker")]
    for module in (time, *ours):
        for name, value in list(vars(module).items()):
            if id(value) in functions:
                monkeypatch.setattr(module, name, functions[id(value)])


@pytest.fixture
def loop(clock):
    """An event loop in a thread of its own, on the clock; nothing may go wrong in it."""
    made = LoopThread()
    yield made
    made.close()
    assert made.errors == []


@pytest.fixture(params=["thread", "loop", TRIO])
def face(request, clock):
    """The thread API, then the async API: contract tests run one body on both."""
    made = Face(request.param)
    yield made
    made.close()

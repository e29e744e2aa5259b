"""The fixtures in a pytest of their own, beside pytest-asyncio, anyio's plugin, or neither."""

import re
from pathlib import Path

import pytest

from tests.helpers import python

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "testing.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
(EXAMPLE,) = (block for block in BLOCKS if "async def test_" in block)

MIXED = """
import asyncio
import threading
import time


def test_manual(virtual_clock):
    woken = []
    thread = threading.Thread(target=lambda: woken.append(virtual_clock.sleep(5)))
    thread.start()
    virtual_clock.advance(4.5)
    assert woken == []
    virtual_clock.advance(0.5)
    assert woken == [None]


def test_auto(auto_clock):
    asyncio.run(asyncio.sleep(3600))
    assert auto_clock.monotonic() == 3600


def test_patched(patched_clock):
    time.sleep(3600)
    assert time.monotonic() == patched_clock.monotonic() == 3600


def test_each_has_a_clock_of_its_own(virtual_clock):
    assert virtual_clock.monotonic() == 0


def test_a_leak_is_an_error_at_teardown(virtual_clock):
    virtual_clock.spawn(virtual_clock.sleep, 5)
"""
STUCK = """
import threading

import backoff_ticker.testing  # now, because the time-out counts what a fixture does


event = threading.Event()


def test_a_failure_and_a_leak(auto_clock):
    threading.Thread(target=event.wait, args=(60,), daemon=True).start()
    auto_clock.spawn(auto_clock.sleep, 5)
    raise KeyError


def test_a_time_out_and_a_leak(virtual_clock):
    threading.Thread(target=event.wait, args=(60,), daemon=True).start()
    virtual_clock.advance(5)
"""
RETRIES = """
import pytest

from backoff_ticker import ConstantBackOff, retry

calls = []


@retry(ConstantBackOff(3600), max_attempts=3)
def fetch():
    calls.append(1)
    raise OSError


@pytest.mark.parametrize("limit", [None, 1, 2])
def test_retries_do_not_wait_and_may_be_limited(no_wait, limit):
    calls.clear()
    if limit is not None:
        no_wait(max_attempts=limit)
    with pytest.raises(OSError):
        fetch()
    assert len(calls) == (limit or 2)


@pytest.fixture(autouse=True)
def few(no_wait):
    no_wait(max_attempts=2)
"""
UNITTEST = """
import asyncio
import sys
import unittest

sys.modules["pytest"] = None

from backoff_ticker.testing import VirtualClock


class Case(unittest.IsolatedAsyncioTestCase):
    def setUp(self):
        self.clock = self.enterContext(VirtualClock(auto=True))

    async def test_an_hour(self):
        await asyncio.gather(asyncio.sleep(3600), asyncio.to_thread(self.clock.sleep, 1800))
        self.assertEqual(self.clock.monotonic(), 3600)


unittest.main()
"""


ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""Has pytest load the plugins that are named, by their entry points, and no others."""


def run_tests(tmp_path, source, *options, plugins=()):
    (tmp_path / "test_it.py").write_text(source)
    chosen = [f"-p{name}" for name in ("backoff_ticker", *plugins)]
    command = ["-m", "pytest", "-q", "-pno:cacheprovider", *options, *chosen]
    return python(*command, cwd=tmp_path, **ALONE).stdout


def test_the_plugin_imports_nothing_before_a_fixture_is_used(tmp_path):
    done = python("-v", "-m", "pytest", "-VV", "-pbackoff_ticker", cwd=tmp_path, **ALONE)
    imported = set(re.findall(r"^import '([\w.]+)'", done.stderr, re.MULTILINE))
    ours = {name for name in imported if name.startswith("backoff_ticker")}
    assert ours == {"backoff_ticker", "backoff_ticker._pytest_plugin"}
    assert "asyncio" not in imported


def test_fixtures_with_threads_and_loops_and_leaks(tmp_path):
    said = run_tests(tmp_path, MIXED + RETRIES)
    assert "8 passed, 1 error" in said
    assert "ClockLeakError: 1 participant still waited at close: sleep-1: sleep()" in said


@pytest.mark.slow
def test_the_leaks_of_a_test_that_has_failed_are_shown_and_are_no_second_error(tmp_path):
    said = run_tests(tmp_path, STUCK, "--timeout=2", plugins=["pytest_timeout"])
    assert "2 failed in" in said
    assert re.search(r"Failed: Timeout .*2\.0s", said)
    assert said.count("Captured by the virtual clock teardown") == 2
    assert "2 participants still waited at close" in said
    assert re.search(r"still waited at close: Thread-\d+ \(wait\): runs in ", said)


PYTEST_ASYNCIO = ["-oasyncio_mode=auto", "-oasyncio_default_fixture_loop_scope=function"]
OF_ANYIO = "import pytest\npytestmark = pytest.mark.anyio\n"


@pytest.mark.parametrize(
    ("plugin", "options", "head"),
    [("asyncio", PYTEST_ASYNCIO, ""), pytest.param("anyio", [], OF_ANYIO, marks=pytest.mark.slow)],
    ids=["pytest-asyncio", "anyio"],
)
def test_fixtures_in_coroutines(tmp_path, plugin, options, head):
    backend = "\n\nimport pytest\n\n@pytest.fixture\ndef anyio_backend():\n    return 'asyncio'\n"
    said = run_tests(tmp_path, f"{head}{EXAMPLE}{backend}", *options, plugins=[plugin])
    assert "2 passed" in said


def test_unittest_needs_no_pytest(tmp_path):
    (tmp_path / "case.py").write_text(UNITTEST)
    done = python("case.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr

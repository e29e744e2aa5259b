"""The fixtures in a pytest of their own, beside pytest-asyncio and anyio's plugin, or neither."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "testing.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
(EXAMPLE,) = (block for block in BLOCKS if "async def test_" in block)

LEFT_OUT = [
    f"-pno:{name}"
    for name in (
        "cacheprovider",
        "looptime_chronometers",
        "looptime_plugin",
        "looptime_timeproxies",
    )
]
MIXED = """
import asyncio
import threading


def test_by_hand(virtual_clock):
    woken = []
    thread = threading.Thread(target=lambda: woken.append(virtual_clock.sleep(5)))
    thread.start()
    virtual_clock.advance(4.5)
    assert woken == []
    virtual_clock.advance(0.5)
    assert woken == [None]


def test_by_itself(auto_clock):
    asyncio.run(asyncio.sleep(3600))
    assert auto_clock.monotonic() == 3600


def test_each_has_a_clock_of_its_own(virtual_clock):
    assert virtual_clock.monotonic() == 0


def test_a_leak_is_an_error_at_teardown(virtual_clock):
    virtual_clock.spawn(virtual_clock.sleep, 5)
"""
PLAIN = """
import asyncio
import unittest

from backoff_ticker.testing import VirtualClock


class Case(unittest.TestCase):
    def setUp(self):
        self.clock = self.enterContext(VirtualClock(auto=True))

    def test_an_hour(self):
        asyncio.run(asyncio.sleep(3600))
        self.assertEqual(self.clock.monotonic(), 3600)


class AsyncCase(unittest.IsolatedAsyncioTestCase):
    def setUp(self):
        self.clock = self.enterContext(VirtualClock(auto=True))

    async def test_an_hour(self):
        await asyncio.gather(asyncio.sleep(3600), asyncio.to_thread(self.clock.sleep, 1800))
        self.assertEqual(self.clock.monotonic(), 3600)


unittest.main()
"""


def run(tmp_path, source, *options):
    (tmp_path / "test_it.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-q", *LEFT_OUT, *options]
    return subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False
    ).stdout


def test_threads_loops_and_leaks(tmp_path):
    said = run(tmp_path, MIXED)
    assert "4 passed, 1 error" in said
    assert "ClockLeakError: 1 participant still waited at close: sleep-1: sleep()" in said


@pytest.mark.parametrize(
    ("options", "source"),
    [
        (["-p", "asyncio", "-o", "asyncio_mode=auto", "-p", "no:anyio"], EXAMPLE),
        (["-p", "no:asyncio"], f"import pytest\npytestmark = pytest.mark.anyio\n{EXAMPLE}"),
    ],
    ids=["pytest-asyncio", "anyio"],
)
def test_coroutines_as_tests(tmp_path, options, source):
    more = "\n\n@pytest.fixture\ndef anyio_backend():\n    return 'asyncio'\n"
    source = f"import pytest\n{source}{more}"
    assert "2 passed" in run(
        tmp_path, source, *options, "-o", "asyncio_default_fixture_loop_scope=function"
    )


def test_unittest_needs_no_pytest(tmp_path):
    script = tmp_path / "case.py"
    script.write_text(PLAIN)
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 0, done.stderr
    without = "import sys; sys.modules['pytest'] = None; import backoff_ticker.testing"
    subprocess.run([sys.executable, "-c", without], timeout=50, check=True)

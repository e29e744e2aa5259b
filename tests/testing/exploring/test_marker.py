"""The marker, in a pytest of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
TESTS = """
import asyncio
import threading

import pytest


def race(add):
    threads = [threading.Thread(target=add) for _ in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.explore
def test_lost_update(tmp_path):
    count = [0]

    def add():
        count[0] += 1

    race(add)
    assert count[0] == 2, tmp_path


class TestRight:
    pytestmark = pytest.mark.explore(preemptions=1)

    @pytest.mark.parametrize("times", [1, 2])
    def test_lock(self, times):
        count, lock = [0], threading.Lock()

        def add():
            for _ in range(times):
                with lock:
                    count[0] += 1

        race(add)
        assert count[0] == 2 * times


@pytest.mark.explore
async def test_coroutine():
    await asyncio.to_thread(race, lambda: None)


def test_fixture(explore):
    explore(lambda: race(list))


@pytest.mark.explore(replay="{replay}")
def test_replay():
    test_lost_update("")
"""


def test_a_marked_test_is_explored(tmp_path):
    (tmp_path / "test_it.py").write_text(TESTS.replace("{replay}", "0:9"))
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "--strict-markers"]
    plugin = ["-p", "backoff_ticker._pytest_plugin"]
    run = subprocess.run(
        [*command, *plugin, "test_it.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    lines = run.stdout.splitlines()
    assert "2 failed, 4 passed" in lines[-1], run.stdout
    assert any("explore(test_lost_update, replay='" in line for line in lines)
    assert any("a schedule does not fit" in line for line in lines)
    assert sum(" schedules with at most 1 preemption" in line for line in lines) == 2

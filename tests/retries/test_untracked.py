"""The same tests in a process in which nobody has imported ``current_attempt``.

Retries keep track of their attempts once somebody has: so they do while all tests are collected.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import effort

SAME = ["attempts"]
if effort.everything:
    SAME += ["order", "budget", "cancelling", "time_limits", "leaks", "interrupts"]

MAIN = """
import sys, pytest
status = pytest.main(sys.argv[1:])
import backoff_ticker
assert "current_attempt" not in vars(backoff_ticker), "it was imported"
sys.exit(status)
"""


@pytest.mark.timeout(600)
def test_retries_that_keep_track_of_nothing_do_the_same():
    files = [str(Path(__file__).with_name(f"test_{name}.py")) for name in SAME]
    options = ["-q", "-x", "-p", "no:cacheprovider", "-k", "not no_attempt_is_left"]
    done = subprocess.run(
        [sys.executable, "-c", MAIN, *options, *files],
        capture_output=True,
        text=True,
        timeout=590,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr

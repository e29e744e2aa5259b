"""Starts examples in processes of their own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE = 30.0

SLOW_CALLBACK = re.compile(r"Executing .* took \d+\.\d+ seconds\n")
"""Asyncio in debug mode says so on a busy machine."""

NOT_OURS = ["-W", "ignore::DeprecationWarning:backoff._decorator"]
"""A package that uses ``asyncio.iscoroutinefunction()``, of which Python 3.14 warns."""


class Example(subprocess.Popen):
    """A process that runs an example."""

    def until(self, words):
        """Read lines until one has these words."""
        assert any(words in line for line in self.stdout), f"it ended without {words!r}"

    def finish(self, status=0):
        """Return the lines that have not been read, once it has ended without any other word."""
        output, errors = self.communicate(timeout=PATIENCE)
        assert SLOW_CALLBACK.sub("", errors) == ""
        assert self.returncode == status
        return None if output is None else output.splitlines()


@pytest.fixture
def start():
    """Starts an example in a process group of its own; kills it in the end."""
    started = []

    def start(name, *arguments, options=("-Xdev",), stdout=subprocess.PIPE, **environment):
        program = ROOT / "examples" / f"{name}.py"
        started.append(
            Example(
                [sys.executable, "-Werror", *NOT_OURS, *options, program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **environment},
                start_new_session=True,
            )
        )
        return started[-1]

    yield start
    for process in started:
        with process:
            process.kill()

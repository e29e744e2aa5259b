"""Calls the command, in this process or in one of its own, and looks at what it said."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from backoff_ticker.cli._app import run_app

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[2]
PATIENCE = 50.0

LIMD = (
    "limd --initial-delay 2 --min-delay 1 --delay-increment-on-failure 4 "
    "--delay-multiple-on-success 0.2"
)


class Said(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """What one line on stderr says of bad input, with nothing on stdout."""
        assert (self.status, self.out) == (2, "")
        assert self.err.startswith("backoff-ticker: ")
        assert self.err.endswith("\n")
        assert self.err.count("\n") == 1
        return self.err.removeprefix("backoff-ticker: ").removesuffix("\n")


def call(capsys: pytest.CaptureFixture[str], line: str, *more: str) -> Said:
    """Call the command in this process, with the words of a line and further arguments."""
    capsys.readouterr()
    status = run_app([*line.split(), *more])
    return Said(status, *capsys.readouterr())


def environment(**changes: str) -> dict[str, str]:
    """Return the environment without what would change how the command looks."""
    left_out = {"FORCE_COLOR", "NO_COLOR", "COLUMNS", "PYTHONUNBUFFERED", "TTY_COMPATIBLE"}
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return {**kept, "PYTHONPATH": str(ROOT), **changes}


def start(*args: str, before: str = "", **options: Any) -> subprocess.Popen[bytes]:
    """Start the command in a process of its own, after some lines of Python."""
    script = f"import sys\n{before}\nfrom backoff_ticker.cli import main\nsys.exit(main())"
    options = {"env": environment(), "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.Popen([sys.executable, "-c", script, *args], **options)


def finish(process: subprocess.Popen[bytes]) -> Said:
    """Wait for a process that ``start`` started."""
    out, err = process.communicate(timeout=PATIENCE)
    return Said(process.returncode, (out or b"").decode(), (err or b"").decode())

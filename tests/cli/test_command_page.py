"""The page about the command shows what the command prints."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "command.md").read_text()
SESSIONS = re.findall(
    r"^```text\n\$ backoff-ticker (.*?[^\\])\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL
)


@pytest.mark.parametrize(("arguments", "printed"), SESSIONS, ids=[one[0][:30] for one in SESSIONS])
def test_a_session_of_the_page(arguments, printed):
    words = shlex.split(arguments.replace("\\\n", " "))
    done = subprocess.run(
        [sys.executable, "-m", "backoff_ticker", *words],
        capture_output=True,
        encoding="utf-8",
        env={"PYTHONIOENCODING": "utf-8", "PYTHONPATH": str(ROOT)},
        timeout=50,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == printed


def test_the_page_has_a_session_for_each_command_that_prints():
    assert {one[0].split()[0] for one in SESSIONS} == {"delays", "feedback", "retry-after"}

"""Completion in shells: click makes it; what is completed is ours."""

import shutil
import subprocess
import sys

import pytest

from backoff_ticker import POLICIES

from .calling import ROOT, call, environment
from .test_app import FEEDBACK


def completed(line, **variables):
    """Return the kind and the value of what completes the last word of a line."""
    words = ["backoff-ticker", *line.split(" ")]
    variables |= {
        "_BACKOFF_TICKER_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    said = call("", **variables)
    assert (said.status, said.err) == (0, "")
    return [tuple(row.split(",", 1)) for row in said.out.splitlines()]


def plain(*names):
    return [("plain", name) for name in names]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", plain("delays", "feedback", "retry-after", "run", "simulate")),
        ("delays full", plain("full-jitter")),
        ("feedback ", plain(*FEEDBACK)),
        ("run --policy ", plain(*POLICIES)),
        ("run --policy=full", plain("full-jitter")),
        ("run --in", plain("--initial-interval")),  # of the policy in use alone
        ("run --policy constant --in", plain("--interval")),
        ("simulate outage zero full", plain("full-jitter")),
        ("run -- ls REA", [("file", "REA")]),
        ("delays go --plot ", [("file", "")]),
    ],
)
def test_names_and_options_are_completed(line, expected):
    assert completed(line) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shell", "ask", "answer"),
    [
        (
            "bash",
            """COMP_WORDS=(backoff-ticker ret); COMP_CWORD=1
            _backoff_ticker_completion backoff-ticker; echo "${COMPREPLY[@]}" """,
            "retry-after",
        ),
        ("zsh", "whence -w _backoff_ticker_completion", "function"),
        ("fish", "complete --do-complete 'backoff-ticker ret'", "retry-after"),
    ],
)
def test_the_line_of_the_page_sets_it_up(tmp_path, shell, ask, answer):
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    program = tmp_path / "backoff-ticker"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m backoff_ticker "$@"\n')
    program.chmod(0o755)
    (line,) = (
        text
        for text in (ROOT / "docs" / "command_in_detail.md").read_text().splitlines()
        if f"_COMPLETE={shell}_source" in text
    )
    before = "autoload -U compinit; compinit" if shell == "zsh" else ":"
    path = f"{tmp_path}:{environment()['PATH']}"
    said = subprocess.check_output(
        [shell, "-c", f"{before}; {line}\n{ask}"],
        env=environment(PATH=path, HOME=str(tmp_path)),
        text=True,
    )
    assert answer in said

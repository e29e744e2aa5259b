"""What errors become: pipes that break, full disks, streams that are closed, Ctrl-C."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from backoff_ticker.cli._errors import NoAnswer, run_guarded

from .calling import environment, finish, start

FULL = Path("/dev/full")


def test_a_reader_that_leaves_ends_the_command_quietly():
    read, write = os.pipe()
    os.close(read)
    for args in (["delays", "go"], ["delays", "go", "--csv"], ["--help"], ["retry-after", "5"]):
        said = finish(start(*args, stdout=write))
        assert (said.status, said.err) == (141, "")
    os.close(write)


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")
def test_a_full_disk_is_told():
    with FULL.open("wb") as full:
        for args in (["delays", "go"], ["--help"]):
            said = finish(start(*args, stdout=full))
            told = os.strerror(errno.ENOSPC)
            assert (said.status, said.err) == (1, f"backoff-ticker: cannot go on: {told}\n")


@pytest.mark.parametrize(
    ("closed", "args", "status"), [(">&-", "delays zero", 0), ("2>&-", "delays x", 2)]
)
def test_closed_streams_are_no_error(closed, args, status):
    done = subprocess.run(
        ["sh", "-c", f'"$0" -m backoff_ticker {args} {closed}', sys.executable],
        capture_output=True,
        timeout=50,
        check=False,
        env=environment(),
    )
    assert (done.returncode, done.stdout, done.stderr) == (status, b"", b"")


def test_ctrl_c_ends_the_command_quietly():
    interrupt = """
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a parent may have it ignore
import backoff_ticker.cli._delays as room
def delays_of(*ignored):
    os.kill(os.getpid(), signal.SIGINT)
    signal.pause()
room.delays_of = delays_of
"""
    said = finish(start("delays", "go", before=interrupt))
    assert said == (128 + signal.SIGINT, "", "")


def test_ctrl_c_while_modules_are_loaded():
    interrupt = """
class Finder:
    def find_spec(self, name, *ignored):
        if name == "click":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Finder())
"""
    assert finish(start("delays", "go", before=interrupt)) == (130, "", "")


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        (click.UsageError("Such a thing."), 2, "such a thing"),
        (click.ClickException("Such\n  a\tthing"), 2, "such a thing"),
        (NoAnswer("no answer"), 1, "no answer"),
        (BrokenPipeError(), 141, None),
        (KeyboardInterrupt(), 130, None),
        (click.Abort(), 130, None),
        (OSError("odd"), 1, "cannot go on: odd"),
        (OSError(errno.EIO, "Input/output error"), 1, "cannot go on: Input/output error"),
    ],
)
def test_what_an_error_becomes(capsys, monkeypatch, error, status, told):
    monkeypatch.setattr("backoff_ticker.cli._errors._drop_output", lambda: None)

    def body():
        raise error

    assert run_guarded(body) == status
    assert capsys.readouterr() == ("", f"backoff-ticker: {told}\n" if told else "")

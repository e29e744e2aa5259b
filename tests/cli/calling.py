"""Calls the command, in this process or in one of its own, and looks at what it said."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import NamedTuple

import click
from click.testing import CliRunner

from backoff_ticker.cli import _run
from backoff_ticker.cli._app import app

ROOT = Path(__file__).parents[2]
PATIENCE = 50.0
APP = app()
APART = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}
RUNNER = CliRunner(**APART)  # click before 8.2 has to be told to keep stderr apart

LIMD = (
    "limd --initial-delay 2 --delay-increment-on-failure 4 --delay-multiple-on-success 0.2"
    " --min-delay 1"
)
"""A policy with its options."""


class Said(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def complaint(self):
        """What is said of bad input, with nothing on stdout."""
        assert (self.status, self.out) == (2, "")
        return self.err.partition("Error: ")[2].removesuffix("\n")


def call(line, *more, **variables):
    """Call the command in this process, with the words of a line as a shell reads it, and more."""
    words = [*shlex.split(line), *more]
    result = RUNNER.invoke(APP, words, prog_name="backoff-ticker", env=variables)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Said(result.exit_code, result.stdout, result.stderr)


def data_of(line, *more):
    """Return what the command prints as JSON."""
    said = call(f"{line} --json", *more)
    assert (said.status, said.err) == (0, "")
    return json.loads(said.out)


def words_of(options):
    """Return the words of options of ``run``; ``delay`` is that of its policy."""
    words = ["--policy=constant", f"--interval={options.pop('delay', 0)}"]
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        words += [flag] if value is True else [] if value is False else [f"{flag}={value}"]
    return words


@contextmanager
def replaced(descriptor, by):
    """Have a standard descriptor of this process be another one meanwhile."""
    kept = os.dup(descriptor)
    os.dup2(by, descriptor)
    try:
        yield
    finally:
        os.dup2(kept, descriptor)
        os.close(kept)


def run_here(*command, stdin=0, stdout=None, **options):
    """Call ``run`` in this process; ``out`` is what the commands have printed to no ``stdout``."""
    with (
        tempfile.TemporaryFile() as out,
        replaced(0, stdin),
        replaced(1, out.fileno() if stdout is None else stdout),
    ):
        said = call("run", *words_of(options), "--", *command)
        assert said.out == ""
        out.seek(0)
        return said._replace(out=out.read().decode())


def shell_here(script, **options):
    """Call ``run`` in this process for a script of the shell."""
    return run_here("sh", "-c", script, **options)


def on_console(line, *more, width, color=False):
    """Return what the command prints on a terminal of so many columns."""
    variables = {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": str(width), "LINES": "24"}
    said = call(line, *more, **variables, NO_COLOR=None)
    assert (said.status, said.err) == (0, "")
    return said.out if color else click.unstyle(said.out)


def catch_runs(patch, status):
    """Have ``run`` return a status instead; return what it will be called with."""
    calls = []

    def run(command, backoff, limits, **switches):
        calls.append((command, backoff, limits._asdict(), switches))
        return status

    patch.setattr(_run, "run", run)
    return calls


def environment(**changes):
    """Return the environment without what would change how the command looks."""
    left_out = {"FORCE_COLOR", "NO_COLOR", "COLUMNS", "PYTHONUNBUFFERED", "TTY_COMPATIBLE"}
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return {**kept, "PYTHONPATH": str(ROOT), **changes}


def start(*args, before="", **options):
    """Start the command in a process of its own, after some lines of Python."""
    script = f"import sys\n{before}\nfrom backoff_ticker.cli import main\nsys.exit(main())"
    options = {"env": environment(), "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.Popen([sys.executable, "-c", script, *args], **options)


def finish(process):
    """Wait for a process that ``start`` started."""
    out, err = process.communicate(timeout=PATIENCE)
    return Said(process.returncode, (out or b"").decode(), (err or b"").decode())

"""`run` stands between nobody: arguments, descriptors and leftovers are the command's own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.running import SOON, Running, shell, state, talks
from tests.helpers import eventually


def test_arguments_reach_the_command_as_they_are():
    words = ["", "a b", "$HOME", "*", ";", "`id`", '"', "'", "\\", "ä\n", "-x", "--"]
    with Running(*talks("import sys, json; print(json.dumps(sys.argv[1:]))"), *words) as running:
        status, out, _ = running.finish()
    assert (status, json.loads(out)) == (0, words)


def test_stdin_is_the_commands_own():
    script = "read line; echo got $line; exit 1"
    with shell(script, how={"stdin": subprocess.PIPE}, max_attempts=3) as running:
        running.process.stdin.write(b"one\ntwo\nthree\n")
        running.process.stdin.close()
        assert running.finish()[:2] == (1, "got one\ngot two\ngot three\n")


@pytest.mark.parametrize("options", [{}, {"until_output": "never"}])
def test_stdout_and_stderr_come_through_untouched(options):
    script = r"""
import sys
sys.stderr.buffer.write(b"\xff\0" * 500)
sys.stdout.buffer.write(bytes(range(256)) * 1000)
"""
    with Running(*talks(script), max_attempts=1, quiet=True, **options) as running:
        assert running.out.rest() == bytes(range(256)) * 1000
        assert running.err.rest() == b"\xff\0" * 500


def test_other_descriptors_come_through_too():
    """Such as those of ``<(...)`` in a shell."""
    read, write = os.pipe()
    os.write(write, b"hello\n")
    os.close(write)
    try:
        also = {"HELLO": read}
        with shell('cat "/dev/fd/$HELLO"', how={"also": also}) as running:
            assert running.finish()[:2] == (0, "hello\n")
    finally:
        os.close(read)


def test_the_command_has_no_descriptor_of_ours():
    script = "print(sorted(os.listdir('/proc/self/fd'))); print(os.environ['TELL'])"
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("no /proc")
    for options in ({}, {"until_output": "x"}):
        with Running(*talks(script), quiet=True, max_attempts=1, **options) as running:
            first, tell = running.finish()[1].splitlines()
        found = set(json.loads(first.replace("'", '"')))
        # One is that of the folder that is read.
        assert len(found - {"0", "1", "2", "9", tell}) == 1


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("options", [{}, {"until_output": "never"}])
def test_standard_descriptors_may_be_closed(closed, options):
    script = """
for number in range(3):
    try:
        os.fstat(number)
    except OSError:
        continue
    tell(str(number))
raise SystemExit(3)
"""
    before = ("sh", "-c", f'exec "$@" {closed}', "sh")
    with Running(*talks(script), how={"before": before}, max_attempts=2, **options) as running:
        assert running.wait() == 3
        found = running.told.rest().decode()
    gone = {{"<": "0", ">": "1", "2": "2"}[word[0]] for word in closed.split()}
    if options:
        gone -= {"1"}  # there it is a pipe
    assert found == "".join(number for number in "012" if number not in gone) * 2


def test_progress_survives_a_reader_that_is_gone():
    read, write = os.pipe()
    os.close(read)
    with shell("exit 3", how={"stderr": write}, max_attempts=2) as running:
        assert running.wait() == 3
    os.close(write)


# What is left behind


@pytest.mark.parametrize("options", [{}, {"until_output": "done"}])
@pytest.mark.parametrize("status", [0, 3])
def test_what_a_command_leaves_behind_is_left_alone(options, status):
    read, write = os.pipe()
    script = f"(read line <&$GO; echo got $line >&9) & echo done; exit {status}"
    script = script.replace("<&$GO", "</dev/fd/$GO")
    how = {"also": {"GO": read}}
    with shell(script, how=how, max_attempts=1, quiet=True, **options) as running:
        os.close(read)
        assert running.out.until("done")
        assert running.wait() == status
        assert not running.nobody_left()
        os.write(write, b"hello\n")
        running.until("got hello")
    os.close(write)


def test_a_signal_does_not_reach_what_a_command_has_left_behind():
    """The command has ended, and some of its output is still to be read."""
    read, write = os.pipe()
    script = "(read line <&$GO; echo got $line >&9) & head -c 100000 /dev/zero; echo $$ >&9"
    script = script.replace("<&$GO", "</dev/fd/$GO")
    options = {"how": {"also": {"GO": read}}, "until_output": "never", "grace": SOON}
    with shell(script, **options) as running:
        os.close(read)
        command = int(running.until(r"(\d+)\n")[1])
        eventually(lambda: not state(command), "the end of the command")
        running.signal(signal.SIGTERM)
        assert running.wait() == 143
        os.write(write, b"hello\n")
        running.until("got hello")
    os.close(write)

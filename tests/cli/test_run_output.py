"""`run --until-output`: what counts as a match, and that the output passes as it comes."""

import errno
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from backoff_ticker.cli._output import LineSearch
from tests.cli.calling import shell_here
from tests.cli.running import SOON, Running, lines, shell, state, talks, unread
from tests.helpers import eventually

slow = pytest.mark.slow


def matches(pattern, *parts):
    search = LineSearch(re.compile(pattern))
    for part in parts:
        search.feed(part)
    search.finish()
    return search.matched


TEXT = b"first\nsecond line\n\nlast"


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("^second line$", True), ("^$", True), (r"\Alast\Z", True), (r"\n|first\s+second", False)],
)
def test_it_looks_at_each_line_however_the_parts_fall(pattern, expected):
    for cut in range(len(TEXT)):
        assert matches(pattern, TEXT[:cut], TEXT[cut:]) is expected


def test_an_end_of_output_is_no_line_and_text_is_decoded_as_arguments_are():
    assert not matches("^$", b"")
    assert not matches("^$", b"x\n")
    assert matches("^$", b"x\n\n")
    letters = os.fsencode("naïve")
    assert matches("^na.ve$", letters[:3], letters[3:])
    assert matches("^\udcff$", b"\xff\n")


def test_a_line_without_end_is_searched_where_parts_of_it_meet():
    for before in range(65_990, 66_010):
        line = b"x" * before + b"ready" + b"x" * 100_000
        assert matches("ready", *(line[at : at + 1000] for at in range(0, len(line), 1000)))


def test_a_command_is_repeated_until_its_output_matches():
    said = shell_here('echo "run $BACKOFF_TICKER_ATTEMPT"', until_output=r"^run\s+2$")
    assert said[:2] == (0, "run 1\nrun 2\n")
    assert said.err.startswith(lines("attempt 1 printed no match; next attempt in 0 s"))


def test_a_match_may_come_in_parts_and_nothing_is_held_back():
    script = "printf re; read x </dev/fd/$GO; printf ady; read x </dev/fd/$GO; exit 1"
    with shell(script, until_output="^ready$") as running:
        for part in ("re", "ady"):
            running.out.until(part)
            running.go()
        assert running.finish()[::2] == (0, lines("attempt 1 succeeded"))


def test_what_is_still_in_the_pipe_when_a_command_ends_is_passed_on():
    script = "echo first; head -c 100000 /dev/zero; echo $$ >&9"
    with shell(script, until_output="first") as running:
        child = int(running.until(r"(\d+)\n")[1])
        eventually(lambda: not state(child), "the end of the command")
        assert running.out.rest() == b"first\n" + bytes(100_000)
        assert running.wait() == 0


@slow
def test_stdout_may_be_non_blocking():
    read, write = os.pipe()
    os.set_blocking(write, False)
    with shell("seq 50000", stdout=write, until_output="^50000$") as running:
        os.close(write)
        with os.fdopen(read, "rb") as reader:
            out = reader.read()
        assert running.wait() == 0
    assert out == b"".join(b"%d\n" % number for number in range(1, 50_001))


@slow
def test_what_a_command_writes_at_its_end_is_passed_on_to_a_slow_reader():
    command = talks("hears(signal.SIGTERM)(); os.write(1, bytes(100_000))")
    with Running(*command, until_output="never") as running:
        child = int(running.until(r"ready (\d+)\n")[1])
        running.signal(signal.SIGTERM)
        eventually(lambda: not state(child), "the end of the command")
        assert running.out.rest() == bytes(100_000)
        assert running.wait() == 143


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "nobody reads the output"),
        ({"until_output": "never"}, "nobody reads the output"),
        ({"on_exit_code": 1}, "nobody reads the output"),
        ({"on_exit_code": 141, "max_attempts": 1}, "giving up"),
    ],
)
def test_a_reader_that_is_gone_is_for_the_command_to_notice(options, told):
    """It gets SIGPIPE, also where a pipe of ours is between; then nothing is left to do."""
    read, write = os.pipe()
    os.close(read)
    said = shell_here("exec yes", stdout=write, **options)
    os.close(write)
    assert said == (141, "", lines(f"attempt 1 was killed by SIGPIPE; {told}"))


@slow
def test_a_reader_that_does_not_read_holds_up_no_time_out():
    """The second part finds some room, but not enough."""
    options = {"until_output": "never", "timeout": 4, "grace": SOON}
    script = "os.write(1, bytes(40_000)); waits(); os.write(1, bytes(60_000))"
    with Running(*talks(f"{script}; rests()"), **options) as running:
        eventually(lambda: unread(running.process.stdout) == 40_000, "the first part")
        running.go()
        assert running.wait() == 124
        assert running.nobody_left()
        assert set(running.out.rest()) == {0}


@slow
@pytest.mark.parametrize("stdout", [subprocess.PIPE, subprocess.DEVNULL])
def test_a_signal_ends_a_run_whose_output_nobody_reads_or_that_never_pauses(stdout):
    options = {"until_output": "never", "grace": SOON, "stdout": stdout}
    with shell("echo ready >&9; exec yes", **options) as running:
        running.until("ready")
        running.signal(signal.SIGTERM)
        assert running.wait() == 143
        assert running.nobody_left()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_told_and_ends_the_run():
    with Path("/dev/full").open("wb") as full:
        said = shell_here("seq 100000", stdout=full.fileno(), until_output="x")
    assert said == (1, "", f"Error: cannot go on: {os.strerror(errno.ENOSPC)}\n")

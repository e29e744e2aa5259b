"""`run --until-output`: what counts as a match, and that the output passes as it comes."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.calling import finish, start
from tests.cli.running import SOON, Running, shell, state, talks, unread
from tests.cli.terminals import on_terminal
from tests.helpers import eventually

NAME = "backoff-ticker"


def test_a_command_is_repeated_until_its_output_matches(tmp_path):
    script = f"echo x >>{tmp_path}/runs; echo run $(wc -l <{tmp_path}/runs)"
    with shell(script, until_output=r"^run\s+3$") as running:
        status, out, err = running.finish()
    assert (status, out.split()) == (0, ["run", "1", "run", "2", "run", "3"])
    assert err.splitlines() == [
        f"{NAME}: attempt 1 printed no match; next attempt in 0 s",
        f"{NAME}: attempt 2",
        f"{NAME}: attempt 2 printed no match; next attempt in 0 s",
        f"{NAME}: attempt 3",
        f"{NAME}: attempt 3 succeeded",
    ]


@pytest.mark.parametrize(
    ("script", "status", "attempts"),
    [
        ("echo ready", 0, 1),
        ("echo ready; exit 3", 3, 1),
        ("echo no", 1, 2),
        ("echo no; exit 3", 3, 2),
        ("echo ready >&2", 1, 2),
        (":", 1, 2),
    ],
)
def test_the_match_decides_and_the_exit_code_is_passed_on(script, status, attempts):
    with shell(f"echo x >&9; {script}", until_output="ready", max_attempts=2) as running:
        assert running.wait() == status
        assert running.told.rest() == b"x\n" * attempts


@pytest.mark.parametrize(("code", "attempts"), [(0, 2), (75, 2), (5, 1)])
def test_without_a_match_listed_codes_and_success_are_repeated(code, attempts):
    options = {"until_output": "ready", "on_exit_code": "75", "max_attempts": 2}
    with shell(f"echo x >&9; exit {code}", **options) as running:
        assert running.wait() == (code or 1)
        assert running.told.rest() == b"x\n" * attempts


def test_an_attempt_that_was_cut_is_repeated_even_if_it_matched():
    options = {"until_output": "ready", "attempt_timeout": 1, "max_attempts": 2}
    with shell("echo ready; sleep 1000; :", **options) as running:
        assert running.wait() == 124
        assert running.out.rest() == b"ready\n" * 2


def test_a_match_may_come_in_parts_and_nothing_is_held_back():
    read, write = os.pipe()
    script = "printf re; read x <&$GO; printf ady; read x <&$GO; exit 1".replace("<&", "</dev/fd/")
    with shell(script, how={"also": {"GO": read}}, until_output="^ready$") as running:
        os.close(read)
        running.out.until("re")
        os.write(write, b"\n")
        running.out.until("ady")
        os.write(write, b"\n")
        assert running.finish()[::2] == (1, f"{NAME}: attempt 1 succeeded\n")
    os.close(write)


def test_a_match_at_the_end_of_much_output_is_found_and_all_of_it_passes():
    with shell("seq 100000; printf '%s' ready", until_output="ready") as running:
        status, out, _ = running.finish()
    assert status == 0
    assert out == "".join(f"{number}\n" for number in range(1, 100_001)) + "ready"


def test_what_is_left_behind_with_the_output_open_is_not_waited_for():
    with shell("sleep 1000 & echo ready $!", until_output="ready") as running:
        left = int(running.out.until(r"ready (\d+)\n")[1])
        assert running.wait() == 0
        os.kill(left, signal.SIGKILL)


@pytest.mark.parametrize("options", [{}, {"until_output": "never"}, {"on_exit_code": "1"}])
def test_a_reader_that_is_gone_is_for_the_command_to_notice(options):
    """It gets SIGPIPE, also where a pipe of ours is between; then nothing is left to do."""
    read, write = os.pipe()
    os.close(read)
    with shell("exec yes", how={"stdout": write}, **options) as running:
        os.close(write)
        assert running.wait() == 141
        text = "attempt 1 was killed by SIGPIPE; nobody reads the output"
        assert running.err.rest().decode() == f"{NAME}: {text}\n"


def test_a_reader_that_is_gone_is_no_end_where_its_exit_code_is_listed():
    read, write = os.pipe()
    os.close(read)
    options = {"how": {"stdout": write}, "on_exit_code": "141", "max_attempts": 2}
    with shell("exec yes", **options) as running:
        os.close(write)
        assert running.wait() == 141
        assert b"attempt 2 was killed by SIGPIPE; giving up" in running.err.rest()


def test_a_broken_pipe_of_the_command_itself_is_repeated():
    with shell("kill -PIPE $$", max_attempts=2) as running:
        assert running.wait() == 141
        assert b"attempt 2 was killed by SIGPIPE; giving up" in running.err.rest()


def test_a_reader_that_has_enough_ends_the_run():
    with shell("exec yes") as running:
        running.out.until("y")
        running.process.stdout.close()
        assert running.wait() == 141
        assert b"; nobody reads the output\n" in running.err.rest()


def test_a_reader_that_does_not_read_holds_up_no_time_out():
    """The second part finds some room, but not enough."""
    options = {"until_output": "never", "timeout": 2, "grace": SOON}
    script = "os.write(1, b'x' * 40_000); os.read(0, 1); os.write(1, b'x' * 60_000)"
    how = {"stdin": subprocess.PIPE}
    with Running(*talks(f"{script}; rests()"), how=how, **options) as running:
        eventually(lambda: unread(running.process.stdout) == 40_000, "the first part")
        running.process.stdin.write(b"go")
        assert running.wait() == 124
        assert running.nobody_left()
        assert set(running.out.rest()) == set(b"x")


def test_what_is_still_in_the_pipe_when_a_command_ends_is_passed_on():
    script = "echo first; head -c 100000 /dev/zero; echo $$ >&9"
    with shell(script, until_output="first") as running:
        child = int(running.until(r"(\d+)\n")[1])
        eventually(lambda: not state(child), "the end of the command")
        assert running.out.rest() == b"first\n" + bytes(100_000)
        assert running.wait() == 0


def test_a_command_that_has_ended_while_nobody_reads_holds_up_no_time_out():
    """Its last output waits for room that never comes."""
    script = "echo ready >&9; head -c 100000 /dev/zero"
    with shell(script, until_output="never", timeout=1, grace=SOON) as running:
        assert running.wait() == 124


def test_an_output_that_never_pauses_holds_up_no_signal():
    options = {"until_output": "never", "how": {"stdout": subprocess.DEVNULL}}
    with shell("echo ready >&9; exec yes", **options) as running:
        running.until("ready")
        running.signal(signal.SIGTERM)
        assert running.wait() == 143


def test_stdout_may_be_a_file(tmp_path):
    with (tmp_path / "out").open("wb") as file:
        how = {"stdout": file}
        with shell("seq 50000", how=how, until_output="^50000$") as running:
            assert running.wait() == 0
    assert (tmp_path / "out").read_text().split()[-1] == "50000"


def test_stdout_may_be_non_blocking():
    read, write = os.pipe()
    os.set_blocking(write, False)
    with shell("seq 50000", how={"stdout": write}, until_output="^50000$") as running:
        os.close(write)
        with os.fdopen(read, "rb") as reader:
            out = reader.read()
        assert running.wait() == 0
    assert out == b"".join(b"%d\n" % number for number in range(1, 50_001))


def test_on_a_terminal_it_is_found_too():
    with on_terminal(*talks("print('rea' + 'dy')"), until_output="ready") as (running, screen):
        screen.until("ready")
        assert running.wait() == 0


def test_what_a_command_writes_at_its_end_is_passed_on():
    command = talks("hears(signal.SIGTERM)(); print('last words')")
    with Running(*command, until_output="never") as running:
        running.until("ready")
        running.signal(signal.SIGTERM)
        assert running.finish()[:2] == (143, "last words\n")


def test_a_slow_reader_gets_what_a_command_writes_at_its_end():
    command = talks("hears(signal.SIGTERM)(); os.write(1, bytes(100_000))")
    with Running(*command, until_output="never") as running:
        child = int(running.until(r"ready (\d+)\n")[1])
        running.signal(signal.SIGTERM)
        eventually(lambda: not state(child), "the end of the command")
        assert running.out.rest() == bytes(100_000)
        assert running.wait() == 143


def test_a_signal_ends_a_run_whose_output_nobody_reads():
    with shell("echo ready >&9; yes", until_output="never", grace=SOON) as running:
        running.until("ready")
        running.signal(signal.SIGTERM)
        assert running.wait() == 143
        assert running.nobody_left()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_told_and_ends_the_run():
    with Path("/dev/full").open("wb") as full:
        said = finish(start("run", "--until-output", "x", "--", "seq", "100000", stdout=full))
    told = os.strerror(errno.ENOSPC)
    assert (said.status, said.err) == (1, f"Error: cannot go on: {told}\n")

"""`run` with real commands: how often, how long, what comes through, what it exits with."""

from __future__ import annotations

import signal

import pytest

from tests.cli.running import Running, flaky, shell

NAME = "backoff-ticker"


# How often


def test_a_flaky_command_is_repeated_until_it_succeeds(tmp_path):
    with shell(flaky(tmp_path / "runs", 3)) as running:
        status, out, err = running.finish()
    assert (status, out) == (0, "")
    assert err.splitlines() == [
        f"{NAME}: attempt 1 exited with 3; next attempt in 0 s",
        f"{NAME}: attempt 2",
        f"{NAME}: attempt 2 exited with 3; next attempt in 0 s",
        f"{NAME}: attempt 3",
        f"{NAME}: attempt 3 exited with 3; next attempt in 0 s",
        f"{NAME}: attempt 4",
        f"{NAME}: attempt 4 succeeded",
    ]


def test_a_command_that_succeeds_runs_once(tmp_path):
    with shell(flaky(tmp_path / "runs", 0)) as running:
        assert running.finish() == (0, "", f"{NAME}: attempt 1 succeeded\n")
    assert (tmp_path / "runs").read_text() == "x\n"


@pytest.mark.parametrize("limit", [1, 2, 5])
@pytest.mark.parametrize("options", [{"max_attempts": 0}, {"max_retries": -1}])
def test_the_last_exit_code_is_passed_on_when_attempts_run_out(limit, options):
    options = {name: limit + less for name, less in options.items()}
    with shell("echo x; exit 7", **options) as running:
        status, out, err = running.finish()
    assert (status, out) == (7, "x\n" * limit)
    assert err.splitlines()[-1] == f"{NAME}: attempt {limit} exited with 7; giving up"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_command_that_a_signal_killed_counts_as_128_and_its_number(number):
    with shell(f"kill -{number:d} $$", max_attempts=2) as running:
        status, _, err = running.finish()
    assert status == 128 + number
    text = f"was killed by {number.name}"
    assert err.splitlines()[0] == f"{NAME}: attempt 1 {text}; next attempt in 0 s"
    assert err.splitlines()[-1] == f"{NAME}: attempt 2 {text}; giving up"


@pytest.mark.parametrize(
    ("codes", "attempts", "status"),
    [("1,75", 4, 2), ("1", 2, 75), ("75", 1, 1), ("1,75,2", 5, 0)],
)
def test_only_the_exit_codes_that_are_listed_are_repeated(tmp_path, codes, attempts, status):
    script = f'echo x >>{tmp_path}/runs; shift $(wc -l <{tmp_path}/runs); exit "$1"'
    with shell(script, "", "1", "75", "1", "2", "0", on_exit_code=codes) as running:
        got, _, err = running.finish()
    # The first word is shifted away once for each run, so the codes come in turn.
    runs = (tmp_path / "runs").read_text().count("x")
    assert (got, runs) == (status, attempts)
    if status:
        text = f"{NAME}: attempt {attempts} exited with {status}; not to be repeated"
        assert err.splitlines()[-1] == text


def test_a_signal_can_be_listed_as_exit_code():
    with shell("kill -KILL $$", on_exit_code="137", max_attempts=2) as running:
        assert running.wait() == 137
        assert b"attempt 2" in running.err.rest()


# What cannot be executed


@pytest.fixture
def unusable(tmp_path):
    (tmp_path / "plain").write_text("#!/bin/sh\n")
    (tmp_path / "broken").write_bytes(b"\x7fELF nonsense")
    (tmp_path / "broken").chmod(0o755)
    (tmp_path / "lost").write_text("#!/no/such/interpreter\n")
    (tmp_path / "lost").chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "status", "reason"),
    [
        ("no-such-command-anywhere", 127, "command not found"),
        ("{}/missing", 127, "command not found"),
        ("{}/lost", 127, "command not found"),
        ("{}/plain", 126, "Permission denied"),
        ("{}", 126, "Permission denied"),
        ("{}/broken", 126, "Exec format error"),
        ("{}/plain/below", 126, "Not a directory"),
    ],
)
@pytest.mark.parametrize("quiet", [False, True])
def test_what_cannot_be_executed_is_not_repeated(unusable, name, status, reason, quiet):
    name = name.format(unusable)
    with Running(name, delay=1000, quiet=quiet) as running:
        assert running.finish() == (status, "", f"Error: cannot run {name}: {reason}\n")


def test_a_command_that_vanishes_between_two_attempts_ends_the_run(tmp_path):
    command = tmp_path / "once"
    command.write_text('#!/bin/sh\nrm -- "$0"\nexit 3\n')
    command.chmod(0o755)
    with Running(str(command)) as running:
        status, _, err = running.finish()
    assert status == 127
    assert err.splitlines()[-1] == f"Error: cannot run {command}: command not found"


def test_a_process_that_cannot_even_be_begun_is_an_error_too():
    """Here because there may be no more descriptors than the run itself needs."""
    prelude = """
import resource, subprocess
begin = subprocess.Popen
def limited(*args, **options):
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
    return begin(*args, **options)
subprocess.Popen = limited
"""
    with Running("true", how={"prelude": prelude}) as running:
        text = "Error: cannot run a command: Too many open files\n"
        assert running.finish() == (126, "", text)


# In the same process

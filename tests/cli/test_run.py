"""`run` with real commands: how often, how long, what comes through, what it exits with."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.calling import run_here, shell_here
from tests.cli.running import SOON, Running, lines, shell, talks

slow = pytest.mark.slow
has_proc = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="no /proc")


# How often


def test_a_command_is_repeated_until_it_succeeds_and_finds_the_number_of_its_attempt(monkeypatch):
    monkeypatch.setenv("BACKOFF_TICKER_ATTEMPT", "x")
    script = 'echo "$BACKOFF_TICKER_ATTEMPT"; [ "$BACKOFF_TICKER_ATTEMPT" = 3 ] || exit 3'
    told = lines(
        "attempt 1 exited with 3; next attempt in 0 s",
        "attempt 2",
        "attempt 2 exited with 3; next attempt in 0 s",
        "attempt 3",
        "attempt 3 succeeded",
    )
    assert shell_here(script) == (0, "1\n2\n3\n", told)


TWICE = {"max_attempts": 2}
LISTED = {**TWICE, "on_exit_code": "75"}
SEARCHED = {**TWICE, "until_output": "ready"}


@pytest.mark.parametrize(
    ("script", "options", "status", "attempts", "last"),
    [
        ("exit 7", {"max_attempts": 3}, 7, 3, "exited with 7; giving up"),
        ("exit 7", {"max_retries": 2}, 7, 3, "exited with 7; giving up"),
        ("kill -TERM $$", TWICE, 143, 2, "was killed by SIGTERM; giving up"),
        ("kill -INT $$", {}, 130, 1, "was killed by SIGINT; interrupted"),
        ("kill -HUP $$", {}, 129, 1, "was killed by SIGHUP; interrupted"),
        ("exit 130", {}, 130, 1, "exited with 130; interrupted"),
        ("exit 2", {"on_exit_code": "1,75"}, 2, 1, "exited with 2; not to be retried"),
        ("exit 75", LISTED, 75, 2, "exited with 75; giving up"),
        ("exit 130", {**TWICE, "on_exit_code": 130}, 130, 2, "exited with 130; giving up"),
        (
            *("kill -KILL $$", {**TWICE, "on_exit_code": 137}, 137, 2),
            "was killed by SIGKILL; giving up",
        ),
        ("echo ready; exit 3", SEARCHED, 0, 1, "succeeded"),
        ("echo ready; kill -KILL $$", SEARCHED, 0, 1, "succeeded"),
        ("echo ready; kill -INT $$", SEARCHED, 130, 1, "was killed by SIGINT; interrupted"),
        ("echo ready; exit 130", SEARCHED, 130, 1, "exited with 130; interrupted"),
        ("echo ready; exit 130", {**SEARCHED, "on_exit_code": 130}, 0, 1, "succeeded"),
        ("echo no", SEARCHED, 1, 2, "printed no match; giving up"),
        ("echo ready >&2", SEARCHED, 1, 2, "printed no match; giving up"),
        (":", {**SEARCHED, **LISTED}, 1, 2, "printed no match; giving up"),
        ("exit 5", {**SEARCHED, **LISTED}, 5, 1, "exited with 5; not to be retried"),
        # An attempt that timed out has failed whatever codes are listed, and even if it matched
        # or ended well.
        *(
            pytest.param(script, {**more, "attempt_timeout": 1}, 124, 2, last, marks=slow)
            for script, more, last in [
                ("sleep 1000; :", LISTED, "timed out; giving up"),
                ("echo ready; sleep 1000; :", SEARCHED, "timed out; giving up"),
                ("trap 'exit 0' TERM; sleep 1000 & wait", TWICE, "timed out; giving up"),
            ]
        ),
    ],
)
def test_the_end_of_a_command_decides_what_follows(script, options, status, attempts, last):
    said = shell_here(f"echo x; {script}", **options)
    assert (said.status, said.out.count("x")) == (status, attempts)
    assert said.err.splitlines()[-1] == f"backoff-ticker: attempt {attempts} {last}"


# What cannot be executed


LINE = "'echo hi | grep x'"


@pytest.mark.parametrize(
    ("name", "status", "told"),
    [
        ("no-such-command-anywhere", 127, "no-such-command-anywhere: command not found"),
        ("/etc/passwd", 126, "/etc/passwd: Permission denied"),
        ("/", 126, "/: Permission denied"),
        ("", 127, "'': command not found"),
        (
            *("echo hi | grep x", 127),
            f"{LINE}: command not found; no shell reads it: is sh -c {LINE} meant?",
        ),
    ],
)
def test_what_cannot_be_executed_is_told_and_not_repeated(name, status, told):
    said = run_here(name, delay=1000, quiet=True)
    assert said == (status, "", f"Error: cannot run {told}\n")


# How long


def test_an_attempt_that_never_ends_is_ended_and_repeated():
    with shell("sleep 1000; :", attempt_timeout=SOON, max_attempts=2) as running:
        told = lines(
            "attempt 1 timed out; next attempt in 0 s",
            "attempt 2 of 2",
            "attempt 2 timed out; giving up",
        )
        assert running.finish() == (124, "", told)
        assert running.nobody_left()


def test_a_command_that_ignores_sigterm_is_killed_with_its_children():
    ignored = "signal.SIGINT, signal.SIGTERM, signal.SIGHUP"
    command = talks(f"rests_in_the_background({ignored}); rests({ignored})")
    with Running(*command, grace=SOON, attempt_timeout=1, max_attempts=1) as running:
        assert running.wait() == 124
        assert running.nobody_left()


@pytest.mark.parametrize(
    ("script", "options", "told"),
    [
        ("sleep 1000; :", {"timeout": SOON}, "timed out"),
        ("sleep 1000; :", {"timeout": SOON, "attempt_timeout": 1000}, "timed out"),
        (
            *("exit 3", {"timeout": 100, "delay": 1000}),
            "attempt 1 exited with 3; no time for another attempt",
        ),
    ],
)
def test_the_time_for_everything_ends_an_attempt_and_no_wait_begins_beyond_it(
    script, options, told
):
    assert shell_here(script, **options) == (124, "", lines(told))


# What comes through


def test_arguments_stdin_and_output_reach_and_leave_the_command_as_they_are():
    words = ["", "a b", "$HOME", "*", ";", "`id`", '"', "'", "\\", "ä\n", "-x", "--"]
    script = r"""
import json, sys
tell(json.dumps([sys.argv[1:], os.read(0, 3).decode()]) + "\n")
sys.stderr.buffer.write(b"\xff\0" * 500)
sys.stdout.buffer.write(bytes(range(256)) * 1000)
raise SystemExit(1)
"""
    options = {"stdin": subprocess.PIPE, "max_attempts": 2, "quiet": True}
    with Running(*talks(script), *words, **options) as running:
        running.process.stdin.write(b"onetwo")
        running.process.stdin.close()
        assert json.loads(running.until(r".*\n")[0]) == [words, "one"]
        assert running.out.rest() == bytes(range(256)) * 2000
        assert running.err.rest() == b"\xff\0" * 1000
        assert json.loads(running.until(r".*\n")[0]) == [words, "two"]
        assert running.wait() == 1


USED_UP = "stdin is used up; --keep-stdin keeps it for each attempt"


def test_a_file_on_stdin_is_read_anew_by_each_attempt_from_where_it_stood(tmp_path):
    (tmp_path / "in").write_text("first\nsecond\n")
    with (tmp_path / "in").open("rb", buffering=0) as file:
        os.lseek(file.fileno(), len("first\n"), os.SEEK_SET)
        said = shell_here("cat; exit 1", stdin=file.fileno(), max_attempts=3)
    assert said[:2] == (1, "second\n" * 3)
    assert USED_UP not in said.err


def a_pipe_with(content):
    read, write = os.pipe()
    os.write(write, content)
    os.close(write)
    return read


@pytest.mark.parametrize(
    ("given", "script", "options", "out", "said"),
    [
        (b"x", "cat; exit 1", {}, "x", 1),
        (b"x", "cat; exit 1", {"keep_stdin": True}, "xxx", 0),
        (b"", "cat; exit 1", {}, "", 0),  # there never was anything
        (b"x", "exit 1", {}, "", 0),  # it is still there
    ],
)
def test_a_pipe_on_stdin_is_used_up_once_unless_it_is_kept(given, script, options, out, said):
    read = a_pipe_with(given)
    status, printed, err = shell_here(script, stdin=read, max_attempts=3, **options)
    os.close(read)
    assert (status, printed, err.count(USED_UP)) == (1, out, said)


def test_other_descriptors_come_through_too():
    """Such as those of ``<(...)`` in a shell."""
    read = a_pipe_with(b"hello\n")
    os.set_inheritable(read, True)
    assert shell_here(f"cat /dev/fd/{read}")[:2] == (0, "hello\n")
    os.close(read)


@has_proc
@pytest.mark.parametrize("options", [{}, pytest.param({"until_output": "x"}, marks=slow)])
def test_the_command_has_no_descriptor_of_ours(options):
    script = "print(*os.listdir('/proc/self/fd')); print(os.environ['TELL'], os.environ['GO'])"
    with Running(*talks(script), quiet=True, max_attempts=3, **options) as running:
        found, ours, *_ = running.finish()[1].splitlines()
    # One is that of the folder that is read.
    assert len({*found.split()} - {"0", "1", "2", "9", *ours.split()}) == 1


@has_proc
def test_attempts_leave_no_descriptor_of_ours_open():
    script = "echo $(ls /proc/$PPID/fd | wc -l); exit 1"
    said = shell_here(script, max_attempts=16, until_output="never")
    first, *_, last = map(int, said.out.split())
    assert last < first + 10  # some may still be closed as the command starts


@pytest.mark.parametrize("options", [{}, pytest.param({"until_output": "never"}, marks=slow)])
@pytest.mark.parametrize("closed", ["2>&-", pytest.param("<&- >&- 2>&-", marks=slow)])
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
    with Running(*talks(script), before=before, max_attempts=2, **options) as running:
        assert running.wait() == 3
        found = running.told.rest().decode()
    left = {"2>&-": "01", "<&- >&- 2>&-": "1" if options else ""}  # if searched, 1 is a pipe
    assert found == left[closed] * 2


@slow
def test_progress_and_warnings_survive_a_reader_that_is_gone():
    read, write = os.pipe()
    os.close(read)
    with shell("exit 3", stderr=write, max_attempts=2) as running:
        assert running.wait() == 3
    os.close(write)


@slow
@pytest.mark.parametrize("options", [{}, {"until_output": "done"}])
@pytest.mark.parametrize("status", [0, 3])
def test_what_a_command_leaves_behind_is_left_alone(options, status):
    script = f"(read line </dev/fd/$GO; echo went >&9) & echo done; exit {status}"
    with shell(script, max_attempts=1, quiet=True, **options) as running:
        assert running.out.until("done")
        assert running.wait() == (0 if options else status)
        assert not running.nobody_left(0.05)
        running.go()
        running.until("went")

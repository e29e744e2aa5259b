"""`run` on a terminal: who gets what is typed, what it shows."""

import re
import signal
import subprocess
import sys

import pytest

from tests.cli.running import SOON, state, talks, unread
from tests.cli.terminals import (
    ASKS,
    CONTROLLING,
    CTRL_BACKSLASH,
    CTRL_C,
    CTRL_Z,
    LEADER,
    SHELL,
    answer,
    on_terminal,
)
from tests.helpers import eventually

slow = pytest.mark.slow


@slow
def test_each_attempt_can_read_the_terminal():
    with on_terminal(*talks(f"{ASKS}\nraise SystemExit(1)"), max_attempts=2) as (running, screen):
        answer(running, screen)
        answer(running, screen)
        assert running.wait() == 1


@pytest.mark.parametrize(
    ("key", "name", "status"),
    [(CTRL_C, "SIGINT", 130), pytest.param(CTRL_BACKSLASH, "SIGQUIT", 131, marks=slow)],
)
def test_ctrl_c_in_an_attempt_ends_the_command_and_the_run(key, name, status):
    with on_terminal(*talks("rests()")) as (running, screen):
        running.until("ready")
        screen.type(key)
        screen.until(f"attempt 1 was killed by {name}; interrupted")
        assert running.wait() == status
        assert running.nobody_left()


@slow
def test_what_a_command_makes_of_ctrl_c_is_its_own_affair():
    """It has heard it from the terminal, so nobody hurries it; it may even go on."""
    hears = "wait = hears(signal.SIGINT); wait(); tell('heard')"
    with on_terminal(*talks(f"{hears}\n{ASKS}"), grace=0) as (running, screen):
        running.until("ready")
        screen.type(CTRL_C)
        running.until("heard")
        answer(running, screen)
        screen.until("attempt 1 succeeded")
        assert running.wait() == 0
    options = {"max_attempts": 2, "delay": 1000}
    with on_terminal(*talks(f"{hears}; raise SystemExit(3)"), **options) as (running, screen):
        running.until("ready")
        screen.type(CTRL_C)
        screen.until("attempt 1 exited with 3")
        screen.until("next attempt in 1000 s")
        screen.type(CTRL_C)
        screen.until("ended by SIGINT")
        assert running.wait() == 130


TYPED_AS_IT_STARTS = f"""{CONTROLLING}
import os, signal, subprocess
class Popen(subprocess.Popen):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        os.kill(0, signal.SIGINT)
subprocess.Popen = Popen
"""


@slow
def test_ctrl_c_reaches_a_command_that_is_just_starting():
    with on_terminal("sleep", "1000", prelude=TYPED_AS_IT_STARTS) as (running, _):
        assert running.wait() == 130
        assert running.nobody_left()


@slow
def test_ctrl_c_ends_a_run_whose_output_nobody_reads():
    """The rest of the output is waited for, but not for long."""
    options = {"until_output": "never", "grace": SOON, "stdout": subprocess.PIPE}
    command = ("sh", "-c", "echo $$ >&9; exec yes")
    with on_terminal(*command, **options) as (running, screen):
        child = int(running.until(r"(\d+)\n")[1])
        eventually(lambda: unread(running.process.stdout) > 60_000, "a full pipe")
        screen.type(CTRL_C)
        eventually(lambda: not state(child), "the end of the command")
        screen.type(CTRL_C)
        assert running.wait() == 130
        assert running.nobody_left()


@slow
@pytest.mark.parametrize("options", [{}, {"until_output": "never"}])
def test_a_terminal_that_is_closed_ends_the_command_and_the_run(options):
    """The kernel tells the foreground group, and the leader of the session, which is a shell."""
    leader = {"before": (sys.executable, "-c", LEADER), "prelude": ""}
    with on_terminal(*talks("rests()"), **leader, **options) as (running, screen):
        running.until("ready .*\n")
        screen.close()
        running.until("status 129")
        assert running.told.rest() == b"\n"


WITHOUT_PS = {"prelude": f"{CONTROLLING}import os; os.environ['PATH'] = ''\n"}


@slow
@pytest.mark.parametrize(
    ("script", "options"),
    [
        ("rests_in_the_background(); rests()", {}),
        ("rests_in_the_background(signal.SIGTERM); rests()", {}),
        ("rests()", WITHOUT_PS),
    ],
)
def test_a_time_limit_ends_all_that_the_command_has_started(script, options):
    limits = {"attempt_timeout": 1, "max_attempts": 1, "grace": SOON}
    with on_terminal(*talks(script), **limits, **options) as (running, screen):
        screen.until("attempt 1 timed out; giving up")
        assert running.wait() == 124
        assert running.nobody_left()


def test_ctrl_z_stops_both_and_the_shell_continues_them():
    script = "tell('%d\\n' % os.getpid())"
    options = {"before": (sys.executable, "-c", SHELL), "prelude": "", "go": True}
    with on_terminal(*talks(f"{script}\n{ASKS}"), **options) as (running, screen):
        child = int(running.until(r"(\d+)\n")[1])
        screen.type(CTRL_Z)
        running.until(f"stopped {signal.SIGTSTP:d}\n")
        eventually(lambda: state(child).startswith("T"), "the command's stop")
        running.signal(signal.SIGUSR1)
        screen.type(b"hello\n")
        screen.until("got hello")
        assert running.wait() == 0


@slow
@pytest.mark.parametrize(
    ("options", "shown", "left_out"),
    [
        ({}, rb"\x1b\[31m", b"\0"),
        ({"NO_COLOR": "1"}, b"giving up", b"\x1b"),
        ({"TERM": "dumb", "max_attempts": 2}, b"2 exited .*giving up", b"\x1b"),
        ({"quiet": True}, b"^$", b" "),
        ({"stderr": subprocess.PIPE}, b"giving up", b"\x1b"),
    ],
)
def test_colours_are_there_where_the_terminal_takes_them(options, shown, left_out):
    with on_terminal("false", **{"max_attempts": 1, **options}) as (running, screen):
        said = (running.err or screen).rest()
        assert running.wait() == 1
    assert re.search(shown, said)
    assert left_out not in said

"""`run` on a terminal: who has it, and what it shows."""

from __future__ import annotations

import os
import signal
import subprocess
import termios

import pytest

from tests.cli.running import children, is_stopped, talks
from tests.cli.terminals import (
    ASKS,
    CONTROLLING,
    CTRL_C,
    answer,
    command_in_front,
    on_terminal,
    suspend,
    talking_on_terminal,
    talking_under_shell,
    under_shell,
)
from tests.helpers import eventually

# Who has the terminal


def test_the_command_has_the_terminal_and_reads_from_it():
    with talking_on_terminal(ASKS) as (running, screen):
        assert screen.foreground() != running.process.pid
        answer(screen)
        assert running.wait() == 0


def test_a_command_that_asks_before_it_has_the_terminal_gets_it():
    """However late it is lent: stopped for it, the command is continued once it may read."""
    late = """
import os
from backoff_ticker.cli._terminal import Terminal
offer = Terminal.offer
def late(self, group):
    os.waitid(os.P_PID, group, os.WSTOPPED | os.WNOWAIT)
    offer(self, group)
Terminal.offer = late
"""
    script = "import sys; print('got', sys.stdin.readline().strip())"
    how = {"prelude": CONTROLLING + late}
    with on_terminal(*talks(script), how=how) as (running, screen):
        answer(screen)
        assert running.wait() == 0


def test_the_terminal_is_ours_again_in_a_wait():
    with on_terminal("sh", "-c", "exit 3", delay=1000) as (running, screen):
        screen.until("attempt 1 exited with 3")
        screen.until("next attempt in 1000 s")
        assert screen.foreground() == running.process.pid


def test_each_attempt_has_the_terminal():
    script = f"{ASKS}\nraise SystemExit(1)"
    with on_terminal(*talks(script), max_attempts=3) as (running, screen):
        for number in range(3):
            command_in_front(running, screen)
            screen.type(b"%d\n" % number)
            screen.until(f"got {number}")
        assert running.wait() == 1


@pytest.mark.parametrize("status", [0, 3])
def test_a_shell_finds_the_terminal_as_it_left_it(status):
    script = f"{ASKS}\nraise SystemExit({status})"
    with talking_under_shell(script, max_attempts=1) as (running, screen, shell):
        answer(screen)
        shell.told.until("^its turn")
        assert running.wait() == status


def test_a_killed_command_leaves_the_modes_of_the_terminal_as_they_were():
    script = "import tty; tty.setraw(0); tell('raw'); signal.pause()"
    with on_terminal(*talks(script), delay=1000) as (running, screen):
        before = termios.tcgetattr(screen.descriptor)
        running.until("raw")
        assert termios.tcgetattr(screen.descriptor) != before
        os.killpg(screen.foreground(), signal.SIGKILL)
        screen.until("next attempt")
        assert termios.tcgetattr(screen.descriptor) == before
        screen.type(CTRL_C)
        assert running.wait() == 130


def test_modes_that_a_command_sets_and_leaves_stay():
    script = "import tty; tty.setcbreak(0)"
    with on_terminal(*talks(script)) as (running, screen):
        before = termios.tcgetattr(screen.descriptor)
        assert running.wait() == 0
        assert termios.tcgetattr(screen.descriptor) != before


@pytest.mark.parametrize("options", [{}, {"until_output": "ready"}])
def test_output_passes_also_where_only_the_foreground_may_write(options):
    """Such as a command whose output we write ourselves, while it is in the foreground."""
    script = "input(); print('rea' + 'dy')"
    with on_terminal(*talks(f"tell('ready %d\\n' % os.getpgrp()); {script}"), **options) as (
        running,
        screen,
    ):
        command_in_front(running, screen)
        modes = termios.tcgetattr(screen.descriptor)
        modes[3] |= termios.TOSTOP
        termios.tcsetattr(screen.descriptor, termios.TCSANOW, modes)
        screen.type(b"\n")
        screen.until("ready")
        screen.until("attempt 1 succeeded")
        assert running.wait() == 0


# In a pipeline, where others of our group may want the terminal


@pytest.fixture
def piped():
    """A pipe that reaches the run as its stdout."""
    read, write = os.pipe()
    yield write
    os.close(read)
    os.close(write)


def test_in_a_pipeline_the_terminal_stays_with_our_group(piped):
    with on_terminal(*talks("rests()"), how={"stdout": piped}) as (running, screen):
        running.until("ready")
        assert screen.foreground() == running.process.pid
        assert len(children(running)) == 1
        screen.type(CTRL_C)
        assert running.wait() == 130
        assert running.nobody_left()


def test_in_a_pipeline_a_command_that_asks_for_the_terminal_gets_it(piped):
    script = ASKS.replace("print(", "tell('%s %s' % (").replace(", flush=True)", "))")
    with talking_on_terminal(script, how={"stdout": piped}) as (running, screen):
        assert screen.foreground() != running.process.pid
        screen.type(b"hello\n")
        running.until("got hello")
        assert running.wait() == 0


def test_ctrl_z_in_a_pipeline_stops_the_command_too(piped):
    how = {"stdout": piped}
    with under_shell("foreground", *talks("rests()"), how=how) as (running, screen, shell):
        child = int(running.until(r"ready (\d+)\n")[1])
        suspend(screen, shell)
        eventually(lambda: is_stopped(child), "the command's stop")
        shell.resume("foreground")
        eventually(lambda: not is_stopped(child), "the command goes on")
        screen.type(CTRL_C)
        assert running.wait() == 130


# What it shows


def test_output_for_a_closed_stdout_goes_nowhere_else():
    """Such as to the terminal, which could be opened in its place."""
    how = {"before": ("sh", "-c", 'exec "$@" >&-', "sh")}
    command = talks("print('lost'); tell('done')")
    with on_terminal(*command, how=how, until_output="lost") as (running, screen):
        running.until("done")
        assert running.wait() == 0
        assert b"lost" not in screen.rest()


def test_the_wait_is_counted_down():
    with on_terminal("false", delay=1.5) as (running, screen):
        screen.until("attempt 1 exited with 1\x1b?")
        screen.until("next attempt in 2 s")
        screen.until("next attempt in 1 s")
        screen.until("attempt 2")
        screen.until("next attempt in 2 s")
        screen.type(CTRL_C)
        assert running.wait() == 130


def test_quiet_shows_nothing():
    with on_terminal("sh", "-c", "exit 3", quiet=True, max_attempts=2) as (running, screen):
        assert running.wait() == 3
        assert screen.rest() == b""


def test_without_a_terminal_on_stderr_it_writes_plain_lines():
    how = {"stderr": subprocess.PIPE}
    with on_terminal("false", max_attempts=2, delay=0.5, how=how) as (running, screen):
        assert running.wait() == 1
        assert running.err.rest().decode().splitlines() == [
            "backoff-ticker: attempt 1 exited with 1; next attempt in 0.5 s",
            "backoff-ticker: attempt 2 of 2",
            "backoff-ticker: attempt 2 exited with 1; giving up",
        ]
        assert screen.rest() == b""

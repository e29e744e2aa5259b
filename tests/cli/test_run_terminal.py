"""`run` on a terminal: who has it, Ctrl-C, Ctrl-Z, what it shows."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import termios

import pytest

from tests.cli.running import SOON, children_of, is_stopped, talks, unread
from tests.cli.terminals import (
    ASKS,
    CONTROLLING,
    CTRL_BACKSLASH,
    CTRL_C,
    CTRL_Z,
    LEADER,
    answer,
    command_in_front,
    on_terminal,
    orphaned,
    suspend,
    talking_on_terminal,
    talking_under_shell,
    under_shell,
)
from tests.helpers import eventually

slow = pytest.mark.slow


# Who has the terminal


def test_each_attempt_has_the_terminal_from_its_start():
    script = f"assert os.tcgetpgrp(0) == os.getpgrp()\n{ASKS}\nraise SystemExit(1)"
    with on_terminal(*talks(script), max_attempts=2) as (running, screen):
        for number in range(2):
            command_in_front(running, screen)
            screen.type(b"%d\n" % number)
            screen.until(f"got {number}")
        assert running.wait() == 1


@slow
@pytest.mark.parametrize("status", [0, 3])
def test_a_shell_finds_the_terminal_as_it_left_it(status):
    script = f"{ASKS}\nraise SystemExit({status})"
    with talking_under_shell(script, max_attempts=1) as (running, screen, shell):
        answer(screen)
        shell.told.until("^its turn")
        assert running.wait() == status


@slow
def test_a_shell_finds_it_after_a_command_that_took_too_long_or_cannot_be_executed():
    options = {"attempt_timeout": SOON, "max_attempts": 1}
    with under_shell("foreground", *talks("rests()"), **options) as (running, _, shell):
        shell.told.until("^its turn")
        assert running.wait() == 124
        assert running.nobody_left()
    with under_shell("foreground", "/no/such/command") as (running, _, shell):
        shell.told.until("^its turn")
        assert running.wait() == 127


def test_a_killed_command_leaves_the_modes_of_the_terminal_as_they_were():
    script = "import tty; tty.setraw(0); tell('raw'); signal.pause()"
    with on_terminal(*talks(script), delay=1000) as (running, screen):
        before = termios.tcgetattr(screen.descriptor)
        running.until("raw")
        assert termios.tcgetattr(screen.descriptor) != before
        os.killpg(screen.foreground(), signal.SIGKILL)
        screen.until("next attempt in 1000 s")
        assert termios.tcgetattr(screen.descriptor) == before
        assert screen.foreground() == running.process.pid
        screen.type(CTRL_C)
        screen.until("ended by SIGINT")
        assert running.wait() == 130


@slow
def test_modes_that_a_command_sets_and_leaves_stay():
    script = "import tty; tty.setcbreak(0)"
    with on_terminal(*talks(script)) as (running, screen):
        before = termios.tcgetattr(screen.descriptor)
        assert running.wait() == 0
        assert termios.tcgetattr(screen.descriptor) != before


@slow
@pytest.mark.parametrize("options", [{}, {"until_output": "ready"}])
def test_output_passes_also_where_only_the_foreground_may_write(options):
    """Such as a command whose output we write ourselves, while it is in the foreground."""
    script = "tell('ready %d\\n' % os.getpgrp()); input(); print('rea' + 'dy')"
    with on_terminal(*talks(script), **options) as (running, screen):
        command_in_front(running, screen)
        modes = termios.tcgetattr(screen.descriptor)
        modes[3] |= termios.TOSTOP
        termios.tcsetattr(screen.descriptor, termios.TCSANOW, modes)
        screen.type(b"\n")
        screen.until("ready")
        screen.until("attempt 1 succeeded")
        assert running.wait() == 0


@slow
def test_output_for_a_closed_stdout_goes_nowhere_else():
    """Such as to the terminal, which could be opened in its place."""
    how = {"before": ("sh", "-c", 'exec "$@" >&-', "sh")}
    command = talks("print('lost'); tell('done')")
    with on_terminal(*command, how=how, until_output="lost") as (running, screen):
        running.until("done")
        assert running.wait() == 0
        assert b"lost" not in screen.rest()


# In a pipeline, where others of our group may want the terminal


@pytest.fixture
def piped():
    """A pipe that reaches the run as its stdout."""
    read, write = os.pipe()
    yield write
    os.close(read)
    os.close(write)


@slow
def test_in_a_pipeline_the_terminal_stays_with_our_group(piped):
    with on_terminal(*talks("rests()"), how={"stdout": piped}) as (running, screen):
        running.until("ready")
        assert screen.foreground() == running.process.pid
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


@slow
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


# Ctrl-C, and terminals that are closed


def test_ctrl_c_in_an_attempt_ends_the_command_and_the_run():
    with talking_on_terminal("rests()") as (running, screen):
        screen.type(CTRL_C)
        screen.until("attempt 1 was killed by SIGINT; interrupted")
        assert running.wait() == 130
        assert running.nobody_left()


@slow
def test_ctrl_backslash_does_so_too():
    with talking_on_terminal("rests()") as (running, screen):
        screen.type(CTRL_BACKSLASH)
        assert running.wait() == 131


@slow
def test_what_a_command_makes_of_ctrl_c_is_its_own_affair():
    """It has heard it from the terminal, so nobody hurries it; it may even go on."""
    script = "wait = hears(signal.SIGINT); wait(); tell('heard'); print('got', input())"
    with talking_on_terminal(script, grace=0) as (running, screen):
        screen.type(CTRL_C)
        running.until("heard")
        answer(screen)
        screen.until("attempt 1 succeeded")
        assert running.wait() == 0
    script = "wait = hears(signal.SIGINT); wait(); raise SystemExit(3)"
    with talking_on_terminal(script, max_attempts=2, delay=1000) as (running, screen):
        screen.type(CTRL_C)
        screen.until("attempt 1 exited with 3")
        screen.until("next attempt in 1000 s")
        screen.type(CTRL_C)
        assert running.wait() == 130


def test_ctrl_c_ends_a_run_whose_output_nobody_reads():
    """The rest of the output is waited for, but not for long."""
    options = {"until_output": "never", "grace": SOON, "how": {"stdout": subprocess.PIPE}}
    with on_terminal("yes", **options) as (running, screen):
        eventually(lambda: unread(running.process.stdout) > 60_000, "a full pipe")
        screen.type(CTRL_C)
        assert running.wait() == 130
        assert running.nobody_left()


@slow
def test_ctrl_c_that_is_ignored_stays_ignored():
    script = "tell('ready %d\\n' % os.getpgrp()); input(); raise SystemExit(3)"
    options = {"ignored": [signal.SIGINT], "max_attempts": 2}
    with on_terminal(*talks(script), **options) as (running, screen):
        for _ in range(2):
            command_in_front(running, screen)
            screen.type(CTRL_C + b"\n")
        assert running.wait() == 3


@slow
@pytest.mark.parametrize("options", [{}, {"until_output": "never"}])
def test_a_terminal_that_is_closed_ends_the_command_and_the_run(options):
    """The kernel tells the foreground group, and the leader of the session, which is a shell."""
    how = {"before": (sys.executable, "-c", LEADER), "prelude": ""}
    with on_terminal(*talks("rests()"), how=how, **options) as (running, screen):
        command_in_front(running, screen)
        screen.close()
        running.until("status 129")
        assert running.told.rest() == b"\n"


@slow
def test_a_terminal_that_is_closed_in_a_wait_ends_the_run():
    how = {"before": (sys.executable, "-c", LEADER), "prelude": ""}
    with on_terminal("false", how=how, delay=1000) as (running, screen):
        screen.until("next attempt in 1000 s")
        screen.close()
        running.until("status 129")


# Job control


def test_ctrl_z_stops_the_run_and_the_shell_continues_it():
    with talking_under_shell(ASKS) as (running, screen, shell):
        suspend(screen, shell)
        shell.resume("foreground")
        answer(screen)
        assert running.wait() == 0


@slow
def test_ctrl_z_in_a_wait_stops_the_run_and_the_shell_continues_it():
    with under_shell("foreground", "false", delay=1000) as (running, screen, shell):
        screen.until("next attempt in 1000 s")
        suspend(screen, shell)
        shell.resume("foreground")
        eventually(lambda: screen.foreground() != running.process.pid, "the run's turn")
        screen.type(CTRL_C)
        assert running.wait() == 130


TYPED_IN_A_FORK = """
import os, signal, subprocess
forks, starting = subprocess._fork_exec, []
def fork(*arguments):
    starting.append(True)
    try:
        return forks(*arguments)
    finally:
        starting.clear()
subprocess._fork_exec = fork
os.register_at_fork(after_in_child=lambda: starting and os.kill(0, signal.SIGTSTP))
"""
"""Ctrl-Z reaches the new process, too: it is still in our group."""


@slow
def test_ctrl_z_as_an_attempt_starts_stops_both():
    how = {"prelude": TYPED_IN_A_FORK}
    with under_shell("foreground", *talks(ASKS), how=how) as (running, screen, shell):
        assert shell.stopped() == signal.SIGTSTP
        (run,) = children_of(running.process.pid)
        eventually(lambda: any(map(is_stopped, children_of(run))), "the command's stop")
        shell.resume("foreground")
        command_in_front(running, screen)
        answer(screen)
        assert running.wait() == 0


@slow
@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGTSTP], ids=str)
def test_a_command_that_somebody_stops_stops_the_run(number):
    with talking_under_shell(ASKS) as (running, screen, shell):
        os.kill(screen.foreground(), number)
        assert shell.stopped() == signal.SIGTSTP
        shell.resume("foreground")
        answer(screen)
        assert running.wait() == 0


@slow
def test_a_run_that_somebody_stops_stops_the_command():
    with talking_under_shell(ASKS) as (running, screen, shell):
        child = screen.foreground()
        (run,) = children_of(running.process.pid)
        os.kill(run, signal.SIGTSTP)
        assert shell.stopped() == signal.SIGTSTP
        eventually(lambda: is_stopped(child), "the command's stop")
        shell.resume("foreground")
        eventually(lambda: screen.foreground() == child, "the command's turn")
        answer(screen)
        assert running.wait() == 0


@slow
def test_in_the_background_a_command_that_reads_waits_until_it_is_brought_to_the_front():
    with under_shell("background", *talks(ASKS)) as (running, screen, shell):
        assert shell.stopped() == signal.SIGTSTP
        assert screen.foreground() == running.process.pid
        shell.resume("background")
        assert shell.stopped() == signal.SIGTSTP
        shell.resume("foreground")
        answer(screen)
        assert running.wait() == 0


@slow
def test_in_the_background_a_command_that_reads_when_it_should_end_is_ended():
    script = "signal.signal(signal.SIGTERM, lambda *_: open('/dev/tty').read()); signal.pause()"
    options = {"attempt_timeout": 1, "grace": SOON, "max_attempts": 1}
    with under_shell("background", *talks(script), **options) as (running, _, __):
        assert running.wait() == 124
        assert running.nobody_left()


@slow
def test_a_run_that_was_sent_to_the_background_leaves_the_terminal_to_the_shell():
    with talking_under_shell("rests()") as (running, screen, shell):
        child = screen.foreground()
        suspend(screen, shell)
        shell.resume("background")
        eventually(lambda: not is_stopped(child), "the command goes on")
        assert screen.foreground() == running.process.pid
        os.killpg(child, signal.SIGINT)
        assert running.wait() == 130


@slow
def test_without_a_shell_ctrl_z_does_nothing():
    """As if the command ran alone: nobody could continue it."""
    with talking_on_terminal(ASKS) as (running, screen):
        screen.type(CTRL_Z)
        answer(screen)
        assert running.wait() == 0


@slow
@pytest.mark.parametrize(
    ("before", "killed_by"),
    [("", "SIGHUP"), ("[signal.signal(n, signal.SIG_IGN) for n in (1, 15)]", "SIGKILL")],
)
def test_with_nobody_to_bring_it_to_the_front_a_command_that_reads_is_ended(before, killed_by):
    """As the kernel ends stopped groups that have been orphaned."""
    with orphaned(f"{before}{ASKS}", grace=SOON, max_attempts=1) as (running, screen):
        screen.until(f"attempt 1 was killed by {killed_by}; ")
        assert running.wait() == 0
        assert running.nobody_left()


TYPES_AS_IT_STARTS = f"""{CONTROLLING}
import os, signal
from backoff_ticker.cli._terminal import Terminal
lend = Terminal.lend
def lend_and_type(self, group):
    lend(self, group)
    if group == os.getpid():
        os.kill(group, signal.SIGINT)
Terminal.lend = lend_and_type
"""


def test_ctrl_c_reaches_a_command_that_has_the_terminal_and_is_just_starting():
    with on_terminal("true", how={"prelude": TYPES_AS_IT_STARTS}) as (running, _):
        assert running.wait() == 130


# What it shows


def test_the_wait_is_counted_down():
    with on_terminal("false", delay=2.5) as (running, screen):
        screen.until("attempt 1 exited with 1")
        # Before the second end, the terminal may be that of `false`.
        shown = screen.until(r"(?s)(.*)attempt 2 exited with 1")[1]
        seconds = [int(number) for number in re.findall(rb"next attempt in (\d+) s", shown)]
        assert 3 >= seconds[0] > seconds[-1] >= 1  # on a busy machine one may be left out
        assert seconds == sorted(seconds, reverse=True)
        screen.type(CTRL_C)
        assert running.wait() == 130


def test_the_countdown_erases_its_line_without_colours_too():
    """Else ``10 s`` would leave a letter behind ``9 s``."""
    how = {"also": {"NO_COLOR": "1"}}
    with on_terminal("false", delay=1000, how=how) as (running, screen):
        screen.until("attempt 1 exited with 1")
        screen.until(r"\r\x1b\[2Knext attempt in 1000 s")
        screen.type(CTRL_C)
        assert running.wait() == 130


@slow
def test_a_dumb_terminal_gets_neither_colours_nor_a_countdown():
    how = {"also": {"TERM": "dumb"}}
    with on_terminal("false", max_attempts=2, how=how) as (_, screen):
        shown = screen.rest()
    assert b"attempt 2 exited with 1; giving up" in shown
    assert b"\x1b" not in shown


@slow
def test_quiet_shows_nothing():
    with on_terminal("sh", "-c", "exit 3", quiet=True, max_attempts=2) as (running, screen):
        assert running.wait() == 3
        assert screen.rest() == b""


@slow
def test_colours_are_there_on_a_terminal_only_and_not_with_no_color():
    with on_terminal("false", max_attempts=1) as (_, screen):
        assert b"\x1b[31m" in screen.rest()
    with on_terminal("false", max_attempts=1, how={"also": {"NO_COLOR": "1"}}) as (_, screen):
        assert b"\x1b[" not in screen.rest()
    with on_terminal("false", max_attempts=1, how={"stderr": subprocess.PIPE}) as (running, _):
        assert running.err.rest() == b"backoff-ticker: attempt 1 exited with 1; giving up\n"

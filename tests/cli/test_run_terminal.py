"""`run` on a terminal: who has it, real Ctrl-C and Ctrl-Z, shells with job control."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import termios

import pytest

from tests.cli.running import (
    CONTROLLING,
    ORPHANAGE,
    SOON,
    children,
    on_terminal,
    state,
    talks,
    under_shell,
)
from tests.helpers import eventually

CTRL_C, CTRL_Z, CTRL_BACKSLASH = b"\x03", b"\x1a", b"\x1c"

ASKS = """
with open("/dev/tty") as tty:
    tell("ready %d\\n" % os.getpgrp())
    print("got", tty.readline().strip(), flush=True)
"""
"""Reads a line from the terminal, and says it."""


def command_in_front(running, screen):
    """Wait until the command runs and has the terminal; return its group."""
    group = int(running.until(r"ready (\d+)\n")[1])
    eventually(lambda: screen.foreground() == group, "the command's turn")
    return group


# Who has the terminal


def test_the_command_has_the_terminal_and_reads_from_it():
    with on_terminal(*talks(ASKS)) as (running, screen):
        group = command_in_front(running, screen)
        assert group != running.process.pid
        screen.type(b"hello\n")
        screen.until("got hello")
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
        screen.type(b"hello\n")
        screen.until("got hello")
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
    command = talks(f"{ASKS}\nraise SystemExit({status})")
    with under_shell("foreground", *command, max_attempts=1) as (running, screen, shell):
        command_in_front(running, screen)
        screen.type(b"hello\n")
        screen.until("got hello")
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


# Ctrl-C


def test_ctrl_c_in_an_attempt_ends_the_command_and_the_run():
    with on_terminal(*talks("rests()")) as (running, screen):
        command_in_front(running, screen)
        screen.type(CTRL_C)
        screen.until("attempt 1 was killed by SIGINT; interrupted")
        assert running.wait() == 130
        assert running.nobody_left()


def test_ctrl_backslash_does_so_too():
    with on_terminal(*talks("rests()")) as (running, screen):
        command_in_front(running, screen)
        screen.type(CTRL_BACKSLASH)
        assert running.wait() == 131


def test_ctrl_c_in_an_attempt_ends_what_runs_in_the_background():
    script = "rests_in_the_background(signal.SIGINT, signal.SIGTERM); rests()"
    with on_terminal(*talks(script), grace=SOON) as (running, screen):
        command_in_front(running, screen)
        running.until("ready")
        screen.type(CTRL_C)
        assert running.wait() == 130
        assert running.nobody_left()


def test_a_command_may_take_its_time_after_ctrl_c():
    """It has heard it from the terminal, so nobody hurries it; it may even go on."""
    script = "wait = hears(signal.SIGINT); wait(); tell('heard'); print('got', input())"
    with on_terminal(*talks(script), grace=0) as (running, screen):
        command_in_front(running, screen)
        screen.type(CTRL_C)
        running.until("heard")
        screen.type(b"hello\n")
        screen.until("got hello")
        assert running.wait() == 0


HANDLES = """
wait = hears(signal.SIGINT, signal.SIGQUIT)
wait()
tell("heard")
"""
"""Gets Ctrl-C or Ctrl-\\ as a signal that does not end it."""


@pytest.mark.parametrize(("key", "status"), [(CTRL_C, 130), (CTRL_BACKSLASH, 131)])
@pytest.mark.parametrize("options", [{}, {"on_exit_code": [3]}])
def test_ctrl_c_ends_the_run_also_if_the_command_exits_with_a_code_of_its_own(key, status, options):
    with on_terminal(*talks(f"{HANDLES}raise SystemExit(3)"), **options) as (running, screen):
        command_in_front(running, screen)
        screen.type(key)
        screen.until("attempt 1 exited with 3; interrupted")
        assert running.wait() == status
        assert running.nobody_left()


def test_ctrl_c_in_a_shell_that_traps_it_ends_the_run():
    script = "trap 'exit 3' INT; echo ready $$ >&9; while :; do sleep 0.05; done"
    with on_terminal("sh", "-c", script) as (running, screen):
        command_in_front(running, screen)
        screen.type(CTRL_C)
        screen.until("attempt 1 exited with 3; interrupted")
        assert running.wait() == 130


@pytest.mark.parametrize("options", [{}, {"until_output": "match"}])
def test_a_command_that_succeeds_in_spite_of_ctrl_c_has_succeeded(options):
    script = f"{HANDLES}print('mat' + 'ch')"
    with on_terminal(*talks(script), **options) as (running, screen):
        command_in_front(running, screen)
        screen.type(CTRL_C)
        screen.until("attempt 1 succeeded")
        assert running.wait() == 0
        assert running.nobody_left()


def test_ctrl_c_in_an_attempt_that_takes_too_long_ends_the_run():
    script = "wait = hears(signal.SIGINT, signal.SIGTERM); wait(); wait()"
    with on_terminal(*talks(script), attempt_timeout=1) as (running, screen):
        command_in_front(running, screen)
        screen.type(CTRL_C)
        screen.until(r"attempt \d+ timed out; interrupted")
        assert running.wait() == 130


def test_ctrl_c_ends_what_a_command_with_a_code_of_its_own_leaves_in_the_background():
    script = f"os.fork() or rests(signal.SIGINT, signal.SIGTERM)\n{HANDLES}raise SystemExit(3)"
    with on_terminal(*talks(script), grace=SOON) as (running, screen):
        running.until(r"ready.*(\n.*)*ready \d+\n")
        screen.type(CTRL_C)
        assert running.wait() == 130
        assert running.nobody_left()


def test_ctrl_c_counts_also_after_ctrl_z():
    script = f"{HANDLES}raise SystemExit(3)"
    with under_shell("foreground", *talks(script)) as (running, screen, shell):
        group = command_in_front(running, screen)
        screen.type(CTRL_Z)
        assert shell.stopped() == signal.SIGTSTP
        shell.resume("foreground")
        eventually(lambda: screen.foreground() == group, "the command's turn")
        screen.type(CTRL_C)
        assert running.wait() == 130
        assert running.nobody_left()


def test_what_listens_for_ctrl_c_ends_with_the_attempt():
    with on_terminal("false", max_attempts=20, delay=0.01) as (running, screen):
        screen.until("attempt 19")
        assert running.wait() == 1
        assert running.nobody_left()
    with on_terminal("false", delay=1000) as (running, screen):
        screen.until("next attempt in 1000 s")
        assert children(running) == []


def test_what_listens_for_ctrl_c_ends_with_us():
    with on_terminal(*talks("rests(signal.SIGHUP)")) as (running, screen):
        command = str(command_in_front(running, screen))
        (listening,) = {*children(running)} - {command}
        running.signal(signal.SIGKILL)
        eventually(lambda: not state(listening), "the end of what listens")
        os.kill(int(command), signal.SIGKILL)


def test_what_listens_for_ctrl_c_is_not_stopped_and_keeps_nobody_waiting_if_it_is_killed():
    with on_terminal(*talks("rests()"), max_attempts=1) as (running, screen):
        command = str(command_in_front(running, screen))
        (listening,) = {*children(running)} - {command}
        os.kill(int(listening), signal.SIGSTOP)
        os.kill(int(command), signal.SIGTERM)
        assert running.wait() == 143
    with on_terminal(*talks("rests()"), max_attempts=1) as (running, screen):
        command_in_front(running, screen)
        os.killpg(screen.foreground(), signal.SIGKILL)
        assert running.wait() == 137


def test_ctrl_c_that_is_ignored_stays_ignored():
    script = "tell('ready %d\\n' % os.getpgrp()); input(); raise SystemExit(3)"
    options = {"ignored": [signal.SIGINT], "max_attempts": 2}
    with on_terminal(*talks(script), **options) as (running, screen):
        for _ in range(2):
            command_in_front(running, screen)
            screen.type(CTRL_C + b"\n")
        assert running.wait() == 3


def test_ctrl_c_in_a_wait_ends_the_run():
    with on_terminal("sh", "-c", "echo ready >&9; exit 3", delay=1000) as (running, screen):
        screen.until("next attempt in 1000 s")
        screen.type(CTRL_C)
        screen.until("ended by SIGINT")
        assert running.wait() == 130
        assert running.told.rest() == b"ready\n"


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
    with on_terminal(*talks(script), how={"stdout": piped}) as (running, screen):
        group = command_in_front(running, screen)
        assert group != running.process.pid
        screen.type(b"hello\n")
        running.until("got hello")
        assert running.wait() == 0


# Job control


def test_ctrl_z_stops_the_run_and_the_shell_continues_it():
    with under_shell("foreground", *talks(ASKS)) as (running, screen, shell):
        command_in_front(running, screen)
        screen.type(CTRL_Z)
        assert shell.stopped() == signal.SIGTSTP
        shell.resume("foreground")
        screen.type(b"hello\n")
        screen.until("got hello")
        assert running.wait() == 0


def test_ctrl_z_in_a_wait_stops_the_run_and_the_shell_continues_it():
    with under_shell("foreground", "false", delay=1000) as (running, screen, shell):
        screen.until("next attempt in 1000 s")
        screen.type(CTRL_Z)
        assert shell.stopped() == signal.SIGTSTP
        shell.resume("foreground")
        eventually(lambda: screen.foreground() != running.process.pid, "the run's turn")
        screen.type(CTRL_C)
        assert running.wait() == 130


def test_ctrl_z_in_a_pipeline_stops_the_command_too(piped):
    how = {"stdout": piped}
    with under_shell("foreground", *talks("rests()"), how=how) as (running, screen, shell):
        child = running.until(r"ready (\d+)\n")[1].decode()
        screen.type(CTRL_Z)
        assert shell.stopped() == signal.SIGTSTP
        assert state(child).startswith("T")
        shell.resume("foreground")
        eventually(lambda: not state(child).startswith("T"), "the command goes on")
        screen.type(CTRL_C)
        assert running.wait() == 130


def test_in_the_background_a_command_that_reads_waits_until_it_is_brought_to_the_front():
    with under_shell("background", *talks(ASKS)) as (running, screen, shell):
        assert shell.stopped() == signal.SIGTTIN
        assert screen.foreground() == running.process.pid
        shell.resume("background")
        assert shell.stopped() == signal.SIGTTIN
        shell.resume("foreground")
        screen.type(b"hello\n")
        screen.until("got hello")
        assert running.wait() == 0


def test_in_the_background_a_command_that_reads_when_it_should_end_is_ended():
    script = "signal.signal(signal.SIGTERM, lambda *_: open('/dev/tty').read()); signal.pause()"
    options = {"attempt_timeout": 1, "grace": SOON, "max_attempts": 1}
    with under_shell("background", *talks(script), **options) as (running, _, __):
        assert running.wait() == 124
        assert running.nobody_left()


def test_sigtstp_from_elsewhere_stops_both():
    with under_shell("foreground", *talks(ASKS)) as (running, screen, shell):
        child = command_in_front(running, screen)
        parent = subprocess.run(
            ["ps", "-o", "ppid=", "-p", str(child)], capture_output=True, text=True, check=True
        )
        os.kill(int(parent.stdout), signal.SIGTSTP)
        assert shell.stopped() == signal.SIGTSTP
        eventually(lambda: state(str(child)).startswith("T"), "the command's stop")
        shell.resume("foreground")
        eventually(lambda: screen.foreground() == child, "the command's turn")
        screen.type(b"hello\n")
        screen.until("got hello")
        assert running.wait() == 0


def test_a_run_that_was_sent_to_the_background_leaves_the_terminal_to_the_shell():
    with under_shell("foreground", *talks("rests()")) as (running, screen, shell):
        child = command_in_front(running, screen)
        screen.type(CTRL_Z)
        assert shell.stopped() == signal.SIGTSTP
        shell.resume("background")
        eventually(lambda: not state(str(child)).startswith("T"), "the command goes on")
        assert screen.foreground() == running.process.pid
        os.killpg(child, signal.SIGINT)
        assert running.wait() == 130


def test_without_a_shell_ctrl_z_does_nothing():
    """As if the command ran alone: nobody could continue it."""
    with on_terminal(*talks(ASKS)) as (running, screen):
        command_in_front(running, screen)
        screen.type(CTRL_Z)
        screen.type(b"hello\n")
        screen.until("got hello")
        assert running.wait() == 0


def test_with_nobody_to_bring_it_to_the_front_a_command_that_reads_is_ended():
    """As the kernel ends stopped groups that have been orphaned."""
    how = {"before": (sys.executable, "-c", ORPHANAGE), "prelude": ""}
    with on_terminal(*talks(ASKS), how=how, max_attempts=2) as (running, screen):
        screen.until("attempt 1 was killed by SIGHUP")
        screen.until("attempt 2 was killed by SIGHUP; giving up")
        assert running.wait() == 0
        assert running.nobody_left()


def test_such_a_command_that_ignores_it_is_killed():
    script = f"signal.signal(signal.SIGHUP, signal.SIG_IGN){ASKS}"
    how = {"before": (sys.executable, "-c", ORPHANAGE), "prelude": ""}
    with on_terminal(*talks(script), how=how, max_attempts=1) as (running, screen):
        screen.until("attempt 1 was killed by SIGKILL; giving up")
        assert running.wait() == 0
        assert running.nobody_left()


def test_the_shell_gets_its_terminal_back_from_a_command_that_takes_too_long():
    options = {"attempt_timeout": SOON, "max_attempts": 1}
    with under_shell("foreground", *talks("rests()"), **options) as (running, _, shell):
        shell.told.until("^its turn")
        assert running.wait() == 124
        assert running.nobody_left()


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

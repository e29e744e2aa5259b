"""`run` and job control: a real Ctrl-Z, shells that stop and continue it, and no shell at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from tests.cli.running import SOON, children, children_of, is_stopped, talks
from tests.cli.terminals import (
    ASKS,
    CTRL_C,
    CTRL_Z,
    SHELL,
    answer,
    command_in_front,
    suspend,
    talking_on_terminal,
    talking_under_shell,
    under_shell,
)
from tests.helpers import eventually


def test_ctrl_z_stops_the_run_and_the_shell_continues_it():
    with talking_under_shell(ASKS) as (running, screen, shell):
        suspend(screen, shell)
        shell.resume("foreground")
        answer(screen)
        assert running.wait() == 0


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


def test_ctrl_z_as_an_attempt_starts_stops_both():
    how = {"prelude": TYPED_IN_A_FORK}
    with under_shell("foreground", *talks(ASKS), how=how) as (running, screen, shell):
        assert shell.stopped() == signal.SIGTSTP
        (run,) = children(running)
        eventually(lambda: any(map(is_stopped, children_of(run))), "the command's stop")
        shell.resume("foreground")
        command_in_front(running, screen)
        answer(screen)
        assert running.wait() == 0


def test_a_command_that_stops_with_sigstop_stops_the_run():
    with talking_under_shell(ASKS) as (running, screen, shell):
        os.kill(screen.foreground(), signal.SIGSTOP)
        assert shell.stopped() == signal.SIGTSTP
        shell.resume("foreground")
        answer(screen)
        assert running.wait() == 0


PARTNER = """
import os, signal, subprocess, sys
tell, go = int(os.environ["TELL"]), int(os.environ["GO"])
stops = (signal.SIGTSTP, signal.SIGTTIN)
signal.pthread_sigmask(signal.SIG_BLOCK, stops)
subprocess.Popen(sys.argv[1:], pass_fds=(tell, go))
os.write(tell, b"partner got %d\\n" % signal.sigwait(stops))
signal.pause()
"""


def test_a_stop_stops_the_others_of_our_group_as_ctrl_z_does():
    """Another run there would leave its command running at any other signal."""
    how = {"before": (sys.executable, "-c", SHELL, sys.executable, "-c", PARTNER)}
    with under_shell("background", *talks(ASKS), how=how) as (running, _, __):
        assert int(running.until(r"partner got (\d+)\n")[1]) == signal.SIGTSTP


def test_in_the_background_a_command_that_reads_waits_until_it_is_brought_to_the_front():
    with under_shell("background", *talks(ASKS)) as (running, screen, shell):
        assert shell.stopped() == signal.SIGTSTP
        assert screen.foreground() == running.process.pid
        shell.resume("background")
        assert shell.stopped() == signal.SIGTSTP
        shell.resume("foreground")
        answer(screen)
        assert running.wait() == 0


def test_in_the_background_a_command_that_reads_when_it_should_end_is_ended():
    script = "signal.signal(signal.SIGTERM, lambda *_: open('/dev/tty').read()); signal.pause()"
    options = {"attempt_timeout": 1, "grace": SOON, "max_attempts": 1}
    with under_shell("background", *talks(script), **options) as (running, _, __):
        assert running.wait() == 124
        assert running.nobody_left()


def test_sigtstp_from_elsewhere_stops_both():
    with talking_under_shell(ASKS) as (running, screen, shell):
        child = screen.foreground()
        parent = subprocess.run(
            ["ps", "-o", "ppid=", "-p", str(child)], capture_output=True, text=True, check=True
        )
        os.kill(int(parent.stdout), signal.SIGTSTP)
        assert shell.stopped() == signal.SIGTSTP
        eventually(lambda: is_stopped(child), "the command's stop")
        shell.resume("foreground")
        eventually(lambda: screen.foreground() == child, "the command's turn")
        answer(screen)
        assert running.wait() == 0


def test_a_run_that_was_sent_to_the_background_leaves_the_terminal_to_the_shell():
    with talking_under_shell("rests()") as (running, screen, shell):
        child = screen.foreground()
        suspend(screen, shell)
        shell.resume("background")
        eventually(lambda: not is_stopped(child), "the command goes on")
        assert screen.foreground() == running.process.pid
        os.killpg(child, signal.SIGINT)
        assert running.wait() == 130


def test_without_a_shell_ctrl_z_does_nothing():
    """As if the command ran alone: nobody could continue it."""
    with talking_on_terminal(ASKS) as (running, screen):
        screen.type(CTRL_Z)
        answer(screen)
        assert running.wait() == 0


def test_the_shell_gets_its_terminal_back_from_a_command_that_takes_too_long():
    options = {"attempt_timeout": SOON, "max_attempts": 1}
    with under_shell("foreground", *talks("rests()"), **options) as (running, _, shell):
        shell.told.until("^its turn")
        assert running.wait() == 124
        assert running.nobody_left()

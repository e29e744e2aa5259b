"""`run` and job control: a real Ctrl-Z, shells that stop and continue it, and no shell at all."""

from __future__ import annotations

import os
import signal
import subprocess

from tests.cli.running import SOON, is_stopped, talks
from tests.cli.terminals import (
    ASKS,
    CTRL_C,
    CTRL_Z,
    answer,
    orphaned,
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


def test_in_the_background_a_command_that_reads_waits_until_it_is_brought_to_the_front():
    with under_shell("background", *talks(ASKS)) as (running, screen, shell):
        assert shell.stopped() == signal.SIGTTIN
        assert screen.foreground() == running.process.pid
        shell.resume("background")
        assert shell.stopped() == signal.SIGTTIN
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


def test_with_nobody_to_bring_it_to_the_front_a_command_that_reads_is_ended():
    """As the kernel ends stopped groups that have been orphaned."""
    with orphaned(ASKS, max_attempts=2) as (running, screen):
        screen.until("attempt 1 was killed by SIGHUP")
        screen.until("attempt 2 was killed by SIGHUP; giving up")
        assert running.wait() == 0
        assert running.nobody_left()


def test_such_a_command_that_ignores_it_is_killed():
    script = f"signal.signal(signal.SIGHUP, signal.SIG_IGN){ASKS}"
    with orphaned(script, max_attempts=1) as (running, screen):
        screen.until("attempt 1 was killed by SIGKILL; giving up")
        assert running.wait() == 0
        assert running.nobody_left()


def test_the_shell_gets_its_terminal_back_from_a_command_that_takes_too_long():
    options = {"attempt_timeout": SOON, "max_attempts": 1}
    with under_shell("foreground", *talks("rests()"), **options) as (running, _, shell):
        shell.told.until("^its turn")
        assert running.wait() == 124
        assert running.nobody_left()

"""`run` and a real Ctrl-C, whoever has the terminal as it is typed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.cli.running import SOON, children, pending, state, talks
from tests.cli.terminals import (
    CONTROLLING,
    CTRL_BACKSLASH,
    CTRL_C,
    answer,
    command_in_front,
    on_terminal,
    suspend,
    talking_on_terminal,
    talking_under_shell,
)
from tests.helpers import eventually


def test_ctrl_c_in_an_attempt_ends_the_command_and_the_run():
    with talking_on_terminal("rests()") as (running, screen):
        screen.type(CTRL_C)
        screen.until("attempt 1 was killed by SIGINT; interrupted")
        assert running.wait() == 130
        assert running.nobody_left()


def test_ctrl_backslash_does_so_too():
    with talking_on_terminal("rests()") as (running, screen):
        screen.type(CTRL_BACKSLASH)
        assert running.wait() == 131


def test_ctrl_c_in_an_attempt_ends_what_runs_in_the_background():
    script = "rests_in_the_background(signal.SIGINT, signal.SIGTERM); rests()"
    with talking_on_terminal(script, grace=SOON) as (running, screen):
        running.until("ready")
        screen.type(CTRL_C)
        assert running.wait() == 130
        assert running.nobody_left()


def test_a_command_may_take_its_time_after_ctrl_c():
    """It has heard it from the terminal, so nobody hurries it; it may even go on."""
    script = "wait = hears(signal.SIGINT); wait(); tell('heard'); print('got', input())"
    with talking_on_terminal(script, grace=0) as (running, screen):
        screen.type(CTRL_C)
        running.until("heard")
        answer(screen)
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
    with talking_on_terminal(f"{HANDLES}raise SystemExit(3)", **options) as (running, screen):
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
    with talking_on_terminal(script, **options) as (running, screen):
        screen.type(CTRL_C)
        screen.until("attempt 1 succeeded")
        assert running.wait() == 0
        assert running.nobody_left()


def test_ctrl_c_in_an_attempt_that_takes_too_long_ends_the_run():
    script = "wait = hears(signal.SIGINT, signal.SIGTERM); wait(); wait()"
    with talking_on_terminal(script, attempt_timeout=1) as (running, screen):
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


SENDS = """
wait = hears(signal.SIGINT)
input()
os.killpg(0, signal.SIGINT)
wait()
tell("sent")
"""
"""Sends SIGINT to its own group, as `timeout` may."""


def test_sigint_that_a_process_sends_to_the_group_is_no_ctrl_c():
    with on_terminal(*talks(f"{SENDS}raise SystemExit(3)"), max_attempts=2) as (running, screen):
        for _ in range(2):
            command_in_front(running, screen)
            screen.type(b"\n")
        screen.until("attempt 2 exited with 3; giving up")
        assert running.wait() == 3


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
def test_ctrl_c_counts_also_after_such_a_sigint():
    with talking_on_terminal(f"{SENDS}wait(); raise SystemExit(3)") as (running, screen):
        (listening,) = {*children(running)} - {screen.foreground()}
        screen.type(b"\n")
        running.until("sent")
        eventually(lambda: not pending(listening), "the first one is heard")
        screen.type(CTRL_C)
        screen.until("attempt 1 exited with 3; interrupted")
        assert running.wait() == 130


def test_ctrl_c_counts_also_where_the_command_ends_before_anybody_listens():
    late = """
import select
from backoff_ticker.cli import _sentinel
listen = _sentinel._sent_by_the_kernel
def late(heeded, descriptor):
    select.select([descriptor], [], [])
    return listen(heeded, descriptor)
_sentinel._sent_by_the_kernel = late
"""
    options = {"how": {"prelude": f"{CONTROLLING}{late}"}}
    with talking_on_terminal(f"{HANDLES}raise SystemExit(3)", **options) as (running, screen):
        screen.type(CTRL_C)
        screen.until("attempt 1 exited with 3; interrupted")
        assert running.wait() == 130


def test_ctrl_c_counts_also_after_ctrl_z():
    script = f"{HANDLES}raise SystemExit(3)"
    with talking_under_shell(script) as (running, screen, shell):
        group = screen.foreground()
        suspend(screen, shell)
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
    with talking_on_terminal("rests(signal.SIGHUP)") as (running, screen):
        command = screen.foreground()
        (listening,) = {*children(running)} - {command}
        running.signal(signal.SIGKILL)
        eventually(lambda: not state(listening), "the end of what listens")
        os.kill(command, signal.SIGKILL)


def test_what_listens_for_ctrl_c_is_not_stopped_and_keeps_nobody_waiting_if_it_is_killed():
    with talking_on_terminal("rests()", max_attempts=1) as (running, screen):
        command = screen.foreground()
        (listening,) = {*children(running)} - {command}
        os.kill(listening, signal.SIGSTOP)
        os.kill(command, signal.SIGTERM)
        assert running.wait() == 143
    with talking_on_terminal("rests()", max_attempts=1) as (running, screen):
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

"""`run` and a real Ctrl-C, whoever has the terminal as it is typed."""

from __future__ import annotations

import signal

import pytest

from tests.cli.running import talks
from tests.cli.terminals import (
    CTRL_BACKSLASH,
    CTRL_C,
    answer,
    command_in_front,
    on_terminal,
    talking_on_terminal,
)


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


@pytest.mark.parametrize("options", [{}, {"until_output": "match"}])
def test_a_command_that_succeeds_in_spite_of_ctrl_c_has_succeeded(options):
    script = f"{HANDLES}print('mat' + 'ch')"
    with talking_on_terminal(script, **options) as (running, screen):
        screen.type(CTRL_C)
        screen.until("attempt 1 succeeded")
        assert running.wait() == 0
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

"""`run` on a terminal that is closed: the kernel tells its foreground group and the leader only."""

from __future__ import annotations

import sys

import pytest

from tests.cli.running import talks
from tests.cli.terminals import LEADER, command_in_front, on_terminal


@pytest.mark.parametrize("options", [{}, {"quiet": True}, {"until_output": "never"}])
def test_a_terminal_that_is_closed_ends_the_command_and_the_run(options):
    how = {"before": (sys.executable, "-c", LEADER), "prelude": ""}
    with on_terminal(*talks("rests()"), how=how, **options) as (running, screen):
        command_in_front(running, screen)
        screen.close()
        running.until("status 129")
        assert running.told.rest() == b"\n"


def test_a_terminal_that_is_closed_in_a_wait_ends_the_run():
    how = {"before": (sys.executable, "-c", LEADER), "prelude": ""}
    with on_terminal("false", how=how, delay=1000) as (running, screen):
        screen.until("next attempt in 1000 s")
        screen.close()
        running.until("status 129")
        assert running.told.rest() == b"\n"


def test_a_command_that_lives_on_without_its_terminal_may_succeed():
    script = "wait = hears(signal.SIGHUP); wait(); tell('heard')"
    how = {"before": (sys.executable, "-c", LEADER), "prelude": ""}
    with on_terminal(*talks(script), how=how) as (running, screen):
        command_in_front(running, screen)
        screen.close()
        running.until("heard")
        running.until("status 0")

"""Commands run one at a time, by whichever thread is running them."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest

from backoff_ticker.testing import ClockUsageError
from backoff_ticker.testing._command_queue import CommandQueue
from tests.helpers import PATIENCE, in_thread


@pytest.fixture
def commands():
    """A queue whose commands change nothing else."""
    return CommandQueue(*[lambda *_: None] * 4)


@contextmanager
def another_thread_runs(commands):
    """Have another thread be running a command inside the block, and end after it."""
    entered, go = threading.Event(), threading.Event()

    def command():
        entered.set()
        assert go.wait(PATIENCE)

    other = in_thread(commands.post, command)
    assert entered.wait(PATIENCE)
    yield
    go.set()
    other.result(PATIENCE)


def fail():
    raise ZeroDivisionError


def test_a_command_that_another_one_posts_runs_after_it(commands):
    seen = []

    def first():
        commands.post(seen.append, "second")
        seen.append("first")

    commands.post(first)
    assert seen == ["first", "second"]


def test_post_does_not_wait_for_the_thread_that_runs_commands(commands):
    ran_in = []
    with another_thread_runs(commands):
        commands.post(lambda: ran_in.append(threading.get_ident()))
        assert ran_in == []
    assert ran_in not in ([], [threading.get_ident()])


def test_an_error_is_raised_where_the_command_was_posted_or_kept(commands):
    with pytest.raises(ZeroDivisionError):
        commands.post(fail)
    assert commands.errors == []
    with another_thread_runs(commands):
        commands.post(fail)
    assert [type(error) for error in commands.errors] == [ZeroDivisionError]
    assert commands.query(lambda: "still works") == "still works"


def test_a_query_in_the_middle_of_a_command_is_refused(commands):
    """As a signal handler may make one."""

    def query():
        with pytest.raises(ClockUsageError, match="a signal handler cannot query"):
            commands.query(int)

    commands.post(query)


def test_a_lock_that_an_interrupt_left_is_released_before_a_wait(commands):
    commands._lock.acquire()
    commands._lock.acquire()
    commands.unlock()
    assert in_thread(commands.query, lambda: "answered").result(PATIENCE) == "answered"


def test_after_an_interrupt_the_state_is_repaired_and_the_command_repeated():
    done, interrupts = [], [KeyboardInterrupt, SystemExit]

    def command():
        done.append("command")
        if interrupts:
            raise interrupts.pop()

    commands = CommandQueue(*[lambda *_: None] * 3, lambda: done.append("repair"))
    for interrupt in (SystemExit, KeyboardInterrupt):
        with pytest.raises(interrupt):
            commands.post(command)
    commands.post(done.append, "next")
    assert done == ["command", "repair", "command", "repair", *["command"] * 2, "next"]


def test_a_condition_that_fails_leaves_nothing_behind(commands):
    with pytest.raises(ZeroDivisionError):
        commands.wait_for(fail, PATIENCE)
    assert commands.wait_for(lambda: True, PATIENCE)
    assert not commands.wait_for(lambda: False, 0)

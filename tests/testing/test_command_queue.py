"""Operations of a clock are carried out one after the other, by whoever is at it."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest

from backoff_ticker.testing import ClockUsageError
from backoff_ticker.testing._command_queue import CommandQueue
from tests.helpers import PATIENCE, in_thread


@pytest.fixture
def inbox():
    return CommandQueue(*[lambda *_: None] * 4)  # nothing follows from its commands


@contextmanager
def another_thread_at(inbox):
    """Have another thread be carrying out an operation inside the block, and end after it."""
    entered, go = threading.Event(), threading.Event()

    def operation():
        entered.set()
        assert go.wait(PATIENCE)

    other = in_thread(inbox.post, operation)
    assert entered.wait(PATIENCE)
    yield
    go.set()
    other.result(PATIENCE)


def fail():
    raise ZeroDivisionError


def test_an_operation_that_another_one_posts_comes_after_it(inbox):
    seen = []

    def first():
        inbox.post(seen.append, "second")
        seen.append("first")

    inbox.post(first)
    assert seen == ["first", "second"]


def test_who_posts_while_another_thread_is_at_it_does_not_wait_for_it(inbox):
    done_in = []
    with another_thread_at(inbox):
        inbox.post(lambda: done_in.append(threading.get_ident()))
        assert done_in == []
    assert done_in not in ([], [threading.get_ident()])


def test_an_operation_that_fails_fails_who_posted_it_or_is_kept(inbox):
    with pytest.raises(ZeroDivisionError):
        inbox.post(fail)
    assert inbox.errors == []
    with another_thread_at(inbox):
        inbox.post(fail)
    assert [type(error) for error in inbox.errors] == [ZeroDivisionError]
    assert inbox.query(lambda: "goes on") == "goes on"


def test_a_question_in_the_middle_of_an_operation_is_refused(inbox):
    """As a signal handler may ask one."""

    def ask():
        with pytest.raises(ClockUsageError, match="a signal handler cannot ask"):
            inbox.query(int)

    inbox.post(ask)


def test_a_lock_that_an_interrupt_left_is_let_go_before_a_wait(inbox):
    inbox._lock.acquire()
    inbox._lock.acquire()
    inbox.unlock()
    assert in_thread(inbox.query, lambda: "answered").result(PATIENCE) == "answered"


def test_a_condition_that_fails_leaves_nothing_behind(inbox):
    with pytest.raises(ZeroDivisionError):
        inbox.wait_for(fail, PATIENCE)
    assert inbox.query(lambda: "goes on") == "goes on"
    assert inbox.wait_for(lambda: True, PATIENCE)
    assert not inbox.wait_for(lambda: False, 0)

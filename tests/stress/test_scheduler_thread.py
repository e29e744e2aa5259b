"""The thread of the scheduler: what does not end it, when it ends, and how it starts again."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from backoff_ticker.clock import _scheduler
from backoff_ticker.clock._scheduler import Scheduler
from tests.helpers import PATIENCE, eventually
from tests.stress.test_scheduler import FAR, flush, held, soon


@pytest.fixture
def reported(monkeypatch):
    """The errors that were reported."""
    errors = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: errors.append(args.exc_value))
    return errors


# Errors


@pytest.mark.parametrize(
    "error",
    [ZeroDivisionError, SystemExit, KeyboardInterrupt, asyncio.CancelledError, StopIteration],
)
def test_an_error_is_reported_and_the_thread_goes_on(scheduler, reported, error):
    def fail():
        raise error("in a callback")

    with held(scheduler):
        thread = scheduler.thread
        scheduler.call_at(soon(), fail)
    flush(scheduler)
    assert [(type(told), told.args) for told in reported] == [(error, ("in a callback",))]
    assert scheduler.thread is thread
    assert thread.is_alive()


@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit, KeyboardInterrupt])
def test_a_failing_hook_does_not_end_the_thread_either(scheduler, monkeypatch, error):
    called = []

    def hook(args):
        called.append(args)
        raise error

    monkeypatch.setattr(sys, "unraisablehook", hook)
    monkeypatch.setattr(threading, "excepthook", lambda args: None)
    scheduler.call_at(soon(), lambda: 1 / 0)
    eventually(lambda: called)
    flush(scheduler)


# The thread


def test_the_thread_is_a_daemon_with_a_name(scheduler):
    assert scheduler.thread is None
    flush(scheduler)
    assert scheduler.thread.daemon is True
    assert scheduler.thread.name == "backoff_ticker-scheduler"


def test_the_thread_ends_when_idle_and_starts_again():
    scheduler = Scheduler(time.monotonic, idle_seconds=0.01)
    seen = []
    for _ in range(3):
        scheduler.call_at(soon(), lambda: seen.append(threading.current_thread()))
        eventually(lambda: scheduler.thread is None and not scheduler._mailbox.qsize())
        seen[-1].join(PATIENCE)
        assert not seen[-1].is_alive()
    assert len(set(seen)) == 3


def test_the_thread_stays_while_an_entry_is_pending():
    scheduler = Scheduler(time.monotonic, idle_seconds=0)
    timer = scheduler.call_at(soon() + FAR, print)
    flush(scheduler)
    thread = scheduler.thread
    flush(scheduler)
    assert scheduler.thread is thread
    assert timer.cancel() is True


def test_entries_that_were_all_cancelled_do_not_keep_the_thread():
    """However few they are and however far their time."""
    scheduler = Scheduler(time.monotonic, idle_seconds=0.01)
    timer = scheduler.call_at(soon() + FAR, print)
    flush(scheduler)
    timer.cancel()
    eventually(lambda: scheduler.thread is None, "the end of the idle thread")


def test_nothing_is_lost_between_the_end_of_one_thread_and_the_start_of_the_next():
    scheduler = Scheduler(time.monotonic, idle_seconds=0)
    for _ in range(500):
        flush(scheduler)


def test_what_is_posted_in_the_moment_of_the_end_is_not_lost():
    """The poster sees the thread still there, and the thread has given up waiting already."""
    scheduler = Scheduler(time.monotonic, idle_seconds=0.01)
    ran = threading.Event()

    class Mailbox:
        def __init__(self, mail):
            self.put, self.qsize, self.empty = mail.put, mail.qsize, mail.empty
            self.get_nowait = mail.get_nowait
            self._mail = mail
            self._late = [ran.set]

        def get(self, timeout):
            try:
                return self._mail.get(timeout=timeout)
            except _scheduler.queue.Empty:
                while self._late:
                    scheduler.call_at(soon(), self._late.pop())
                raise

    scheduler._mailbox = Mailbox(scheduler._mailbox)
    flush(scheduler)
    assert ran.wait(PATIENCE)


def test_a_thread_that_cannot_start_is_an_error_and_the_next_call_tries_again(
    scheduler, monkeypatch
):
    ran = []

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        for _ in range(3):
            with pytest.raises(RuntimeError) as caught:
                scheduler.call_at(soon(), lambda: ran.append("refused"))
            assert str(caught.value) == "can't start new thread"
            assert scheduler.thread is None
    scheduler.call_at(soon(), lambda: ran.append("accepted"))
    flush(scheduler)
    assert ran == ["accepted"]


def test_a_thread_whose_start_was_interrupted_leaves_the_heap_to_the_next(scheduler, monkeypatch):
    """``Thread.start`` can be interrupted when the thread is on its way but has no ident yet."""
    late = []

    def interrupted(thread):
        late.append(thread)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            scheduler.call_at(soon(), print)
    flush(scheduler)
    late[0].start()
    late[0].join(PATIENCE)
    assert not late[0].is_alive()
    flush(scheduler)


def test_no_thread_starts_while_the_interpreter_shuts_down(scheduler, monkeypatch):
    ran = []
    with monkeypatch.context() as patch:
        patch.setattr(_scheduler.sys, "is_finalizing", lambda: True)
        with pytest.raises(RuntimeError) as caught:
            scheduler.call_at(soon(), lambda: ran.append(1))
    assert "shutting down" in str(caught.value)
    assert scheduler.thread is None
    flush(scheduler)
    assert ran == []


# Fork

FORK = """
import os, threading, time
from backoff_ticker import _process
from backoff_ticker.clock._scheduler import Scheduler

scheduler = Scheduler(time.monotonic, idle_seconds=60)
ran = []
started = threading.Event()
inherited = scheduler.call_at(time.monotonic() + 1e9, print)
scheduler.call_at(0.0, started.set)
assert started.wait(10)
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        assert _process.generation == 1
        assert scheduler.thread is None
        assert len(scheduler) == 0
        assert inherited.cancel() is True
        done = threading.Event()
        scheduler.call_at(0.0, done.set)
        os._exit(0 if done.wait(10) else 1)
    assert os.waitpid(pid, 0)[1] == 0
assert _process.generation == 0
assert scheduler.thread.is_alive()
assert inherited.cancel() is True
print("done")
"""


def test_a_forked_child_begins_empty_with_a_thread_of_its_own():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")

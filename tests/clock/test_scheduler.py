"""The scheduler: in order, nothing left behind, and the life of its thread."""

import asyncio
import ctypes
import os
import queue
import random
import sys
import threading
import time
import weakref
from contextlib import contextmanager
from contextvars import ContextVar, copy_context

import pytest

from backoff_ticker.clock._scheduler import Scheduler
from tests.helpers import PATIENCE, eventually, in_thread, wait_until_collected
from tests.stress.tools import Gate

FAR = 1e9
soon = time.monotonic


@pytest.fixture
def scheduler():
    """A scheduler of the test's own, whose thread stays while the test runs."""
    made = Scheduler(time.monotonic, idle_seconds=60)
    yield made
    made._idle_seconds = 0
    for _, _, call in list(made._heap):
        call.cancel()
    made._parker.unpark()


def test_callbacks_see_nothing_of_the_context_in_which_the_thread_was_started(scheduler):
    """Threads inherit it where the interpreter has no lock, and this one serves everybody."""
    request = ContextVar("request", default=None)
    seen = queue.SimpleQueue()

    def of_one_request():
        request.set("the first")
        scheduler.call_at(soon(), lambda: seen.put(request.get()))

    copy_context().run(of_one_request)
    assert seen.get(timeout=PATIENCE) is None


def test_an_exception_that_is_raised_in_the_thread_from_outside_ends_no_call(
    scheduler, monkeypatch
):
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    called = threading.Event()
    scheduler.call_at(FAR, print)
    flush(scheduler)
    thread = scheduler.thread
    scheduler.call_at(soon() + 0.05, called.set)
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
    assert raise_in(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit)) == 1
    scheduler._parker.unpark()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert called.wait(PATIENCE)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_the_child_of_a_call_that_forks_makes_no_other_call_of_its_parent(scheduler):
    scheduler._idle_seconds = 0.01  # then the child ends, with its only thread
    children = queue.SimpleQueue()
    told, tell = os.pipe()
    both_are_posted = threading.Event()
    due = soon()
    scheduler.call_at(due, both_are_posted.wait)
    scheduler.call_at(due, lambda: children.put(os.fork()))
    scheduler.call_at(due, lambda: os.write(tell, b"!"))
    both_are_posted.set()
    _, status = os.waitpid(children.get(timeout=PATIENCE), 0)
    assert status == 0
    flush(scheduler)
    assert os.read(told, 9) == b"!"
    os.close(told)
    os.close(tell)


def flush(scheduler):
    """Wait until the thread has seen all that was posted and run all that is due."""
    seen = threading.Event()
    scheduler.call_at(soon(), seen.set)
    assert seen.wait(PATIENCE), "the scheduler thread does not run callbacks"


@contextmanager
def held(scheduler):
    """Keep the thread busy in a callback."""
    gate = Gate()
    scheduler.call_at(soon(), gate.stand)
    gate.wait_until_reached()
    try:
        yield
    finally:
        gate.open()
    flush(scheduler)


# Order and time


def test_callbacks_run_in_the_order_of_their_times_then_of_their_adding(scheduler):
    start, ran = soon() - 100, []
    entries = [(step % 10, step) for step in range(100)]
    random.Random(1).shuffle(entries)
    with held(scheduler):
        for when, name in entries:
            scheduler.call_at(start + when, lambda entry=(when, name): ran.append(entry))
    assert ran == sorted(entries, key=lambda entry: entry[0])


# What stays behind


def test_hardly_any_of_many_cancelled_far_calls_stays(scheduler):
    calls = [scheduler.call_at(soon() + FAR, print) for _ in range(2_000)]
    flush(scheduler)
    assert len(scheduler) == 2_000
    for call in calls:
        call.cancel()
    eventually(lambda: len(scheduler) < 100, "the sweep")


class Callback:
    def __init__(self, error=None):
        self.called = threading.Event()
        self.error = error

    def __call__(self):
        self.called.set()
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize("error", [None, ValueError, SystemExit])
def test_no_frame_keeps_the_last_callback_alive(scheduler, monkeypatch, error):
    monkeypatch.setattr(sys, "unraisablehook", lambda args: None)
    callback = Callback(error)
    call = scheduler.call_at(soon(), callback)
    assert callback.called.wait(PATIENCE)
    link = weakref.ref(callback)
    del callback
    wait_until_collected(link)
    assert scheduler.thread.is_alive()
    assert call.is_taken


def test_a_cancelled_callback_is_released_at_once(scheduler):
    callback = Callback()
    link = weakref.ref(callback)
    call = scheduler.call_at(soon() + FAR, callback)
    flush(scheduler)
    del callback
    assert link() is not None
    call.cancel()
    assert link() is None


# Errors


@pytest.mark.parametrize(
    "error",
    [ZeroDivisionError, SystemExit, KeyboardInterrupt, asyncio.CancelledError, StopIteration],
)
def test_an_error_is_reported_and_the_thread_goes_on(scheduler, unraisable, error):
    def fail():
        raise error("in a callback")

    with held(scheduler):
        thread = scheduler.thread
        scheduler.call_at(soon(), fail)
    flush(scheduler)
    (told,) = unraisable
    assert (type(told.exc_value), told.exc_value.args) == (error, ("in a callback",))
    assert scheduler.thread is thread
    assert thread.is_alive()


# The thread


def test_the_thread_ends_when_idle_and_starts_again():
    scheduler = Scheduler(time.monotonic, idle_seconds=0.01)
    seen = []
    for _ in range(3):
        scheduler.call_at(soon(), lambda: seen.append(threading.current_thread()))
        eventually(lambda: scheduler.thread is None and not scheduler._posted)
        seen[-1].join(PATIENCE)
        assert not seen[-1].is_alive()
    assert len(set(seen)) == 3


@pytest.mark.parametrize("count", [1, 3, 100])
def test_calls_that_were_all_cancelled_do_not_keep_the_thread(count):
    scheduler = Scheduler(time.monotonic, idle_seconds=0.01)
    calls = [scheduler.call_at(soon() + FAR, print) for _ in range(count)]
    flush(scheduler)
    for call in calls:
        call.cancel()
    eventually(lambda: scheduler.thread is None, "the end of the idle thread")


def test_a_call_posted_in_the_moment_of_the_end_is_not_lost(monkeypatch):
    """The poster sees the thread still there, and the thread has given up waiting already."""
    scheduler = Scheduler(time.monotonic, idle_seconds=0.01)
    ran, wait = threading.Event(), scheduler._wait
    late = [ran.set]

    def give_up_late():
        woken = wait()
        while not woken and late:
            scheduler.call_at(soon(), late.pop())
        return woken

    monkeypatch.setattr(scheduler, "_wait", give_up_late)
    flush(scheduler)
    assert ran.wait(PATIENCE)


def refuse(thread):
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize(
    ("owner", "name", "instead", "error"),
    [
        (threading.Thread, "start", refuse, "can't start new thread"),
        (sys, "is_finalizing", lambda: True, "the interpreter is shutting down"),
    ],
)
def test_a_thread_that_cannot_start_is_an_error_and_the_next_call_tries_again(
    scheduler, monkeypatch, owner, name, instead, error
):
    ran = []
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, instead)
        for _ in range(3):
            with pytest.raises(RuntimeError, match=error):
                scheduler.call_at(soon(), lambda: ran.append("refused"))
            assert scheduler.thread is None
    scheduler.call_at(soon(), lambda: ran.append("accepted"))
    flush(scheduler)
    assert ran == ["accepted"]


def test_a_failed_start_leaves_no_callback_of_another_thread_behind(monkeypatch):
    """Another thread posts while the start fails: it is refused too, or its callback runs."""
    gate = Gate()
    start = threading.Thread.start

    def fail_once(thread):
        if thread.name == "backoff_ticker-scheduler" and not gate.reached.is_set():
            gate.stand()
            raise RuntimeError("can't start new thread")
        start(thread)

    scheduler = Scheduler(time.monotonic, idle_seconds=0.01)
    monkeypatch.setattr(threading.Thread, "start", fail_once)
    ran = threading.Event()
    first = in_thread(scheduler.call_at, 0.0, lambda: None)
    gate.wait_until_reached()
    second = in_thread(scheduler.call_at, 0.0, ran.set)
    eventually(lambda: second.done() or len(scheduler._posted) == 2, "both are posted")
    gate.open()
    assert isinstance(first.exception(PATIENCE), RuntimeError)
    if second.exception(PATIENCE) is None:
        assert ran.wait(PATIENCE)
    flush(scheduler)


def test_an_interrupted_start_never_makes_two_runners(monkeypatch):
    """The interrupt hits ``Thread.start`` when the thread is on its way but has no ident yet."""
    scheduler = Scheduler(time.monotonic, idle_seconds=60)
    late, inside, most = [], [], []
    wait = scheduler._wait

    def interrupted(thread):
        late.append(thread)
        raise KeyboardInterrupt

    def counted():
        inside.append(1)
        most.append(len(inside))
        woken = wait()
        inside.pop()
        return woken

    monkeypatch.setattr(scheduler, "_wait", counted)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            scheduler.call_at(soon(), print)
    flush(scheduler)
    late[0].start()
    late[0].join(PATIENCE)
    assert not late[0].is_alive()
    flush(scheduler)
    assert max(most) == 1


def test_a_callback_can_cancel_another_that_is_due_but_not_itself(scheduler):
    results = []
    with held(scheduler):
        first = scheduler.call_at(soon(), lambda: results.extend([first.cancel(), second.cancel()]))
        second = scheduler.call_at(soon(), lambda: results.append("ran"))
    assert results == [False, True]

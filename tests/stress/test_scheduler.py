"""The entries of the scheduler: order, exactly once, and nothing that stays behind."""

from __future__ import annotations

import gc
import random
import sys
import threading
import time
import weakref
from contextlib import contextmanager

import pytest

from backoff_ticker.clock import _scheduler
from backoff_ticker.clock._scheduler import LONGEST_WAIT, Scheduler
from tests.helpers import PATIENCE, eventually, in_thread

FAR = 1e9


def soon():
    return time.monotonic()


def flush(scheduler):
    """Wait until the thread has seen all that was posted and run all that is due."""
    seen = threading.Event()
    scheduler.call_at(soon(), seen.set)
    assert seen.wait(PATIENCE), "the scheduler thread does not run callbacks"


@contextmanager
def held(scheduler):
    """Keep the thread busy in a callback."""
    entered, release = threading.Event(), threading.Event()
    scheduler.call_at(soon(), lambda: (entered.set(), release.wait(PATIENCE)))
    assert entered.wait(PATIENCE)
    try:
        yield
    finally:
        release.set()
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


def test_no_callback_runs_before_its_time(scheduler):
    ran, done = [], threading.Event()
    start = soon()
    for step in range(30):
        when = start + step * 0.0007
        scheduler.call_at(when, lambda when=when: ran.append(soon() - when))
    scheduler.call_at(start + 0.03, done.set)
    assert done.wait(PATIENCE)
    assert len(ran) == 30
    assert min(ran) >= 0.0


def test_an_earlier_entry_interrupts_a_long_wait(scheduler):
    scheduler.call_at(soon() + FAR, print)
    flush(scheduler)
    flush(scheduler)


class HastyMailbox:
    """Gives up waiting early and without waiting; moves the time on instead."""

    def __init__(self):
        self.now = 1000.0
        self.timeouts = []
        self._mail = []
        self.put = self._mail.append
        self.empty = lambda: not self._mail
        self.qsize = lambda: len(self._mail)

    def get_nowait(self):
        if not self._mail:
            raise _scheduler.queue.Empty
        return self._mail.pop(0)

    def get(self, timeout):
        if not self._mail:
            self.timeouts.append(timeout)
            self.now += max(0.9 * timeout, 0.001)
        return self.get_nowait()


def test_a_wait_that_ends_early_is_begun_again_and_none_is_longer_than_a_day():
    mailbox = HastyMailbox()
    scheduler = Scheduler(lambda: mailbox.now, idle_seconds=1)
    scheduler._mailbox = mailbox
    when = 1000.0 + 5 * LONGEST_WAIT
    ran, done = [], threading.Event()
    scheduler.call_at(when, lambda: (ran.append(mailbox.now), done.set()))
    assert done.wait(PATIENCE)
    assert when <= ran[0] < when + 0.01
    assert max(mailbox.timeouts) == LONGEST_WAIT == 86_400.0


@pytest.mark.parametrize("when", [1e300, 1.7976931348623157e308])
def test_a_far_deadline_disturbs_nobody(scheduler, when):
    timer = scheduler.call_at(when, print)
    flush(scheduler)
    assert timer.when == when
    assert timer.cancel() is True


# Exactly once


def test_a_cancelled_callback_does_not_run(scheduler):
    ran = []
    with held(scheduler):
        timer = scheduler.call_at(soon(), lambda: ran.append(1))
        assert timer.cancel() is True
        assert timer.cancel() is False
    assert ran == []


def test_what_has_run_cannot_be_cancelled(scheduler):
    ran = []
    timer = scheduler.call_at(soon(), lambda: ran.append(1))
    flush(scheduler)
    assert timer.cancel() is False
    assert ran == [1]


def test_a_callback_can_cancel_another_that_is_due_but_not_itself(scheduler):
    results = []
    with held(scheduler):
        first = scheduler.call_at(soon(), lambda: results.extend([first.cancel(), second.cancel()]))
        second = scheduler.call_at(soon(), lambda: results.append("ran"))
    assert results == [False, True]


def test_each_callback_runs_or_is_cancelled_in_two_thousand_races(scheduler):
    ran = []
    prevented = 0
    for number in range(2000):
        timer = scheduler.call_at(0.0, lambda number=number: ran.append(number))
        if number % 3:
            prevented += timer.cancel()
    flush(scheduler)
    assert len(ran) == len(set(ran))
    assert len(ran) + prevented == 2000


def test_callbacks_may_add_entries(scheduler):
    ran, done = [], threading.Event()

    def again(count):
        ran.append((count, threading.get_ident()))
        if count:
            scheduler.call_at(soon(), lambda: again(count - 1))
        else:
            done.set()

    scheduler.call_at(soon(), lambda: again(50))
    assert done.wait(PATIENCE)
    assert [count for count, _ in ran] == list(range(50, -1, -1))
    assert len({thread for _, thread in ran}) == 1


def test_many_threads_that_begin_at_once_share_one_thread(scheduler):
    barrier = threading.Barrier(20)
    threads, done = [], threading.Semaphore(0)

    def post():
        barrier.wait(PATIENCE)
        scheduler.call_at(
            soon(), lambda: (threads.append(threading.current_thread()), done.release())
        )

    posted = [in_thread(post) for _ in range(20)]
    for one in posted:
        one.result(PATIENCE)
        assert done.acquire(timeout=PATIENCE)
    assert set(threads) == {scheduler.thread}


# What stays behind


def test_of_ten_thousand_cancelled_far_entries_hardly_any_stays(scheduler):
    timers = [scheduler.call_at(soon() + FAR, print) for _ in range(10_000)]
    flush(scheduler)
    assert len(scheduler) == 10_000
    for timer in timers:
        timer.cancel()
    flush(scheduler)
    assert len(scheduler) < 100


def test_a_sweep_keeps_what_is_not_cancelled(scheduler):
    ran = []
    with held(scheduler):
        timers = [
            scheduler.call_at(0.0, lambda number=number: ran.append(number))
            for number in range(1000)
        ]
        for number, timer in enumerate(timers):
            if number % 10:
                timer.cancel()
    assert ran == list(range(0, 1000, 10))


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
    timer = scheduler.call_at(soon(), callback)
    assert callback.called.wait(PATIENCE)
    link = weakref.ref(callback)
    del callback
    eventually(lambda: gc.collect() >= 0 and link() is None, "the end of the callback")
    assert scheduler.thread.is_alive()
    assert timer.spent


def test_a_cancelled_callback_is_let_go_at_once(scheduler):
    callback = Callback()
    link = weakref.ref(callback)
    timer = scheduler.call_at(soon() + FAR, callback)
    flush(scheduler)
    del callback
    assert link() is not None
    timer.cancel()
    assert link() is None


def test_a_wait_that_is_over_before_it_begins_ends_all_the_same():
    """As it is for a SimpleQueue that held an item before, on Python 3.11 and 3.12."""
    mailbox = Scheduler(time.monotonic)._mailbox
    for _ in range(2000):
        mailbox.put(None)
        assert mailbox.get(timeout=PATIENCE) is None
        with pytest.raises(_scheduler.queue.Empty):
            mailbox.get(timeout=1e-9)
        assert mailbox.empty()

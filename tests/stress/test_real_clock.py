"""System time as it passes: callbacks and waits come in their threads, and never early."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from backoff_ticker import SystemClock
from tests.helpers import PATIENCE, LoopThread, in_thread


@pytest.fixture
def loop_thread():
    """A loop in a thread; nothing may go wrong in it."""
    thread = LoopThread()
    yield thread
    thread.close()
    assert thread.errors == []


def test_without_a_loop_the_callback_runs_in_the_scheduler_thread():
    ran = threading.Event()
    threads = []
    when = time.monotonic() + 0.01
    timer = SystemClock().call_at(
        when, lambda: (threads.append((time.monotonic(), threading.current_thread())), ran.set())
    )
    assert timer.when == when
    assert ran.wait(PATIENCE)
    ((at, thread),) = threads
    assert at >= when
    assert thread.name == "backoff_ticker-scheduler"
    assert thread.daemon


def test_with_a_loop_the_callback_runs_there_and_never_early(loop_thread):
    async def fire_all():
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        start = time.monotonic()
        fired = []

        def callback(when):
            fired.append((when, time.monotonic(), threading.current_thread()))
            if len(fired) == 50:
                done.set_result(None)

        for step in range(50):
            when = start + step * 0.00037
            timer = SystemClock().call_at(when, lambda when=when: callback(when), loop=loop)
            assert timer.when == when
        await done
        return fired

    fired = loop_thread.run(fire_all())
    assert [at >= when for when, at, _ in fired] == [True] * 50
    assert {thread for _, _, thread in fired} == {loop_thread._thread}


def test_a_wait_ends_with_unpark():
    parker = SystemClock().parker("a test")
    waits = in_thread(parker.park, None)
    parker.unpark()
    assert waits.result(PATIENCE) is True


@pytest.mark.parametrize("delay", [0.0, 0.0001, 0.003, 0.01])
def test_a_wait_until_a_deadline_never_ends_early(delay):
    parker = SystemClock().parker()
    deadline = time.monotonic() + delay
    assert parker.park(deadline) is False
    assert time.monotonic() >= deadline

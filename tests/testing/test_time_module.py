"""The module ``time``, ``threading`` and ``queue`` under ``VirtualClock(patch_time=True)``."""

import asyncio
import pickle
import queue
import subprocess
import sys
import threading
import time

import pytest

from backoff_ticker.testing import (
    ClockLeakError,
    ClockUsageError,
    VirtualClock,
    VirtualDeadlockError,
)

from .real_threads import RealThread

EPOCH = 1_700_000_000
NAMES = ["monotonic", "perf_counter", "time"]


@pytest.fixture
def clock_options():
    return {"patch_time": True}


def readings():
    return [getattr(time, name)() for name in [*NAMES, *(f"{name}_ns" for name in NAMES)]]


def test_participants_and_the_driver_read_the_time_of_the_clock(clock):
    task = clock.spawn(lambda: clock.sleep(1.5) or readings())
    clock.advance(2)
    seconds = [1.5, 1.5, EPOCH + 1.5]
    assert task.result() == [*seconds, *(int(one * 10**9) for one in seconds)]
    assert readings()[:3] == [2.0, 2.0, EPOCH + 2.0]


def test_other_threads_and_what_comes_later_read_real_time():
    originals = [vars(time)[name] for name in [*NAMES, "sleep"]]
    before, others = readings(), []
    with VirtualClock(), VirtualClock(patch_time=True):
        assert time.monotonic is not originals[0]
        RealThread(lambda: others.extend(readings())).join(10)
    with VirtualClock():
        assert [vars(time)[name] for name in [*NAMES, "sleep"]] == originals
    for first, then, last in zip(before, others, readings(), strict=True):
        assert first <= then <= last


def test_two_clocks_tell_each_thread_its_own_time():
    original = time.time
    with VirtualClock(patch_time=True) as outer:
        with VirtualClock(start=100, patch_time=True):
            seen = [time.monotonic(), outer.spawn(time.monotonic).result()]
        assert (seen, time.monotonic(), time.time is original) == ([100.0, 0.0], 0.0, False)
    assert time.time is original


def test_a_replacement_can_be_pickled(clock):
    assert pickle.loads(pickle.dumps(time.sleep)) is time.sleep


def test_sleeps_are_waits_on_the_clock(patched_clock):
    threads = [threading.Thread(target=time.sleep, args=(seconds,)) for seconds in (3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    time.sleep(0)
    assert patched_clock.monotonic() == 4.0
    for wrong in (-1, float("nan")):
        with pytest.raises(ValueError):
            time.sleep(wrong)
    with pytest.raises(TypeError):
        time.sleep("1")


def test_a_sleep_in_a_coroutine_blocks_its_loop(patched_clock):
    async def main():
        other = asyncio.create_task(asyncio.sleep(1, "late"))
        await asyncio.sleep(0)
        time.sleep(5)  # noqa: ASYNC251 - that is the point
        assert not other.done()
        return await other

    assert asyncio.run(main()) == "late"
    assert patched_clock.monotonic() == 5.0


def test_the_thread_that_drives_cannot_sleep(clock):
    with pytest.raises(ClockUsageError, match=r"time\.sleep"):
        time.sleep(1)


def test_a_process_is_waited_for_in_real_time(patched_clock):
    done = subprocess.run([sys.executable, "-c", "pass"], timeout=50, check=True)
    assert (done.returncode, patched_clock.monotonic()) == (0, 0.0)


def test_time_outs_of_threading_and_queue_are_on_the_clock(patched_clock):
    with pytest.raises(queue.Empty):
        queue.Queue().get(timeout=5)
    full = queue.Queue(1)
    full.put(1)
    with pytest.raises(queue.Full):
        full.put(2, timeout=5)
    assert not threading.Event().wait(5)
    assert not threading.Semaphore(0).acquire(timeout=5)
    with pytest.raises(threading.BrokenBarrierError):
        threading.Barrier(2).wait(5)
    condition = threading.Condition()
    with condition:
        assert not condition.wait_for(lambda: False, 5)
    assert patched_clock.monotonic() == 30.0
    assert not condition._waiters


def test_a_wait_that_nothing_ends_is_a_deadlock_or_a_leak(patched_clock):
    with pytest.raises(VirtualDeadlockError, match=r"Condition\.wait\(\)"):
        queue.Queue().get()
    with pytest.raises(ClockLeakError), VirtualClock(patch_time=True) as clock:
        clock.spawn(threading.Event().wait)


def test_waits_are_real_inside_idle_and_external_and_in_the_thread_that_drives(patched_clock):
    event = threading.Event()
    for block in (patched_clock.idle, patched_clock.external):
        with block("somebody"):
            assert not event.wait(0.001)
            time.sleep(0.001)
            with pytest.raises(queue.Empty):
                queue.Queue().get(timeout=0.001)
    assert patched_clock.monotonic() == 0.0
    with VirtualClock(patch_time=True) as clock:
        assert not event.wait(0.001)
        with pytest.raises(queue.Empty):
            queue.Queue().get(timeout=0.001)
        assert clock.monotonic() == 0.0

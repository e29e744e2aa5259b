"""The system clock: what is a clock, callbacks and waits that never come early."""

import asyncio
import copy
import pickle
import runpy
import threading
import time
from types import SimpleNamespace

import pytest

from backoff_ticker import CancellationToken, Clock, SystemClock, current_clock
from backoff_ticker.clock import _scheduler, _time, resolve_clock
from backoff_ticker.testing import VirtualClock
from tests.helpers import PATIENCE, in_thread
from tests.stress.tools import run_script

A_DAY = 86_400.0


@pytest.fixture
def now(monkeypatch):
    """The time that parkers read, as ``now.value``."""
    now = SimpleNamespace(value=1000.0)
    monkeypatch.setattr(_scheduler, "monotonic", lambda: now.value)
    return now


def test_what_others_make_of_the_module_time_changes_nothing(replaced_time):
    clock = SystemClock()
    before = clock.monotonic()
    assert not clock.parker().park(before + 0.001)
    assert clock.monotonic() >= before + 0.001
    token = CancellationToken(clock=clock).child(timeout=0.001)
    assert token.wait(PATIENCE)
    assert clock.monotonic() >= token.deadline
    imported_late = runpy.run_path(_time.__file__)
    assert imported_late["monotonic"]() >= token.deadline
    assert imported_late["wall_time"]() > token.deadline


def test_there_is_one_system_clock():
    clock = SystemClock()
    assert SystemClock() is clock
    assert copy.copy(clock) is clock
    assert copy.deepcopy(clock) is clock
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(clock, protocol)) is clock
    assert repr(clock) == "SystemClock()"


def test_none_means_the_current_clock():
    assert resolve_clock(None) is current_clock() is SystemClock()
    with VirtualClock() as clock:
        assert resolve_clock(None) is current_clock() is clock
        assert clock.run(current_clock) is clock
        assert in_thread(current_clock).result(PATIENCE) is clock
    assert current_clock() is SystemClock()


@pytest.mark.parametrize("missing", ["monotonic", "time", "call_at", "parker"])
def test_an_object_that_lacks_a_method_is_refused(missing):
    methods = dict.fromkeys(("monotonic", "time", "call_at", "parker"), print)
    half = SimpleNamespace(**{**methods, missing: 1.0})
    with pytest.raises(TypeError) as caught:
        resolve_clock(half)
    assert str(caught.value).startswith("clock must be a Clock, not namespace(")
    assert str(caught.value).endswith(f": it has no method {missing}()")


def test_without_a_loop_a_callback_runs_in_the_scheduler_thread_and_not_early():
    ran, seen = threading.Event(), []
    when = time.monotonic() + 0.005

    def callback():
        seen.append((time.monotonic(), threading.current_thread().name))
        ran.set()

    assert SystemClock().call_at(when, callback).when == when
    assert ran.wait(PATIENCE)
    ((at, name),) = seen
    assert at >= when
    assert name == "backoff_ticker-scheduler"


def test_with_a_loop_a_callback_runs_there_and_not_early():
    async def main():
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        when = time.monotonic() + 0.0002
        SystemClock().call_at(when, lambda: done.set_result(threading.get_ident()), loop=loop)
        assert await done == threading.get_ident()
        assert time.monotonic() >= when

    asyncio.run(main())


def test_an_unpark_before_the_wait_ends_it_at_once_and_once():
    parker = SystemClock().parker()
    parker.unpark()
    parker.unpark()
    assert parker.park(None) is True
    assert parker.park(time.monotonic()) is False


@pytest.mark.parametrize("delay", [0.0, 1e-9, 0.0001, 0.003])
def test_a_wait_until_a_deadline_never_ends_early(delay):
    parker = SystemClock().parker()
    for _ in range(3):
        deadline = time.monotonic() + delay
        assert parker.park(deadline) is False
        assert time.monotonic() >= deadline


class FakeLock:
    """Never had in time: moves the clock on by a part of each wait and notes how long it was."""

    def __init__(self, now, shares=(1.0,)):
        self.waits = []
        self.opens_after = 1000
        self._now = now
        self._shares = list(shares)

    def acquire(self, blocking=True, timeout=-1):
        if not blocking:
            return False
        self.waits.append(timeout)
        share = self._shares.pop(0) if len(self._shares) > 1 else self._shares[0]
        self._now.value += timeout * share
        return len(self.waits) >= self.opens_after


@pytest.fixture(autouse=True)
def main_thread_waits_as_others(monkeypatch):
    monkeypatch.setattr(_scheduler, "_MISSED_SIGNAL", A_DAY)


def parker_with(lock):
    parker = SystemClock().parker()
    parker._lock = lock
    return parker


def test_a_lock_that_gives_up_early_is_waited_for_again(now):
    lock = FakeLock(now, [0.5, 0.5, 1.0])
    assert parker_with(lock).park(1008.0) is False
    assert lock.waits == [8.0, 4.0, 2.0]
    assert now.value == 1008.0


def test_a_lock_is_never_waited_for_longer_than_a_day(now):
    lock = FakeLock(now)
    assert parker_with(lock).park(1000.0 + 2.5 * A_DAY) is False
    assert lock.waits == [A_DAY, A_DAY, 0.5 * A_DAY]


def test_without_a_deadline_a_lock_is_waited_for_once_and_without_a_limit(now):
    lock = FakeLock(now, [0.0])
    lock.opens_after = 1
    assert in_thread(parker_with(lock).park, None).result(PATIENCE) is True
    assert lock.waits == [-1]


def test_as_a_lock_may_miss_signals_the_main_thread_looks_for_them(now, monkeypatch):
    monkeypatch.setattr(_scheduler, "_MISSED_SIGNAL", 0.25)
    waits = []
    for deadline in (None, 1001.0):
        lock, of_another = FakeLock(now), FakeLock(now)
        lock.opens_after = of_another.opens_after = 2
        assert parker_with(lock).park(deadline)
        now.value = 1000.0
        in_thread(parker_with(of_another).park, deadline).result(PATIENCE)
        now.value = 1000.0
        waits += [lock.waits, of_another.waits]
    assert waits == [[0.25] * 2, [-1], [0.25] * 2, [1.0]]


def test_a_signal_that_comes_as_the_main_thread_begins_to_wait_is_noticed():
    script = """
import os, signal
from backoff_ticker import CancellationToken
main, (told, tell) = os.getpid(), os.pipe()
if not os.fork():
    os.close(tell)
    while os.read(told, 1):
        os.kill(main, signal.SIGUSR1)
    os._exit(0)
tokens = []
signal.signal(signal.SIGUSR1, lambda *_: tokens[-1].cancel())
for deadline in [None] * 5 + [60] * 5:
    tokens.append(CancellationToken())
    os.write(tell, b"!")
    assert tokens[-1].wait(deadline)
"""
    assert run_script(script).returncode == 0


@pytest.mark.parametrize("kind", [SystemClock, VirtualClock])
def test_a_class_is_refused(kind):
    with pytest.raises(TypeError, match="^clock must be a Clock"):
        resolve_clock(kind)


def test_it_keeps_the_contract_of_a_clock():
    assert isinstance(SystemClock(), Clock)

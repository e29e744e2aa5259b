"""An exploration leaves everything as it was, also one that is cut."""

import _thread
import gc
import os
import queue
import random
import selectors
import signal
import sys
import threading
import time
import types
from contextlib import suppress

import pytest

from backoff_ticker import current_clock
from backoff_ticker.testing import ScheduleFailure, explore
from tests.helpers import eventually
from tests.stress.places import Interrupted, check_each_place
from tests.testing.exploring import bodies

pytestmark = pytest.mark.filterwarnings("ignore:explore:RuntimeWarning")  # that watched too little


def state():
    monitoring = getattr(sys, "monitoring", None)
    return (
        *(threading.Lock, threading.RLock, threading.Thread.join, threading.excepthook),
        *(queue.SimpleQueue, time.sleep, time.monotonic),
        *(selectors.DefaultSelector.select, threading.Thread.__hash__),
        *(repr(current_clock()), sys.gettrace(), threading.gettrace(), gc.isenabled()),
        *([monitoring.get_tool(number) for number in range(6)] if monitoring else []),
    )


@pytest.fixture(autouse=True)
def _as_before():
    before, threads = state(), threading.active_count()
    yield
    assert state() == before
    eventually(lambda: threading.active_count() <= threads)
    assert explore(bodies.pool, schedules=2).schedules == 2


@pytest.fixture
def on_interrupt():
    """Have SIGINT raise in this thread."""

    def handler(*_):
        raise Interrupted

    before = signal.signal(signal.SIGINT, handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_failure():
    before = random.getstate()
    with pytest.raises(ScheduleFailure):
        explore(bodies.two_locks)
    assert random.getstate() == before


def test_locks_made_before_are_put_back():
    def kept():
        condition, registry = bodies.CONDITION, bodies.REGISTRY
        locks = (condition._lock, condition.acquire, bodies.GLOBAL_LOCK, bodies.Guarded.lock)
        held = (registry.lock, registry.by_name["a"], registry.in_a_row[0][0]._cond._lock)
        return (*locks, *held, registry.use.lock, bodies.QUEUE.mutex, bodies.QUEUE.not_empty._lock)

    before, inside = kept(), []
    explore(lambda: inside.append(kept()), watch=bodies, schedules=1)
    assert not {id(each) for each in before} & {id(each) for each in inside[0]}
    assert inside[0][-1] is inside[0][-2]
    assert kept() == before


@pytest.mark.parametrize("lock", [threading.Lock(), threading.RLock()])
def test_locks_made_before_are_released_by_those_who_have_to_leave(lock):
    came = []

    def hold():
        with lock:
            came.append("in")  # where it has to leave comes after this, before the release
        came.append("out")

    def body():
        came.clear()
        bodies.run(hold, lambda: 1 / (came != ["in"]))

    with pytest.raises(ScheduleFailure) as failure:
        explore(body)
    assert str(failure.value).startswith("Thread-2 (<lambda>) ended with ZeroDivisionError")
    assert lock.acquire(blocking=False)
    lock.release()


@pytest.mark.usefixtures("on_interrupt")
def test_an_interrupt_is_raised_when_all_threads_have_ended():
    left = _thread.allocate_lock()
    left.acquire()
    calls, too_early = [], []

    def work():
        calls.append(1)
        if len(calls) == 5:
            _thread.interrupt_main()
            too_early.append(left.acquire(timeout=0.2))

    with pytest.raises(Interrupted):
        explore(lambda: bodies.run(work, work), watch=bodies)
    left.release()
    assert too_early == [False]


def test_an_interrupt_anywhere_in_the_thread_that_waits():
    before, traced = state(), sys.gettrace()

    def run(interrupt):
        with suppress(Interrupted), interrupt:
            explore(lambda: None)
        sys.settrace(traced)
        return [pair for pair in zip(state(), before, strict=True) if pair[0] != pair[1]]

    check_each_place(run, all_of_them=True, at_least=15)


def test_a_replacement_of_several_originals(monkeypatch):
    names = {"allocate_lock": _thread.allocate_lock, "lock": threading.Lock}
    later = types.SimpleNamespace(**names)
    monkeypatch.setitem(sys.modules, "zzz_later", later)
    explore(bodies.pool, schedules=2)
    assert vars(later) == names


def test_a_module_that_does_not_show_what_it_holds(monkeypatch):
    class Lazy:
        @property
        def __dict__(self):
            raise ImportError("an optional part is not installed")

    monkeypatch.setitem(sys.modules, "zzz_lazy", Lazy())
    with pytest.raises(ImportError, match="an optional part"):
        explore(bodies.pool, schedules=1)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # has several threads
def test_a_forked_child_belongs_to_no_schedule():
    before, codes = (threading.Lock, time.sleep, selectors.DefaultSelector.select), []

    def body():
        event = threading.Event()
        threading.Thread(target=event.wait).start()
        child = os.fork()
        if not child:
            signal.alarm(20)
            threading.Event().wait(0.001)
            after = (threading.Lock, time.sleep, selectors.DefaultSelector.select)
            os._exit(3 if after == before else 4)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        event.set()

    explore(body, preemptions=0)
    assert set(codes) == {3}


def test_a_trace_function_sees_the_instructions_of_what_was_watched():
    seen = []

    def trace(frame, event, _):
        if frame.f_code is not bodies.Account.deposit.__code__:
            return None
        frame.f_trace, frame.f_trace_opcodes, frame.f_trace_lines = trace, True, False
        seen.append(event)
        return trace

    def count():
        seen.clear()
        sys._getframe().f_trace_opcodes = True  # 3.12: needed before the tracing begins
        traced = sys.gettrace()
        sys.settrace(trace)
        bodies.Account().deposit()
        sys.settrace(traced)
        return len(seen)

    before = count()
    assert before > 2
    explore(bodies.update_with_a_lock)
    assert count() == before

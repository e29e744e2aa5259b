"""An interrupt, a signal handler, a finalizer or another thread at every place: no key is lost."""

from __future__ import annotations

import gc
import threading
from contextlib import suppress
from functools import partial

import pytest

from backoff_ticker import Channel, ConstantBackOff, Schedule, ScheduleClosed, WouldBlock, select
from backoff_ticker.schedules import _core
from backoff_ticker.waiting import Waiter
from tests import effort
from tests.helpers import PATIENCE, SetClock, collect_garbage, eventually, in_thread, waiters_of
from tests.interleaving import each_interleaving
from tests.schedules.workers import Evil, Told, reopen, schedule_of, take_all
from tests.stress.places import PACKAGE, Interrupted, check_each_place
from tests.stress.tools import Finalized, gc_threshold, signal_storm

HOUR = 3600.0


class Sleeper(Waiter):
    """Who waits for a schedule, or for its drain, without a thread."""

    def __init__(self, wait_set, recheck):
        super().__init__(None, (wait_set,))
        self._recheck = recheck
        self.look_again()

    def look_again(self):
        self._is_woken = False
        self.register()
        until = self._recheck(self)
        self.until = None if self._is_woken else until

    def wake(self):
        self._is_woken, self.until = True, None
        return True

    def sleeps_too_long(self, now):
        """Whether nobody has woken it, although it has to look again, or earlier."""
        if self.until is None or self.until <= now:
            return False
        until = self._recheck(self)
        return until is None or until < self.until


class Scene:
    """A schedule: the worker of this thread has "held", "a" is due, and "late" is not.

    A reader and a drain wait, as far as there is something to wait for.
    """

    def __init__(self, **options):
        self.clock = SetClock()
        self.told = Told()
        options = {"every": 60, "backoff": ConstantBackOff(30)} | options
        self.schedule = Schedule(clock=self.clock, **self.told.hooks, **options)
        self.schedule.add("held")
        self.job = self.schedule.receive_nowait()
        self.schedule.add("late", HOUR)
        self.sleepers = [Sleeper(self.schedule._readers, self.schedule._recheck)]
        self.drain()
        self.got = []

    def drain(self):
        self.sleepers.append(Sleeper(self.schedule._drains, self.schedule._recheck_drain))

    def due(self):
        """Have a key fall due, while the reader sleeps until then."""
        self.schedule.add("a", 1)
        self.sleepers[0].look_again()
        self.clock.advance(1)

    def take(self):
        self.got.append(self.schedule.receive_nowait())

    def end(self, how, *args):
        with self.job as job:
            getattr(job, how)(*args)

    def fail(self):
        with self.job:
            raise OSError

    def drop(self):
        self.job = None

    def add(self, *args):
        self.schedule.add(*args)

    def faults(self, may_be=(), may_be_gone=(), must_be=()):
        """Say what is wrong once all jobs have been ended or dropped, and all keys fell due.

        "held", "late" and all that was got must be there, too.
        """
        now = self.clock.now
        faults = [f"{s._recheck} sleeps" for s in self.sleepers if s.sleeps_too_long(now)]
        schedule = self.schedule
        must_be = {"held", "late", *must_be, *(job.key for job in self.got)}
        for job in [*self.got, *filter(None, [self.job])]:
            job.retry_in(0)
        self.got = self.job = job = None
        collect_garbage()
        keys = []
        for _ in "ab":  # a job that was dropped is a failure, and its key has a rest
            self.clock.advance(2 * HOUR)
            with suppress(WouldBlock):
                while len(keys) < 20:
                    job = schedule.receive_nowait()
                    keys.append(job.key)
                    job.leave()
        if schedule.in_flight or schedule._told:
            faults.append(f"{schedule.in_flight} in flight")
        must_be -= {*may_be_gone}
        if len({*keys}) < len(keys) or not must_be <= {*keys} <= must_be | {*may_be, *may_be_gone}:
            faults.append(keys)
        return faults


ACTS = {
    "add": (lambda s: s.add("new"), {"may_be": ["new"]}),
    "add an earlier time": (lambda s: s.add("late"), {}),
    "add while held": (lambda s: s.add("held"), {}),
    "add_all": (lambda s: s.schedule.add_all(["x", "y"], over=0), {"may_be": ["x", "y"]}),
    "remove": (lambda s: s.schedule.remove("late"), {"may_be_gone": ["late"]}),
    "remove while held": (lambda s: s.schedule.remove("held"), {"may_be_gone": ["held"]}),
    "remove and add": (
        lambda s: [s.schedule.remove("held"), s.add("held", 5)],
        {"may_be_gone": ["held"]},
    ),
    "succeed": (lambda s: s.end("succeed"), {}),
    "succeed once asked for": (lambda s: [s.add("held"), s.end("succeed")], {}),
    "fail": (lambda s: s.job.fail(), {}),
    "fail with an error": (Scene.fail, {}),
    "retry_in": (lambda s: s.job.retry_in(5), {}),
    "leave": (lambda s: s.end("leave"), {"may_be_gone": ["held"]}),
    "take": (lambda s: [s.due(), s.take()], {"may_be": ["a"]}),
    "next": (lambda s: [s.due(), s.got.append(next(s.schedule))], {"may_be": ["a"]}),
    "select": (
        lambda s: [s.due(), s.got.append(select(s.schedule, Channel(), timeout=0)[1])],
        {"may_be": ["a"]},
    ),
    "take in vain": (lambda s: [s.drop(), gc.collect(), s.take()], {}),
    "look": (lambda s: [len(s.schedule), s.schedule.in_flight, "held" in s.schedule], {}),
    "close": (lambda s: s.schedule.close(), {}),
}
TAKES = ["take", "next", "select"]
GROUPED = pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="alone"),
        pytest.param({"group": len, "limit": 3}, id="grouped", marks=pytest.mark.slow),
    ],
)


def run_act(name, options, interrupt, handle=None):
    """Run an act that is interrupted, or in which a handler does what it does; return the faults.

    Args:
        handle: Called with the scene; adds "of the handler", and removes "other".
    """
    act, expected = ACTS[name]
    scene = Scene(**options)
    if handle is not None:
        scene.schedule.add("other", HOUR)
        interrupt.handler = lambda: handle(scene)
    with suppress(Interrupted, OSError, WouldBlock, ScheduleClosed), interrupt:
        act(scene)
    interrupt.handler = None
    interrupt.forget()
    if handle is not None:
        key = "of the handler" if interrupt.where else "other"
        expected = {"must_be": [key], **expected}
    if name == "add" and scene.schedule._told:
        return ["told, and nobody makes it"]
    if name in TAKES and scene.told.failures:
        return ["a failure is counted"]
    if name == "close":
        scene.schedule.close()
        reopen(scene.schedule)
    return scene.faults(**expected)


@GROUPED
@pytest.mark.parametrize("name", ACTS)
@pytest.mark.filterwarnings("ignore:.*'held'.*dropped before its end:ResourceWarning")
def test_an_interrupt_loses_no_key_and_leaves_nobody_asleep(name, options):
    check_each_place(
        lambda interrupt: run_act(name, options, interrupt),
        but=["_drop"],
        all_of_them=name in ("add", *TAKES) and effort.has_lock(),  # else they take minutes
    )


def add_and_remove(scene):
    reopen(scene.schedule)  # where the act is a close
    scene.schedule.add("of the handler")
    scene.schedule.remove("other")
    assert len(scene.schedule) >= scene.schedule.failing


def take_and_end(scene):
    add_and_remove(scene)
    with suppress(WouldBlock):
        scene.schedule.receive_nowait().retry_in(0)


def add_and_raise(scene):
    add_and_remove(scene)
    raise Interrupted


@GROUPED
@pytest.mark.parametrize("handle", [add_and_remove, take_and_end, add_and_raise])
@pytest.mark.parametrize("name", ACTS)
@pytest.mark.filterwarnings("ignore:.*dropped before its end:ResourceWarning")
def test_what_a_handler_adds_and_removes_in_the_middle_of_a_change_takes_effect(
    name, handle, options
):
    check_each_place(lambda interrupt: run_act(name, options, interrupt, handle), but=["_drop"])


# Waits; finalizers


@pytest.mark.filterwarnings("ignore:.*dropped before its end:ResourceWarning")
def test_an_interrupted_wait_leaves_no_other_worker_asleep():
    """The one that is interrupted watches the time; the other one gets the key then."""

    def run(interrupt):
        schedule, keys = Schedule(), []
        schedule.add("a", 0.004)
        with suppress(Interrupted), interrupt:
            with schedule.receive(PATIENCE) as job:
                keys.append(job.key)
            schedule.add("a")
        interrupt.forget()
        job = None
        if not len(schedule):
            schedule.add("a")
        with in_thread(schedule.receive, PATIENCE).result(PATIENCE) as job:
            keys.append(job.key)
        return waiters_of(schedule._readers)

    check_each_place(run, but=["_drop"], at_least=20)


@pytest.mark.parametrize("threshold", [1, 5])
def test_finalizers_add_and_remove_wherever_a_collection_runs(threshold):
    def one_round():
        schedule = Schedule(clock=SetClock(), group=str.upper, limit=1)
        schedule.add_all("abc")
        Finalized(lambda: schedule.add("new"))
        Finalized(lambda: schedule.remove("b"))
        for key in "cd":
            schedule.add(key)
            with suppress(WouldBlock):
                schedule.receive_nowait().retry_in(0)
        eventually(lambda: gc.collect() >= 0 and "new" in schedule and "b" not in schedule)
        assert sorted(take_all(schedule)) == ["a", "c", "d", "new"]

    with gc_threshold(threshold):
        for _ in range(15):
            in_thread(one_round).result(PATIENCE)


@pytest.mark.posix
@pytest.mark.filterwarnings("ignore:.*dropped before its end:ResourceWarning")
def test_interrupts_at_moments_of_chance_lose_no_key():
    """In the main thread, while another one works on the same keys."""
    schedule = Schedule(every=1e-4, backoff=ConstantBackOff(0), notify=lambda *_: None)
    schedule.add_all(range(8), over=0)
    armed, caught = threading.Event(), 0

    def interrupt(frame):
        if armed.is_set() and frame.f_code.co_filename.startswith(PACKAGE):
            while frame is not None:
                if frame.f_code.co_name == "_drop":  # Python would only print it
                    return
                frame = frame.f_back
            armed.clear()
            raise KeyboardInterrupt

    def work():
        for job in schedule:
            with job:
                pass

    def work_once():
        with schedule.receive(PATIENCE) as job:
            schedule.remove(job.key)
            schedule.add(job.key)

    working = in_thread(work)
    with signal_storm(interrupt):
        while caught < effort.rounds(25, 300):
            armed.set()
            try:
                work_once()
            except KeyboardInterrupt:
                caught += 1
                for key in range(8):  # it may have come between the two calls
                    schedule.add(key)
    schedule.close()
    working.result(PATIENCE)
    reopen(schedule)
    seen = set()
    while len(seen) < 8:
        with schedule.receive(PATIENCE) as job:
            seen.add(job.key)
            job.leave()
    assert schedule.drain(0)


# Two threads


CALLS = {
    "add": lambda s: s.add("new"),
    "add held": lambda s: s.add("held"),
    "add late": lambda s: s.add("late"),
    "remove held": lambda s: s.schedule.remove("held"),
    "succeed": lambda s: s.job.succeed(),
    "fail": lambda s: s.job.fail(),
    "leave": lambda s: s.job.leave(),
    "take": Scene.take,
    "drain": Scene.drain,
    "close": lambda s: s.schedule.close(),
}
PAIRS = [
    *(("take", other) for other in CALLS if other != "drain"),
    *(("add held", other) for other in ("succeed", "fail", "leave", "remove held")),
    *(("remove held", other) for other in ("succeed", "fail", "leave")),
    *((end, "drain") for end in ("succeed", "take")),
    ("add", "add late"),
]
QUICK = [
    *(("take", "take"), ("take", "add"), ("take", "drain"), ("take", "fail")),
    *(("succeed", "add held"), ("succeed", "drain")),
]


def do(scene, call):
    with suppress(WouldBlock, ScheduleClosed):
        CALLS[call](scene)


def state_after(scene, calls):
    """Return who has what and when the others are due, after so many calls."""
    for call in calls:
        do(scene, call)
    schedule = scene.schedule
    failing, in_flight = schedule.failing, schedule.in_flight
    due = {entry.key: entry.due for entry in schedule._keys.entries.values()}
    return sorted(job.key for job in scene.got), due, failing, in_flight, schedule.closed


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(*pair, marks=[] if pair in QUICK else pytest.mark.slow)
        for pair in dict.fromkeys([*PAIRS, *(pair[::-1] for pair in PAIRS)])
    ],
)
@pytest.mark.filterwarnings("ignore:.*dropped before its end:ResourceWarning")
def test_two_calls_are_as_if_one_came_after_the_other_and_leave_nobody_asleep(
    monkeypatch, first, second
):
    """A worker that finds the keys owned gets nothing, and is woken later."""
    monkeypatch.setattr(_core, "_PATIENCE", 3)
    scenes = []

    def begin():
        scenes[:] = [scene := Scene(every=None)]
        if "take" in (first, second):
            scene.due()
        if {"drain", "fail"} & {first, second} or "take" not in (first, second):
            # Else a drain waits, for which each end is made at once.
            scene.sleepers.pop().unregister()
        if {first, second} == {"take", "drain"}:  # who takes makes what was told of the job's end
            scene.job.fail()
        return [partial(do, scene, call) for call in (first, second)]

    orders = [(first, second), (second, first)]
    orders += [[second]] * (first == "take") + [[first]] * (second == "take")
    allowed = []
    for order in orders:
        begin()
        allowed.append(state_after(scenes[0], order))
    for _ in each_interleaving(begin, monkeypatch):
        [scene] = scenes
        asleep = [sleeper for sleeper in scene.sleepers if sleeper.until is not None]
        assert state_after(scene, []) in allowed
        assert [sleeper for sleeper in asleep if sleeper.until is None] == [], "only now woken"
        if first == second == "take":
            scene.take() if len(scene.got) < 1 else None
        now = scene.clock.now
        assert [sleeper for sleeper in scene.sleepers if sleeper.sleeps_too_long(now)] == []


# Keys whose methods raise


def test_a_key_that_cannot_be_compared_is_an_error_and_harms_no_other(workers):
    schedule = Schedule()
    good, evil = Evil(), Evil("eq")
    schedule.add(good)
    for call in (schedule.add, schedule.remove, lambda key: schedule.add_all([key])):
        with pytest.raises(ZeroDivisionError, match="of __eq__"):
            call(evil)
    assert (len(schedule), take_all(schedule)) == (1, [good])


def test_a_key_that_was_not_added_for_its_comparison_does_not_come_in_part():
    schedule = Schedule()
    held, other = Evil("eq"), Evil()
    schedule.add(held)
    job = schedule.receive_nowait()
    schedule.remove(held)
    with pytest.raises(ZeroDivisionError):
        schedule.add(other)
    job.succeed()
    assert schedule.add(other)
    assert take_all(schedule) == [other]


@pytest.mark.parametrize("when", ["waits", "held"])
def test_a_key_whose_hash_fails_later_does_not_stop_the_others(when, monkeypatch):
    reported = []
    monkeypatch.setattr("sys.unraisablehook", reported.append)
    schedule, evil = Schedule(), Evil()
    schedule.add(evil)
    schedule.add("good")
    if when == "held":
        job = schedule.receive_nowait()
        evil.raises.add("hash")
        job.succeed()
    else:
        evil.raises.add("hash")
        job = schedule.receive_nowait()
        assert job.key is evil
    assert schedule.in_flight == (when == "waits")
    assert take_all(schedule) == ["good"]


def test_what_a_key_does_while_it_is_compared():
    """It may add and remove, as a handler may; it cannot wait for a job, or for all to end."""

    class Nosy(Evil):
        def __eq__(self, other):
            schedule.add("of the key")
            schedule.remove("late")
            for wait in (schedule.receive, schedule.drain):
                with pytest.raises(RuntimeError, match="interrupted a call of the same schedule"):
                    wait(1)
            return False

        __hash__ = Evil.__hash__

    schedule = schedule_of("held")
    job = schedule.receive_nowait()
    schedule.add("late", HOUR)
    schedule.add(Evil())
    assert schedule.add(nosy := Nosy())
    job.leave()
    assert "late" not in schedule
    assert take_all(schedule)[1:] == [nosy, "of the key"]

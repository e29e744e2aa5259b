"""An interrupt, a signal handler, a finalizer or another thread at every place: no key is lost."""

from __future__ import annotations

import gc
import warnings
from contextlib import suppress

import pytest

from backoff_ticker import Channel, ConstantBackOff, Schedule, ScheduleClosed, WouldBlock, select
from backoff_ticker.waiting import NO_DEADLINE, Waiter, WaitLine
from tests import effort
from tests.helpers import PATIENCE, SetClock, eventually, in_thread, waiters_of
from tests.interleaving import each_interleaving
from tests.schedules.workers import Told, take_all
from tests.stress.places import Interrupted, check_each_place
from tests.stress.tools import Finalized, gc_threshold

HOUR = 3600.0


class Sleeper(Waiter):
    """Who waits for a schedule, or for its drain, without a thread."""

    def __init__(self, wait_set, recheck):
        super().__init__(None, (wait_set,))
        self._recheck = recheck
        self.register()
        self.look_again()

    def look_again(self):
        self.until = self._recheck(self)

    def wake(self):
        self.until = None
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
        self.sleepers = [
            Sleeper(self.schedule._readers, self.schedule._recheck),
            Sleeper(self.schedule._drains, self.schedule._recheck_drain),
        ]
        self.got = []

    def due(self):
        """Have a key fall due, while the reader sleeps until then."""
        self.schedule.add("a", 1)
        self.sleepers[0].look_again()
        self.clock.advance(1)

    def take(self):
        self.got.append(self.schedule.receive_nowait())

    def next(self):
        self.got.append(next(self.schedule))

    def choose(self):
        self.got.append(select(self.schedule, Channel(), timeout=0)[1])

    def end(self, how, *args):
        with self.job as job:
            getattr(job, how)(*args)

    def end_at_once(self, how, *args):
        getattr(self.job, how)(*args)

    def fail(self):
        with self.job:
            raise OSError

    def drop(self):
        self.job = None

    def add(self, *args):
        self.schedule.add(*args)

    def faults(self, may_be=(), may_be_gone=(), must_be=()):
        """Say what is wrong once all jobs have been ended or dropped, and all keys fell due.

        Args:
            may_be: Keys that may be there.
            may_be_gone: Keys that may have left.
            must_be: Keys that must be there, beside "held" and "late".
        """
        now = self.clock.now
        faults = [f"{each._recheck} sleeps" for each in self.sleepers if each.sleeps_too_long(now)]
        schedule, must_be = self.schedule, {"held", "late", *must_be, *(job.key for job in self.got)}
        for job in [*self.got, *filter(None, [self.job])]:
            job.retry_in(0)
        self.got = self.job = job = None
        gc.collect()
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
    "fail": (lambda s: s.end_at_once("fail"), {}),
    "fail with an error": (Scene.fail, {}),
    "retry_in": (lambda s: s.end_at_once("retry_in", 5), {}),
    "leave": (lambda s: s.end("leave"), {"may_be_gone": ["held"]}),
    "take": (lambda s: [s.due(), s.take()], {"may_be": ["a"]}),
    "next": (lambda s: [s.due(), s.next()], {"may_be": ["a"]}),
    "select": (lambda s: [s.due(), s.choose()], {"may_be": ["a"]}),
    "take in vain": (lambda s: [s.drop(), gc.collect(), s.take()], {}),
    "look": (lambda s: [len(s.schedule), s.schedule.in_flight, "held" in s.schedule], {}),
    "close": (lambda s: s.schedule.close(), {}),
}
GROUPED = pytest.mark.parametrize("options", [{}, {"group": len, "limit": 3}], ids=["", "grouped"])


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
    if name == "close":
        scene.schedule.close()
        scene.schedule._closed = False  # to see what is in it
    return scene.faults(**expected)


@GROUPED
@pytest.mark.parametrize("name", ACTS)
@pytest.mark.filterwarnings("ignore:.*'held'.*dropped before its end:ResourceWarning")
def test_an_interrupt_loses_no_key_and_leaves_nobody_asleep(name, options):
    check_each_place(
        lambda interrupt: run_act(name, options, interrupt), but=["__del__"], all_of_them=True
    )


def add_and_remove(scene):
    scene.schedule._closed = False  # where the act is a close
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
    check_each_place(lambda interrupt: run_act(name, options, interrupt, handle), but=["__del__"])


# Two interrupts; waits



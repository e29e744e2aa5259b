"""Interrupts, forks and dropped jobs: no key is lost or given twice, and nobody sleeps for ever."""

import contextlib
import dis
import os
import sys
import warnings
from functools import partial

import pytest

from backoff_ticker import CancellationToken, Schedule, ScheduleClosed, WouldBlock, _process, select
from backoff_ticker.schedules import _core, _keys
from backoff_ticker.schedules._keys import Entry, Keys
from backoff_ticker.waiting import Waiter
from tests import effort
from tests.helpers import SetClock, collect_garbage, fork, in_thread
from tests.interleaving import each_interleaving
from tests.schedules.workers import schedule_of
from tests.stress.places import Interrupted, check_each_place, each_place


def all_due(schedule):
    jobs = []
    with contextlib.suppress(WouldBlock):
        while True:
            jobs.append(schedule.receive_nowait())
    return jobs


def keys_of(jobs):
    return sorted(job.key for job in jobs)


def told_removal(schedule, key):
    """Tell a schedule to remove a key; return the change, which nobody has made yet."""
    change = _core.Change(Keys.remove, key)
    schedule._told.append(change)
    return change


def in_child(check):
    """Return whether ``check()`` is true in a forked child."""
    effort.leave_the_tracer()
    return os.waitpid(fork(check), 0)[1] == 0


def test_a_second_interrupt_does_not_leave_the_keys_owned(monkeypatch):
    def interrupt(*_):
        raise Interrupted

    monkeypatch.setattr(_core, "complete", interrupt)

    def run(interrupt):
        schedule = Schedule()
        with contextlib.suppress(Interrupted), interrupt:
            schedule.add("a")
            for job in [schedule.receive_nowait()]:
                job._hold.watch = None
        interrupt.forget()
        assert schedule._owner is None, interrupt.where

    assert each_place(run, all_of_them=True) > 15


def test_no_loop_of_an_owner_jumps_back_outside_of_its_try():
    code = _core.ScheduleCore._settle.__code__
    jumps = [
        at for at in dis.get_instructions(code) if at.opname in ("JUMP_BACKWARD", "JUMP_ABSOLUTE")
    ]
    assert jumps
    covered = dis._parse_exception_table(code)
    for jump in jumps:
        assert any(entry.start <= jump.offset < entry.end for entry in covered)


def test_an_owner_who_is_interrupted_makes_what_other_threads_have_told_and_answers_them():
    def run(interrupt):
        schedule = schedule_of("a")
        removed = told_removal(schedule, "a")
        entry = Entry("b", schedule._monotonic(), 0.0, None)
        schedule._told.append(_core.Change(Keys.add, [entry]))
        with contextlib.suppress(Interrupted), interrupt:
            len(schedule)
        interrupt.forget()
        assert "a" not in schedule
        if removed.answer is not True:
            yield removed.answer
        jobs = all_due(schedule)
        if not schedule._told and keys_of(jobs) != ["b"]:
            yield "asleep"
        for job in jobs:
            job.leave()

    check_each_place(run, all_of_them=True, at_least=20)


def test_an_interrupt_in_the_end_of_a_block_gives_the_key_back_at_once():
    def run(interrupt):
        schedule = schedule_of("a", every=9)
        job = schedule.receive_nowait()
        with contextlib.suppress(Interrupted), job:
            interrupt.__enter__()
        interrupt.__exit__()
        interrupt.forget()
        if interrupt.where and not interrupt.where.startswith("Job.__exit__") and job._hold.watch:
            yield "the worker still has it"
        job._hold.watch = None

    check_each_place(run, all_of_them=True, at_least=15)


def test_drain_is_woken_where_the_first_who_waited_has_left(clock):
    schedule = Schedule(every=10, clock=clock)
    schedule.add_all("ab", over=1)
    job = schedule.receive(0)
    first = Waiter(None, (schedule._drains,))  # of a domain of its own, such as the main thread
    first.register()
    waits = in_thread(schedule.drain)
    clock.settle()
    first.unregister()
    job.succeed()
    assert waits.result() is True


def test_drain_is_woken_when_only_dropped_jobs_are_left(clock):
    schedule = Schedule(clock=clock, notify=lambda *_: None)
    schedule.add_all("ab")
    dropped, other = schedule.receive(0), schedule.receive(0)
    schedule.close()
    with pytest.warns(ResourceWarning, match="'a'"):
        del dropped
        collect_garbage()
    waits = in_thread(schedule.drain)
    clock.settle()
    other.succeed()
    assert waits.result() is True


@pytest.mark.parametrize("kind", [ValueError, IndexError])
def test_what_notify_raises_about_a_dropped_job_is_reported(clock, monkeypatch, kind):
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", reported.append)

    def notify(*_):
        raise kind("of notify")

    schedule = schedule_of("a", clock=clock, notify=notify)
    with pytest.warns(ResourceWarning, match="'a'"):
        schedule.receive(0)
    schedule.add("b")
    with schedule.receive(0) as job:
        assert job.key == "b"
    assert [str(report.exc_value) for report in reported] == ["of notify"]


def test_a_policy_that_is_false_is_asked(clock):
    class Delays(list):
        def next_backoff(self):
            return 1000.0

        def reset(self):
            pass

    schedule = schedule_of("a", backoff=Delays(), clock=clock, notify=lambda *_: None)
    schedule.receive(0).fail()
    clock.advance(999)
    with pytest.raises(WouldBlock):
        schedule.receive_nowait()


def test_who_waits_longest_in_a_group_comes_first(clock):
    schedule = schedule_of("x", group=lambda _: 0, limit=1, clock=clock)
    job = schedule.receive(0)
    for key in "ab":
        clock.advance(1)
        schedule.add(key)
    assert all_due(schedule) == []
    with pytest.raises(KeyboardInterrupt), job:
        raise KeyboardInterrupt  # "a" is let in, but "x" has waited longer
    order = []
    for _ in range(3):
        job = schedule.receive(0)
        assert all_due(schedule) == []
        order.append(job.key)
        job.leave()
    assert order == ["x", "a", "b"]


def test_the_place_of_a_job_that_ends_without_memory_is_free_later(monkeypatch):
    def no_memory(*_):
        raise MemoryError

    schedule = schedule_of("a", group=lambda _: 0, limit=1)
    job = schedule.receive(0)
    schedule.add("b")
    assert all_due(schedule) == []
    with monkeypatch.context() as patch:
        patch.setattr(_keys, "heappush", no_memory)
        with pytest.raises(MemoryError):
            job.leave()
    jobs = all_due(schedule)
    assert keys_of(jobs) == ["b"]
    jobs.pop().leave()


def test_a_key_that_is_moved_in_the_line_of_its_group_takes_no_memory():
    schedule = schedule_of("long", group=lambda _: 0, limit=1)
    job = schedule.receive(0)
    for _ in range(1000):
        schedule.add("moved")
        assert all_due(schedule) == []
        schedule.remove("moved")
    assert len(schedule._keys._groups[0].line) < 100
    job.leave()


def test_a_forked_child_has_the_keys_whose_work_had_ended():
    schedule = Schedule(every=10)
    schedule.add_all("ab")
    with schedule.receive(0):
        pass
    assert in_child(lambda: len(schedule) == 2)


def test_a_job_of_the_parent_that_is_dropped_in_the_child_takes_no_other_key():
    schedule = schedule_of("a")
    jobs = [schedule.receive(0)]

    def check():
        warnings.simplefilter("ignore")
        assert len(schedule) == 0
        jobs.clear()
        schedule.add_all("bc")
        taken = all_due(schedule)
        return keys_of(taken) == ["b", "c"] and schedule.in_flight == 2

    assert in_child(check)
    jobs.pop().succeed()


def test_a_key_that_waits_for_a_worker_of_the_parent_is_due_in_a_forked_child():
    schedule = Schedule(group=lambda _: 0, limit=1)
    schedule.add_all("ab")
    job = schedule.receive(0)
    assert all_due(schedule) == []
    assert in_child(lambda: schedule.receive_nowait().key == "b")
    job.leave()


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("what", ["receive", "end", "settle"])
def test_a_fork_in_the_middle_of_a_change(monkeypatch, what):
    def begin():
        # With a limit each end is made at once.
        schedule = Schedule() if what == "settle" else Schedule(group=lambda _: 0, limit=5)
        schedule.add_all("ab")
        if what == "receive":
            act = schedule.receive_nowait
        else:
            job = schedule.receive_nowait()
            act = partial(job.retry_in, 0)
        if what == "settle":
            act()
            act = partial(len, schedule)

        def check():
            jobs = all_due(schedule)
            has_both = keys_of(jobs) == ["a", "b"]
            is_right = has_both or (keys_of(jobs) == ["b"] and what != "settle")
            return is_right and schedule.in_flight == len(jobs) == len(schedule)

        return act, lambda: in_child(check)

    for job, is_right in each_interleaving(begin, monkeypatch):
        if what == "receive":
            job.succeed()
        assert is_right is True


@pytest.mark.parametrize("other", [[], ["b"]])
@pytest.mark.parametrize("look", [len, lambda schedule: "a" in schedule])
def test_a_key_that_was_removed_is_not_counted_while_its_work_ends(monkeypatch, look, other):
    monkeypatch.setattr(_core, "_PATIENCE", 3)

    def begin():
        schedule = schedule_of("a")
        job = schedule.receive_nowait()
        schedule.remove("a")
        schedule.add_all(other)
        assert repr(schedule).endswith(f"{len(other)} key{'s' * (not other)}>")
        return partial(look, schedule), lambda: (job.leave(), schedule.failing)

    expected = len(other) if look is len else False
    assert {seen for seen, _ in each_interleaving(begin, monkeypatch)} == {expected}


def test_no_job_is_taken_once_the_schedule_was_drained_after_its_deadline(monkeypatch):
    """Nor once close() has returned, by which drain() begins then."""
    monkeypatch.setattr(_core, "_PATIENCE", 3)

    def begin():
        clock = SetClock()
        schedule = schedule_of("a", clock=clock, token=CancellationToken(timeout=5, clock=clock))
        jobs = []

        def take():
            with contextlib.suppress(WouldBlock, ScheduleClosed):
                jobs.append(schedule.receive_nowait())

        def drain():
            clock.advance(5)
            schedule.drain(0)
            return schedule.in_flight, schedule, jobs

        return take, drain

    seen = []
    for _, (held, schedule, jobs) in each_interleaving(begin, monkeypatch):
        assert held or not jobs
        assert (schedule.in_flight, len(schedule)) == (len(jobs), 1)
        seen.append((held, len(jobs)))
        for job in jobs:
            job.leave()
    assert {(0, 0), (1, 1)} <= {*seen}


NOW = [partial(call, timeout=0) for call in (Schedule.receive, Schedule.drain, select)]


@pytest.mark.parametrize("look", [Schedule.receive_nowait, *NOW])
@pytest.mark.filterwarnings("ignore:.*dropped before its end:ResourceWarning")
def test_who_does_not_wait_sees_what_it_did_while_others_own_the_keys(monkeypatch, look):
    def go_on():
        schedule._owner = None
        schedule._settle()

    monkeypatch.setattr(_core, "let_other_threads_run", go_on)
    schedule = schedule_of("a")
    job = schedule.receive(0)
    schedule._owner = _process.generation, 0  # no thread's identity
    job.retry_in(0)
    assert look(schedule)

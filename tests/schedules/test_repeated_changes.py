"""A change of keys that an interrupt cuts short, at any place, comes to the same when repeated."""

from contextlib import nullcontext, suppress
from functools import partial
from math import inf
from random import Random

import pytest

from backoff_ticker import Schedule, WouldBlock
from backoff_ticker.schedules._core import Change
from backoff_ticker.schedules._keys import Entry, Keys
from tests import effort
from tests.helpers import SetClock
from tests.stress.places import Interrupted, each_place


class Key:
    def __init__(self, number):
        self.number = number

    def __hash__(self):
        return self.number % 2

    def __eq__(self, other):
        return self.number == other.number


class Run:
    """A schedule, and what is seen of it after each step."""

    def __init__(self, limit):
        self.clock = SetClock()
        options = {} if limit is None else {"group": lambda key: key.number % 2, "limit": limit}
        self.schedule = Schedule(clock=self.clock, notify=lambda *_: None, **options)
        self.jobs, self.seen = [], []

    def make(self, step, interrupt=None):
        """Tell a change, and have an owner make it, or take a job."""
        kind, number, seconds = step
        schedule, change = self.schedule, None
        self.clock.advance(0.001)  # so that no two keys are due at once
        if kind == "add":
            key = Key(number)
            due = self.clock.now + seconds
            change = Change(
                Keys.add, [Entry(key, due, *(schedule._traits or schedule._traits_of(key)))]
            )
        elif kind == "remove":
            change = Change(Keys.remove, Key(number))
        elif kind != "take" and self.jobs:
            job = self.jobs.pop(number % len(self.jobs))
            change = job._hold
            dues = {"fails": self.clock.now + seconds, "given back": job.due, "is done": inf}
            failures = job.failures + (kind == "fails")
            now = job.due if kind == "given back" else self.clock.now
            change.outcome = dues.get(kind), failures, now
        if change is not None:
            schedule._told.append(change)
        before = len(self.jobs)
        for context in (interrupt or nullcontext(), nullcontext()):
            with suppress(Interrupted, WouldBlock), context:
                if kind == "take" and len(self.jobs) == before:
                    self.jobs.append(schedule.receive_nowait())
                assert schedule.in_flight == len(self.jobs)
        keys = {number for number in range(4) if Key(number) in schedule}
        assert len(schedule) == len(keys)
        due = sorted((entry.key.number, entry.due) for entry in schedule._keys.entries.values())
        self.seen.append((step, getattr(change, "answer", None), keys, due, schedule.failing))

    def end(self):
        """Take all that is left, each as soon as it may come."""
        for kind in ("given back", "take", "leaves", "take", "leaves"):
            for _ in range(4):
                self.clock.advance(2)
                self.make((kind, 0, 0))
        assert (len(self.schedule), self.schedule._keys._groups) == (0, {})


KINDS = ["add", "add", "remove", *["take"] * 3, "fails", "given back", "is done", "leaves"]


@pytest.mark.parametrize("limit", [None, 1, 2])
@pytest.mark.parametrize("seed", range(effort.rounds(1, 15)))
def test_a_change_that_is_repeated_comes_to_the_same(limit, seed):
    random = Random(seed)
    steps = [(random.choice(KINDS), random.randrange(4), random.choice([0, 2])) for _ in range(30)]
    whole = Run(limit)
    for step in steps:
        whole.make(step)
    whole.end()

    def run(at, interrupt):
        cut = Run(limit)
        for number, step in enumerate(steps):
            cut.make(step, interrupt if number == at else None)
        cut.end()
        interrupt.forget()
        assert cut.seen == whole.seen, interrupt.where

    for at in range(len(steps)):
        each_place(partial(run, at), all_of_them=effort.has_lock())
